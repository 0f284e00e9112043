"""Reports say which windows of one second contradict the slices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from cnibench.analysis.build import analyse
from cnibench.run.provenance import Provenance, failure
from cnibench.rundir.reader import RunReader
from cnibench.rundir.schema import now
from cnibench.rundir.verification import verify
from cnibench.rundir.writer import RunWriter
from tests._manifest import manifest, transactions


def written(folder: Path, *more: float, **records: dict[str, Any]) -> RunReader:
    """A run with one record of a cross-check for each label, and of ``more`` blocks these rates."""
    cells = [transactions(label, method="slices") for label in records]
    with RunWriter.create(folder, manifest(cells, id=folder.name, blocks=1 + len(more))) as writer:
        writer.event("run-started")
        writer.environment({"kernel": "6.1"})
        for cell, record in zip(cells, records.values(), strict=True):
            ground = Provenance("lab", "veth", "plain", "datapath-model")
            line = failure(cell, 0, ground, "ok", "", now())[0]
            line = msgspec.structs.replace(
                line, metric="transaction_rate", unit="1/s", better="higher", value=1e4
            )
            writer.finish(cell, 0, [line], [("crosscheck", record)])
            for block, rate in enumerate(more, 1):
                later = msgspec.structs.replace(line, block=block, value=rate)
                writer.finish(cell, block, [later], [])
        writer.event("run-finished")
    return RunReader(folder)


def check(window: float | None, half: float = 0.01, **more: Any) -> dict[str, Any]:
    found = {} if window is None else {"transaction_rate": window, "latency_p99": 1e-4}
    plain = {"metric": "transaction_rate", "seconds": 1.0, "found": found, "reason": ""}
    return plain | {"value": 1e4, "half_width": half} | more


def notes(*readers: RunReader) -> list[str]:
    return [note for note in analyse(list(readers)).notes if "cross" in note]


def test_a_window_beyond_what_both_allow_is_named_with_both_values(tmp_path: Path) -> None:
    run = written(tmp_path / "run", a=check(9.0e3), b=check(5.0e3), c=check(2.0e4), d=check(9.9e3))
    assert notes(run) == [
        "cross-check: 2 of 4 windows of 1 s contradict the slices (allowed:"
        " 20%, which is assumed, and twice the scatter of the cell's slices from block to block;"
        " the median window is 0.94 times the slices): b,"
        " tcp-rr on one node: 5.00 k/s in a window, 10.0 k/s in slices; c, tcp-rr on one node: 20.0"
        " k/s in a window, 10.0 k/s in slices"
    ]


def test_a_machine_whose_speed_changes_contradicts_nothing(tmp_path: Path) -> None:
    """A window is a moment like each block: what blocks differ by, it may differ by, too."""
    assert notes(written(tmp_path / "calm", 1.01e4, 0.99e4, a=check(7.0e3)))
    assert notes(written(tmp_path / "few", 0.7e4, a=check(7.0e3)))  # two blocks have no scatter
    assert notes(written(tmp_path / "wild", 0.7e4, 1.3e4, a=check(7.0e3))) == []


def test_what_agrees_says_nothing(tmp_path: Path) -> None:
    assert notes(written(tmp_path / "run", a=check(9.0e3), b=check(1.1e4))) == []
    assert notes(written(tmp_path / "wide", a=check(5.0e3, half=0.7))) == []


def test_a_window_that_says_nothing_is_not_judged(tmp_path: Path) -> None:
    busy = check(1.0, reason="other programs use 1.9 of 2 CPUs")
    (said,) = notes(written(tmp_path / "none", a=check(None), b=busy, c=check(0.0)))
    assert said.endswith("could be compared with the slices: other programs use 1.9 of 2 CPUs")
    assert notes(written(tmp_path / "one", a=busy, b=check(1e4))) == []
    (said,) = notes(written(tmp_path / "two", a=busy, b=check(1e3)))
    assert "1 of 1 windows" in said
    assert "; 1 window was not judged)" in said


def test_a_record_that_cannot_be_used_is_left_out_and_reported(tmp_path: Path) -> None:
    for number, broken in enumerate(
        (
            {"found": []},
            {"found": {"transaction_rate": "x"}},
            {"value": None},
            {"half_width": "x"},
            {"reason": []},
        )
    ):
        (told,) = notes(written(tmp_path / str(number), a=check(1.0) | broken))
        assert "a record of crosscheck.jsonl" in told
        assert "has no usable figures" in told


def test_a_cross_check_is_committed_after_its_sample(tmp_path: Path) -> None:
    cell = transactions("a", method="slices")
    folder = tmp_path / "run"
    with RunWriter.create(folder, manifest([cell], id="run", blocks=2)) as writer:
        (writer.raw(cell, 0) / "slices.jsonl").write_text("{}\n")
        line = failure(cell, 0, Provenance("lab", "veth", "plain", ""), "failed", "why", now())[0]
        writer.finish(cell, 0, [line])
        raw = writer.raw_of_check(cell, 0)
        (raw / "netperf.txt").write_text("1")
    reader = RunReader(folder)  # an interruption left the window's output: the sample stands
    assert (reader.done(), verify(reader, raw=True)) == ({(cell.id, 0)}, [])
    with RunWriter.resume(folder) as writer:
        assert writer.cross_checked == set()
        (writer.raw_of_check(cell, 0) / "netperf.txt").write_text("2")
        writer.cross_check(cell, 0, check(1e4))
    with RunWriter.resume(folder) as writer:
        assert writer.cross_checked == {cell.id}
    reader = RunReader(folder)
    assert [one["value"] for one in reader.records("crosscheck")] == [1e4]
    assert verify(reader, raw=True) == []
    (raw / "netperf.txt").write_text("3")
    (problem,) = verify(RunReader(folder), raw=True)
    assert (problem.kind, problem.cell) == ("changed", cell.id)
