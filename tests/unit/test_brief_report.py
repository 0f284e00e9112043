"""The report on one screen, with which a run ends."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cnibench.analysis import analyse
from cnibench.reports.brief import PROVIDER as BRIEF
from cnibench.rundir.reader import RunReader
from tests.unit._brief import rows
from tests.unit._call import call
from tests.unit._runs import edited, synthetic


def brief(folder: Path, truth: dict[str, float], width: int = 200, **run: object) -> list[str]:
    analysis = analyse([synthetic(folder, truth, **run)])  # type: ignore[arg-type]
    return BRIEF.render(analysis, width).splitlines()


def test_each_place_has_the_best_and_how_much_the_others_differ(tmp_path: Path) -> None:
    lines = brief(tmp_path, {"fast": 1.0, "slow": 0.8}, noise=0.002)
    place = rows(lines)["tcp-rr between nodes"]
    assert re.fullmatch(r"best \d+\.\d k/s", place["fast"])
    low, high = re.fullmatch(r"(-\d+\.\d) to (-\d+\.\d) %", place["slow"]).groups()  # type: ignore[union-attr]
    assert -21.0 < float(low) <= float(high) < -19.0


def test_what_is_undecided_is_marked_and_counted(tmp_path: Path) -> None:
    lines = brief(tmp_path, {"one": 1.0, "other": 1.0}, blocks=3, noise=0.02)
    assert "after 3 blocks, 0 of 4 pairs different" in " ".join(lines)
    assert ", 4 undecided (~); " in " ".join(lines)
    assert len(rows(lines)) == 4
    for place in rows(lines).values():
        (other,) = (said for said in place.values() if not said.startswith("best "))
        assert re.fullmatch(r"~ -\d\.\d to \+\d\.\d %", other)


def test_what_is_proven_to_be_equal_is_marked(tmp_path: Path) -> None:
    lines = brief(tmp_path, {"a": 1.0, "b": 1.0}, noise=0.002, seed=3)
    assert all(
        re.fullmatch(r"(best .*|= -\d\.\d to \+\d\.\d %)", said)
        for place in rows(lines).values()
        for said in place.values()
    )
    assert "4 equal within 5 % (=)" in " ".join(lines)


def test_too_few_blocks_give_medians_and_what_is_needed(tmp_path: Path) -> None:
    lines = brief(tmp_path, {"a": 1.0, "b": 0.5}, blocks=1)
    place = rows(lines)["tcp-rr on one node"]
    assert re.fullmatch(r"\d\d\.\d k/s", place["a"])
    assert re.fullmatch(r"~ \d\d\.\d k/s", place["b"])
    assert "after 1 block, 0 of 4 pairs" in " ".join(lines)
    assert "4 undecided (~); at least 6 blocks are needed." in " ".join(lines)


def test_few_blocks_are_compared_by_a_model_that_is_named(tmp_path: Path) -> None:
    lines = brief(tmp_path, {"a": 1.0, "b": 0.5}, blocks=3)
    place = rows(lines)["tcp-rr on one node"]
    assert re.fullmatch(r"-5\d\.\d to -4\d\.\d %", place["b"])
    assert "4 of 4 pairs different, 4 of them assuming normal noise" in " ".join(lines)


def test_a_difference_without_an_interval_is_not_shown(tmp_path: Path) -> None:
    """So few blocks at so small a level have none: what is left is that nothing is decided."""
    analysis = analyse([synthetic(tmp_path, {"a": 1.0, "b": 0.9}, noise=0.02)])
    bare = [
        msgspec.structs.replace(
            pair, ci_low=None, ci_high=None, verdict="no-difference-found", within=None
        )
        for pair in analysis.pairs
    ]
    lines = BRIEF.render(msgspec.structs.replace(analysis, pairs=bare), 200).splitlines()
    assert {place["b"] for place in rows(lines).values()} == {"~ undecided"}
    same = [msgspec.structs.replace(pair, within=0.01) for pair in bare]
    lines = BRIEF.render(msgspec.structs.replace(analysis, pairs=same), 200).splitlines()
    assert {place["b"] for place in rows(lines).values()} == {"= within 5 %"}


def test_one_block_is_no_plural(tmp_path: Path) -> None:
    run = synthetic(tmp_path, {"a": 1.0, "b": 0.5}, blocks=1)
    said = " ".join(BRIEF.render(analyse([run]), 200).split())
    report = call(["report", str(run.path)]).stdout
    assert "1 block is too few to compare" in " ".join(report.split())
    assert "1 blocks" not in report + said


def test_why_names_the_component_that_differs_most(tmp_path: Path) -> None:
    lines = brief(tmp_path, {"fast": 1.0, "slow": 0.8}, noise=0.002)
    (why,) = [line for line in lines if line.startswith("Why, ")]
    assert "slow takes " in why
    assert "cycles per packet, fast " in why
    assert "contributes most (+" in why
    assert "(estimated)" in why


def test_no_reason_is_given_where_nothing_differs(tmp_path: Path) -> None:
    assert not any(
        line.startswith("Why") for line in brief(tmp_path, {"a": 1.0, "b": 1.0}, noise=0.02, seed=3)
    )


def with_cpu_time(run: RunReader) -> RunReader:
    """The same run with CPU time in place of softirqs: a faster profile takes less."""

    def edit(line: dict[str, Any]) -> dict[str, Any]:
        if line["metric"] != "cpu_softirq":
            return line
        name = "cpu_per_transaction" if line["workload"] == "tcp-rr" else "cpu_per_byte"
        return line | {"metric": name, "unit": "s", "value": 1e-5 * line["value"]}

    return edited(run, edit)


def test_cpu_time_of_all_places_is_one_row(tmp_path: Path) -> None:
    truth = {"flannel": 0.8, "calico-wp-xsub": 0.7, "cilium": 1.0}
    analysis = analyse([with_cpu_time(synthetic(tmp_path, truth, noise=0.002))])
    lines = BRIEF.render(analysis, 80).splitlines()
    (row,) = [line for line in lines if line.startswith("CPU time above the least ")]
    found = re.fullmatch(
        r"CPU time above the least +(\+\d+\.\d) to (\+\d+\.\d) % +(\+\d+\.\d) to (\+\d+\.\d) %"
        r" +least",
        row,
    )
    assert found
    for number, label in enumerate(("flannel", "calico-wp-xsub")):
        low, high = (1 + float(found[2 * number + end]) / 100 for end in (1, 2))
        assert low < 1 / truth[label] < high < 1.03 * low
    assert len(lines) <= 11
    (said,) = [line for line in analysis.summary if line.startswith("CPU time above the least")]
    assert "over all places: cilium least; flannel +" in said


def test_cpu_time_that_is_not_proven_to_differ_is_marked(tmp_path: Path) -> None:
    run = with_cpu_time(synthetic(tmp_path, {"a": 1.0, "b": 1.0}, noise=0.02, seed=3))
    lines = BRIEF.render(analyse([run]), 80).splitlines()
    (row,) = [line for line in lines if line.startswith("CPU time above the least ")]
    assert "~ -" in row
    one = synthetic(
        tmp_path / "one", {"a": 1.0, "b": 0.5}, placements=("intra",), workloads=("tcp-rr",)
    )
    row = next(
        line
        for line in BRIEF.render(analyse([with_cpu_time(one)]), 80).splitlines()
        if "CPU" in line
    )
    assert re.search(r"least \d\.\d\d us +\+\d+\.\d to \+\d+\.\d %$", row)


def test_cpu_time_has_verdicts_beside_the_main_metric(tmp_path: Path) -> None:
    run = with_cpu_time(synthetic(tmp_path, {"fast": 1.0, "slow": 0.8}, noise=0.002))
    text = call(["report", str(run.path)]).stdout
    tables = re.findall(r"CPU time per\s+(?:transaction|byte), \S+ +median.*\n.*\n.*", text)
    assert len(tables) == 4
    assert all(re.search(r"slow .* 1\.2\d\d \[1\.2\d\d, 1\.2\d\d\] +b", one) for one in tables)
    assert "CPU time per transaction or byte: 4 of 4 pairs significantly different" in " ".join(
        text.split()
    )


def test_failures_are_said(tmp_path: Path) -> None:
    lines = brief(
        tmp_path, {"a": 1.0, "b": 0.5, "c": 0.4}, blocks=8, fail=[("c", n) for n in range(8)]
    )
    (failed,) = [line for line in lines if line.startswith("Failed: ")]
    assert " samples of c, first: the server is gone" in failed


@pytest.mark.parametrize("count", [1, 2, 3, 8, 16])
def test_four_places_take_about_ten_lines(tmp_path: Path, count: int) -> None:
    every = ["flannel", "calico-wp-xsub", "cilium", *(f"kube-router-{n}" for n in range(13))]
    truth = {label: 1 - 0.04 * (n // 2) for n, label in enumerate(every[:count])}
    lines = brief(tmp_path, truth, 80, noise=0.002)
    assert max(map(len, lines)) <= 80
    assert len(lines) <= (10 if count <= 8 else 12)  # two names of 14 letters wrap
    assert lines[0].endswith("fidelity: a model, not the CNI")
    assert len([line for line in lines if line.startswith("tcp-")]) == 4
    if count > 4:
        assert "The best of" in lines[1]
        assert re.search(
            r": (flannel|calico-wp-xsub) \d\S+ \S+ \(\+1\); kube-router-\d+ -\d+\.\d ±\d\.\d %",
            " ".join("\n".join(lines).split()),
        )


def test_settings_that_do_not_hold_stay_visible(tmp_path: Path) -> None:
    facts = {"unheld": ["--priority: refused"], "busy": 1.4, "cpus_online": 2}
    lines = brief(tmp_path, {"a": 1.0, "b": 0.8}, 80, environment=facts)
    assert lines[1] == "Settings that do not hold: --priority: refused."
    assert any(line.startswith("Busy machine: other programs used 1.4 of 2 CPUs") for line in lines)


def test_what_the_undecided_pairs_need_is_in_the_report(tmp_path: Path) -> None:
    run = synthetic(tmp_path, {"a": 1.0, "b": 1.0}, blocks=8, noise=0.05)
    text = " ".join(call(["report", str(run.path)]).stdout.split())
    assert "Decided after 8 blocks: " in text
    assert "Undecided: a / b, tcp-rr on one node: " in text


def test_full_belongs_to_text(tmp_path: Path) -> None:
    run = synthetic(tmp_path, {"a": 1.0})
    done = call(["report", str(run.path), "--full", "--format", "md"])
    assert done.exit_code == 2
    assert "--full does not apply to md" in done.stderr
    full = call(["report", str(run.path), "--full"]).stdout
    assert len(full) > len(call(["report", str(run.path)]).stdout)
