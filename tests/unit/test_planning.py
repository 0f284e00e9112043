"""--blocks auto: from pairs, noise and resolution to blocks, and that so many blocks keep what was
promised.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import numpy as np
import pytest

from cnibench.analysis import analyse
from cnibench.analysis.calibration import calibration, scatter
from cnibench.errors import InputError, UsageError
from cnibench.model.cell import Cell
from cnibench.model.profile import builtin
from cnibench.planning import calibrations as planning
from cnibench.planning.blocks import with_blocks, words
from cnibench.planning.calibrations import Here
from cnibench.planning.cells import cells
from cnibench.planning.method import MEASURED
from cnibench.planning.noise import noise_of
from cnibench.planning.plan import Plan, Work, build_plan, read_plan
from cnibench.planning.schedule import ALONE
from cnibench.registry import providers
from cnibench.rundir.reader import RunReader
from cnibench.rundir.schema import CALIBRATION, Planned
from cnibench.rundir.verification import verify
from cnibench.rundir.writer import RunWriter
from cnibench.stats import inference as stats
from cnibench.stats.power import least_blocks, planned_blocks
from tests.unit._nested_runs import nested_run
from tests.unit._runs import synthetic

LABELS = ("a", "b", "c", "d")


def here(folder: Path, kernel: str = "6.1.0", testbed: str = "lab") -> Here:
    return Here(folder, "lab", testbed, kernel, "Synthetic CPU")


def calibrated(
    folder: Path,
    *,
    noise: float = 0.02,
    blocks: int = 120,
    name: str = "aa",
    created: str = "2026-01-01",
    **more: object,
) -> Path:
    """An A/A run as calibrate leaves it: one profile under two names."""
    reader = synthetic(
        folder,
        {"a": 1.0, "b": 1.0},
        noise=noise,
        blocks=blocks,
        name=name,
        placements=("intra",),
        cpp=False,
        created=created,
        **more,
    )  # type: ignore[arg-type]
    floors = [msgspec.to_builtins(one) for one in calibration([reader], 0.02).floors]
    (reader.path / CALIBRATION).write_text(json.dumps({"schema": 1, "floors": floors}))
    return reader.path


def plan(**more: object) -> Plan:
    return build_plan({"workload": ["tcp-rr"], "placement": "intra", **more})


def planned(
    one: Plan, folder: Path | None = None, labels: tuple[str, ...] = LABELS
) -> tuple[Plan, list[Planned]]:
    return with_blocks(
        one, labels, providers("workloads"), noise_of(one, here(folder) if folder else None)
    )


def simulated(truth: list[float], noise: float, blocks: int, runs: int) -> np.ndarray:
    """Holm's p of all pairs, runs x pairs, of runs with what a block has in common (3 %) and each
    cell's own noise.
    """
    rng = np.random.default_rng(len(truth))
    logs = (
        0.03 * rng.standard_normal((runs, 1, blocks))
        + noise * rng.standard_normal((runs, len(truth), blocks))
        + np.array(truth)[:, None]
    )
    one, other = np.triu_indices(len(truth), 1)
    p = stats.signed_rank((logs[:, one] - logs[:, other]).reshape(-1, blocks), interval=False).p
    return stats.holm(p.reshape(runs, -1))


@pytest.mark.parametrize("resolution", [0.02, 0.05])
@pytest.mark.parametrize("noise", [0.01, 0.03])
def test_auto_keeps_level_and_power_at_the_noise_that_calibrate_found(
    tmp_path: Path, resolution: float, noise: float
) -> None:
    """From a calibration to the number of blocks, and 2000 simulated runs of so many: the true
    noise, not the one found, makes them.
    """
    calibrated(tmp_path, noise=noise)
    whole, (one,) = planned(plan(resolution=resolution, max_blocks=500), tmp_path)
    assert not one.assumed
    assert "measured by aa-1" in one.source
    assert one.noise == pytest.approx(noise, rel=0.2)
    assert whole.blocks == one.blocks == one.wished == planned_blocks(6, one.noise, resolution)
    truth = [math.log1p(resolution)] + [0.0] * (len(LABELS) - 1)
    runs = 2000 if one.blocks < 60 else 500
    found = simulated(truth, one.noise, one.blocks, runs) <= 0.05
    assert float(found[:, : len(LABELS) - 1].mean()) >= 0.8 - 2.6 * math.sqrt(0.16 / runs)
    false = (simulated([0.0] * len(LABELS), noise, one.blocks, runs) <= 0.05).any(axis=1)
    assert float(false.mean()) <= 0.05 + 2.6 * math.sqrt(0.05 * 0.95 / runs)


def test_more_pairs_more_noise_and_finer_resolution_take_more_blocks() -> None:
    def blocks(labels: int, noise: float, resolution: float) -> int:
        names = tuple(f"p{i}" for i in range(labels))
        return int(
            planned(plan(noise=noise, resolution=resolution, max_blocks=1000), labels=names)[
                0
            ].blocks
        )

    assert blocks(2, 0.03, 0.05) < blocks(6, 0.03, 0.05) < blocks(15, 0.03, 0.05)
    assert blocks(3, 0.01, 0.05) < blocks(3, 0.03, 0.05) < blocks(3, 0.1, 0.05)
    assert blocks(3, 0.03, 0.2) < blocks(3, 0.03, 0.05) < blocks(3, 0.03, 0.01)
    assert blocks(15, 0.0, 0.05) == least_blocks(105)


def test_without_a_calibration_the_noise_is_assumed_and_says_so(tmp_path: Path) -> None:
    _, (rr, udp, rules) = planned(plan(workload=["tcp-rr", "udp-stream", "rule-path"]), tmp_path)
    assert (rr.assumed, rr.source, rr.noise) == (True, "assumed", 0.03)
    assert (udp.noise, rules.noise) == (0.04, 0.0)
    assert (rules.blocks, words([rules])) == (2, ["rule-path: 2 blocks: counted, not measured"])
    told = words([rr, udp])
    assert (
        "planned to find 5 % in each of 6 pairs with a power of 80% at a noise of 3 % (assumed)"
        in told[0]
    )
    assert words([rr, msgspec.structs.replace(rr, workload="http")])[0].startswith("tcp-rr, http: ")


def test_too_noisy_a_place_gets_the_most_blocks_and_is_reported_what_they_find() -> None:
    whole, (one,) = planned(plan(noise="11%"))
    assert (whole.blocks, one.blocks) == (30, 30)
    assert one.wished > 100
    assert one.finds > 0.05
    (told,) = words([one])
    assert f"--max-blocks {one.wished}" in told
    assert "or more" in told
    _, (hopeless,) = planned(plan(noise=1.0, resolution=1e-4))
    assert hopeless.wished == 0
    assert "no number of blocks" in words([hopeless])[0]
    assert planned(plan(max_blocks=1))[0].blocks == least_blocks(
        6
    )  # never so few that nothing could be decided


def test_only_a_calibration_that_fits_is_taken(tmp_path: Path) -> None:
    def source(**more: object) -> str:
        one = plan(**more)
        return with_blocks(one, LABELS, providers("workloads"), noise_of(one, here(tmp_path)))[1][
            0
        ].source

    calibrated(tmp_path, noise=0.01)
    measured = "measured by aa-1, "
    lacks = "assumed; aa-1 does not apply: it has no tcp-rr "
    assert source().startswith(measured)
    assert source(placement="inter").startswith(f"{lacks}inter")
    assert source(cpus="split") == f"{lacks}intra with --cpus split in windows of at most 10 s"
    assert source(duration="5s").startswith(lacks)  # its windows of 10 s were longer: less noisy
    for setting, said in (
        ({"mtu": 9000}, "mtu 1500 instead of 9000"),
        ({"wire_rate": "1G"}, "wire rate by default instead of 1000000000.0"),
        ({"pairs": 2}, "pairs 1 instead of 2"),
        ({"priority": "normal"}, "priority by default instead of normal"),
    ):
        assert source(**setting) == f"assumed; aa-1 does not apply: {said}"
    for other, said in (
        (here(tmp_path, kernel="6.2.0"), "kernel 6.1.0 instead of 6.2.0"),
        (here(tmp_path, testbed="vm"), "testbed lab instead of vm"),
        (
            Here(tmp_path, "lab", "lab", "6.1.0", "Other CPU"),
            "CPU Synthetic CPU instead of Other CPU",
        ),
        (Here(tmp_path, "kind"), "cluster lab instead of kind"),
    ):
        found = noise_of(plan(), other)(providers("workloads")["tcp-rr"], "intra", "windows", 10.0)
        assert found.assumed
        assert found.source == f"assumed; aa-1 does not apply: {said}"
    calibrated(tmp_path, noise=0.05, name="newer", created="2026-02-01")
    assert source().startswith("measured by newer-1, ")
    (tmp_path / "newer" / CALIBRATION).write_text("{not json")
    assert source().startswith(measured)
    place = {"workload": "tcp-rr", "placement": "intra", "cpus": "shared"}
    strange = [
        1,
        place,
        {**place, "noise": 0.5},
        {**place, "noise": 0.5, "duration": None},
        {**place, "noise": -1.0, "duration": 1.0},
    ]
    (tmp_path / "newer" / CALIBRATION).write_text(json.dumps({"floors": strange}))
    assert source().startswith(measured)
    (tmp_path / "newer" / "plan.json").write_text("{}")
    assert source().startswith(measured)


def test_the_plan_says_how_old_a_calibration_is_and_of_which_machine(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    for name, created, age in (
        ("hours", now - timedelta(hours=5), "5 h old"),
        ("days", now - timedelta(days=9), "9 days old"),
        ("ahead", now + timedelta(days=1), "dated in the future"),
    ):
        calibrated(tmp_path / name, created=created.isoformat(), blocks=12)
        _, (one,) = planned(plan(), tmp_path / name)
        assert one.source == f"measured by aa-1, {age}, on Synthetic CPU, Linux 6.1.0"
        assert f"({one.source})" in words([one])[0]
    calibrated(tmp_path / "strange", created="yesterday", blocks=12)
    assert "of unknown age" in planned(plan(), tmp_path / "strange")[1][0].source


def test_more_slices_than_were_calibrated_have_less_noise(tmp_path: Path) -> None:
    """By the lower limit of their part: the plan never has too few blocks for it."""
    run = nested_run(tmp_path, deployments=60, sds=(0.005, 0.005, 0.06))
    found = calibration([run], 0.02)
    (run.path / CALIBRATION).write_text(json.dumps({"schema": 1, **asdict(found)}))
    (floor,) = found.floors
    slices = floor.spread.slices
    assert slices is not None
    ask = noise_of(plan(method="slices"), here(tmp_path))
    rr = providers("workloads")["tcp-rr"]
    assert ask(rr, "intra", "slices", 0.25).value == floor.noise
    longer = ask(rr, "intra", "slices", 1.0).value
    assert longer == pytest.approx(math.sqrt(floor.noise**2 - 0.75 * slices.low**2))
    assert longer > math.sqrt(0.005**2 + 0.005**2 + 0.06**2 / 48)
    assert ask(rr, "intra", "slices", 0.2).assumed


def test_slices_have_a_noise_of_their_own(tmp_path: Path) -> None:
    def planned(**more: object) -> Planned:
        one = plan(method="slices", **more)
        return with_blocks(one, LABELS, providers("workloads"), noise_of(one, here(tmp_path)))[1][0]

    calibrated(tmp_path, noise=0.01)  # in windows
    rr = providers("workloads")["tcp-rr"]
    assert (planned().noise, planned().assumed) == (rr.slices_noise, True)
    in_windows = planned(workload=[{"name": "tcp-rr", "params": {"offload.pods": "tso-off"}}])
    assert in_windows.source.startswith(
        "measured by aa-1, "
    )  # what cannot be sliced is measured in windows
    crr = planned(workload=["tcp-crr"])
    assert crr.noise == providers("workloads")["tcp-crr"].noise  # nobody measured it in slices
    place = {"workload": "tcp-rr", "placement": "intra", "cpus": "shared", "method": "slices"}
    floors = [{**place, "noise": 0.013, "duration": MEASURED, "metric": "transaction_rate"}]
    (tmp_path / "aa" / CALIBRATION).write_text(json.dumps({"floors": floors}))
    assert planned().noise == 0.013
    assert planned().source.startswith("measured by aa-1, ")
    assert planned(duration="0.2s").assumed  # shorter than what was calibrated, so noisier
    assert planned(duration="2s").noise == 0.013


def test_a_calibration_that_somebody_changed_is_not_planned_with(tmp_path: Path) -> None:
    cells = [
        Cell(label=label, profile=label, placement="intra", workload="tcp-rr") for label in "ab"
    ]
    plan_of_it = msgspec.structs.replace(
        synthetic(tmp_path, {"a": 1.0}).plan, cells=cells, schema=2
    )
    floors = [{"workload": "tcp-rr", "placement": "intra", "cpus": "shared", "noise": 0.01}]
    with RunWriter.create(tmp_path / "run", plan_of_it) as writer:
        writer.event("run-started")
        writer.event("run-finished", failed=0)
    with RunWriter.resume(tmp_path / "run") as writer:
        writer.calibration({"schema": 1, "floors": floors})
    reader = RunReader(tmp_path / "run")
    assert verify(reader) == []
    assert reader.finished
    assert planning._stored(reader) == floors
    file = reader.path / CALIBRATION
    file.write_bytes(file.read_bytes().replace(b"0.01", b"0.001"))
    assert planning._stored(RunReader(reader.path)) == []
    assert [problem.file for problem in verify(RunReader(reader.path))] == [CALIBRATION]
    events = reader.path / "events.jsonl"
    events.write_bytes(b"".join(events.read_bytes().splitlines(keepends=True)[:-1]))
    assert [problem.file for problem in verify(RunReader(reader.path))] == ["events.jsonl"]


def test_a_run_that_is_named_gives_its_noise_whatever_it_was_made_for(tmp_path: Path) -> None:
    reader = synthetic(tmp_path, {"a": 1.0, "b": 1.3, "c": 0.8}, noise=0.02, blocks=60, cpp=False)
    found = {(one["workload"], one["placement"]): one["noise"] for one in scatter(reader)}
    assert set(found) == {
        (work, place) for work in ("tcp-stream", "tcp-rr") for place in ("intra", "inter")
    }
    assert all(noise == pytest.approx(0.02, rel=0.25) for noise in found.values())
    _, (one,) = planned(plan(noise=str(reader.path)), tmp_path)
    assert one.noise == found["tcp-rr", "intra"]
    with pytest.raises(UsageError, match=r"kernel 6\.1\.0 instead of 5"):
        noise_of(plan(noise=str(reader.path)), here(tmp_path, kernel="5"))
    with pytest.raises(UsageError, match="mtu 1500 instead of 9000"):
        noise_of(plan(noise=str(reader.path), mtu=9000), here(tmp_path))
    with pytest.raises(UsageError, match="it has no tcp-rr intra with --cpus split in windows"):
        planned(plan(noise=str(reader.path), cpus="split"), tmp_path)
    with pytest.raises(UsageError, match="no run 'nothing'"):
        noise_of(plan(noise="nothing"), here(tmp_path))


def test_a_number_of_its_own_stays_and_one_profile_needs_no_plan() -> None:
    works = [
        {"name": "tcp-rr"},
        {"name": "tcp-stream", "blocks": 3},
        {"name": "udp-stream", "only": "a"},
    ]
    whole, found = planned(plan(workload=works))
    assert [work.blocks for work in whole.workload] == [None, 3, ALONE]
    assert [one.workload for one in found] == ["tcp-rr"]
    assert whole.number_of_blocks(4) == found[0].blocks == whole.blocks
    assert planned(plan(blocks=7)) == (plan(blocks=7), [])
    assert planned(plan(target_ci="2%")) == (plan(target_ci="2%"), [])
    fixed, found = planned(plan(blocks=4, workload=[{"name": "tcp-rr", "blocks": "auto"}, "http"]))
    assert fixed.blocks == 4
    assert fixed.number_of_blocks(4) == found[0].blocks > 4


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("resolution", "0%"),
        ("resolution", "x"),
        ("resolution", "100%"),
        ("noise", "200%"),
        ("noise", "[]"),
    ],
)
def test_wrong_values_name_their_key(tmp_path: Path, key: str, text: str) -> None:
    file = tmp_path / "plan.yaml"
    file.write_text(f"schema: 1\n{key}: {text}\n")
    with pytest.raises(InputError, match=key):
        read_plan(file)


def test_a_plan_file_takes_both_and_auto_is_the_default(tmp_path: Path) -> None:
    file = tmp_path / "plan.yaml"
    file.write_text("schema: 1\nresolution: 2%\nnoise: 1.5 %\n")
    assert (read_plan(file).resolution, read_plan(file).noise) == (0.02, 0.015)
    assert (Plan().resolution, Plan().noise) == (0.05, "auto")
    assert (
        Plan.model_validate(json.loads(Plan(noise="last").model_dump_json(by_alias=True))).noise
        == "last"
    )
    assert Work(name="tcp-rr").blocks is None


def test_the_report_says_what_was_planned_and_when_the_noise_was_another(tmp_path: Path) -> None:
    _, found = planned(plan(resolution=0.02, noise=0.005))
    quiet = synthetic(tmp_path, {"a": 1.0, "b": 1.1}, noise=0.005, name="quiet", planned=found)
    loud = synthetic(tmp_path, {"a": 1.0, "b": 1.1}, noise=0.05, name="loud", planned=found)
    told = [
        next(
            line
            for line in analyse([one]).summary
            if line.startswith("The number of blocks was planned")
        )
        for one in (quiet, loud)
    ]
    assert all("tcp-rr for 2 % at a noise of 0.5 % (given), measured: " in line for line in told)
    assert "blocks" not in told[0].partition("measured")[2]
    assert "requires about" in told[1]
    assert analyse([quiet]).runs[0].planned == found
    assert not any(
        "planned" in line
        for line in analyse([synthetic(tmp_path, {"a": 1.0, "b": 1.0}, name="plain")]).summary
    )


def test_a_long_sweep_asks_once_for_the_blocks_of_all_workloads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """3000 values took a hundred seconds: each cell looked at all of them."""
    asked = []
    longest = Plan.number_of_blocks

    def counted(plan: Plan, profiles: int) -> int:
        asked.append(profiles)
        return longest(plan, profiles)

    monkeypatch.setattr(Plan, "number_of_blocks", counted)
    works = tuple(Work(name="tcp-rr", params={"request": one}) for one in range(1, 21))
    plan = Plan(workload=works)
    found, _ = cells(plan, providers("workloads"), {"veth-baseline": builtin()["veth-baseline"]})
    assert len({one.params["request"] for one in found}) == 20
    assert asked == [1]
