"""What the runner does with a run that goes well: its order, its windows and what it stores."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cnibench.model.cell import Attestation
from cnibench.planning.schedule import order
from cnibench.run.sample_context import SampleContext
from cnibench.rundir.reader import RunReader
from cnibench.rundir.writer import RunWriter
from cnibench.system.process import Process
from cnibench.testbed.cluster import Options
from tests.unit._local_cluster import (
    AttestedInFull,
    Echo,
    Local,
    LocalDeployment,
    OneByOne,
    Patient,
    Slow,
    Standing,
    cell,
    manifest,
    measured,
    runner,
)

pytestmark = pytest.mark.usefixtures("unhurried")


def test_blocks_interleave_the_profiles_and_everything_is_stored(folder: Path) -> None:
    cells = [cell("a"), cell("b")]
    with RunWriter.create(folder, manifest(cells, 2)) as writer:
        cluster = Local(Options())
        subject = runner(writer, cluster)
        subject.collectors = [Patient()]
        assert subject.run() == 0
    assert sorted(cluster.log[:2]) == ["install a", "install b"]
    assert cluster.log[-1] == "left"
    assert sorted(cluster.log[2:4]) == ["remove a", "remove b"]
    reader = RunReader(folder)
    expected = [(one.id, block) for block in range(2) for one in order(cells, block, 3)]
    assert measured(folder) == expected
    rates = [item for item in reader.samples() if item.metric == "transaction_rate"]
    assert all(
        item.value and item.value > 0 and item.unit == "1/s" and item.better == "higher"
        for item in rates
    )
    packets = [item for item in reader.samples() if item.metric == "packets"]
    assert all(
        item.params == {"fault": "", "interface": "lo"} and item.value and item.value > 0
        for item in packets
    )
    assert len(list(reader.records("series"))) == 4
    assert all(item.start < item.end and item.start.endswith("Z") for item in reader.samples())
    told = json.loads((reader.raw(cells[0], 1) / "cmd.json").read_text())
    assert told["argv"][0] == "bash"
    assert reader.environment["testbed"] == "lab"
    assert [event["event"] for event in reader.events()][-1] == "run-finished"
    assert reader.finished


def test_state_is_reset_before_each_cell(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[str] = []
    serve = Echo.serve

    def noted(self: Echo, s: SampleContext) -> Any:
        log.append(f"measure {s.cell.label}")
        return serve(self, s)

    monkeypatch.setattr(Echo, "serve", noted)
    monkeypatch.setattr(
        LocalDeployment, "reset_state", lambda self: log.append(f"reset {self.label}")
    )
    with RunWriter.create(folder, manifest([cell("a"), cell("b")], 2)) as writer:
        assert runner(writer, Local(Options())).run() == 0
    assert len(log) == 8
    for reset, measured_ in zip(log[::2], log[1::2], strict=True):
        assert (reset.split()[0], measured_.split()[0]) == ("reset", "measure")
        assert reset.split()[1] == measured_.split()[1]


def test_the_window_keeps_a_margin_from_both_ends_of_the_client(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tenth of the client's time passes before the window opens and after it has closed."""
    asked: list[float] = []
    watch = Process.watch

    def noted(self: Process, seconds: float) -> None:
        asked.append(seconds)
        watch(self, seconds)

    monkeypatch.setattr(Process, "watch", noted)
    with RunWriter.create(folder, manifest([cell("a")], 1)) as writer:
        assert runner(writer, Local(Options())).run() == 0
        duration = writer.manifest.duration
    before, window = asked
    assert before == pytest.approx(duration / 10)
    assert window <= 0.8 * duration  # less on a machine on which the collectors began late


def test_a_deployment_is_kept_for_as_many_blocks_as_the_plan_says(folder: Path) -> None:
    cells = [cell("a"), cell("b")]
    with RunWriter.create(folder, manifest(cells, 3, deployment_blocks=2)) as writer:
        cluster = Local(Options())
        assert runner(writer, cluster).run() == 0
    assert [sorted(cluster.log[at : at + 2]) for at in range(0, 8, 2)] == [
        ["install a", "install b"],
        ["remove a", "remove b"],
    ] * 2
    assert cluster.log[8:] == ["left"]
    installed = [
        event["block"]
        for event in RunReader(folder).events()
        if event["event"] == "profile-installed"
    ]
    assert installed == [0, 0, 2, 2]


def test_a_resumed_run_deploys_anew_and_keeps_to_the_plan(folder: Path) -> None:
    """Block 0 and 3 are there: 1 has a deployment of its own, 2 another, and 4 the next one."""
    one = cell("a")
    with RunWriter.create(folder, manifest([one], 6, deployment_blocks=2)) as writer:
        cluster = Local(Options())
        assert runner(writer, cluster, done={(one.id, 0), (one.id, 3)}).run() == 0
    events = [
        (event["event"], event["block"])
        for event in RunReader(folder).events()
        if event["event"] in ("profile-installed", "cell-finished")
    ]
    assert events == [
        ("profile-installed", 1),
        ("cell-finished", 1),
        ("profile-installed", 2),
        ("cell-finished", 2),
        ("profile-installed", 4),
        ("cell-finished", 4),
        ("cell-finished", 5),
    ]
    assert cluster.log.count("remove a") == 3


def test_one_profile_at_a_time_where_only_one_can_stand(folder: Path) -> None:
    with RunWriter.create(folder, manifest([cell("a"), cell("b")], 2)) as writer:
        cluster = OneByOne(Options())
        assert runner(writer, cluster).run() == 0
    installs = [line for line in cluster.log if line.startswith("install")]
    assert len(installs) == 4
    for at, line in enumerate(cluster.log):
        if line.startswith("install"):
            assert cluster.log[at + 1] == line.replace("install", "remove")


@pytest.mark.parametrize(("kind", "once"), [(Standing, True), (Slow, False)])
def test_what_stands_through_all_blocks_is_attested_once_between_two(
    folder: Path, monkeypatch: pytest.MonkeyPatch, kind: type[OneByOne], once: bool
) -> None:
    attested: list[str] = []
    attest = AttestedInFull.attest

    def noted(deployment: AttestedInFull) -> list[Attestation]:
        attested.append(deployment.label)
        return attest(deployment)

    monkeypatch.setattr(AttestedInFull, "attest", noted)
    cells = [cell("a"), cell("b")]
    with RunWriter.create(folder, manifest(cells, 3)) as writer:
        assert runner(writer, kind(Options())).run() == 0
    each = 1 + 3 if once else 2 * 3
    assert sorted(attested) == ["a"] * each + ["b"] * each
    installed = [one for one in RunReader(folder).events() if one["event"] == "profile-installed"]
    assert len(installed) == 6


def test_the_run_ends_where_its_target_is_reached(folder: Path) -> None:
    asked: list[int] = []

    def enough(blocks: int) -> str:
        asked.append(blocks)
        return "narrow enough" if blocks == 2 else ""

    with RunWriter.create(folder, manifest([cell("a")], 1, target_ci=0.5, max_blocks=9)) as writer:
        assert runner(writer, Local(Options()), enough=enough).run() == 0
    assert asked == [1, 2]
    assert [block for _, block in measured(folder)] == [0, 1]
    stopped = [event for event in RunReader(folder).events() if event["event"] == "stopped"]
    assert stopped[0]["reason"] == "narrow enough"


def test_the_lines_of_a_run_say_its_options(folder: Path) -> None:
    with RunWriter.create(folder, manifest([cell("a")], 1)) as writer:
        runner(writer, Local(Options(wire_rate=2e8, wire_offload="plain"))).run()
    line = next(iter(RunReader(folder).samples()))
    assert (line.wire_rate, line.pairs, line.duration, line.warmup_time, line.wire_offload) == (
        2e8,
        1,
        0.2,
        0.0,
        "plain",
    )
