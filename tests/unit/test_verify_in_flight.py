"""Raw output that no event commits: no damage where a session ended while it measured the sample,
lost where more was measured than one session can have left.
"""

from __future__ import annotations

from pathlib import Path

from cnibench.model.cell import Cell
from cnibench.rundir.reader import RunReader
from cnibench.rundir.verification import verify
from cnibench.rundir.writer import RunWriter
from tests.unit._store import cell, manifest


def interrupted(folder: Path) -> tuple[Path, list[Cell]]:
    """A run of two cells that ended while the first was measured."""
    path = folder / "run"
    cells = [cell("a"), cell("b")]
    with RunWriter.create(path, manifest(cells)) as writer:
        writer.event("run-started")
        (writer.raw(cells[0], 0) / "stdout").write_bytes(b"half")
    return path, cells


def test_a_later_attempt_without_its_event_counts_as_one_in_flight(tmp_path: Path) -> None:
    path = tmp_path / "run"
    (first, second) = (cell("a"), cell("b"))
    with RunWriter.create(path, manifest([first, second])) as writer:
        for one in (first, second):
            (writer.raw(one, 0) / "stdout").write_bytes(b"of a tool")
            writer.finish(one, 0, [])
        for one in (first, second):
            assert not verify(RunReader(path), raw=True)
            (writer.raw(one, 0) / "stdout").write_bytes(b"again")
    (problem,) = verify(RunReader(path))
    assert (problem.kind, problem.file) == ("lost", "events.jsonl")


def test_each_session_has_one_sample_in_flight(tmp_path: Path) -> None:
    """Two interrupted sessions leave raw output of two samples, which is no damage."""
    path, cells = interrupted(tmp_path)
    with RunWriter.resume(path) as writer:
        writer.event("run-resumed")
        (writer.raw(cells[1], 0) / "stdout").write_bytes(b"half")
    assert not verify(RunReader(path), raw=True)
    assert (path / "raw" / cells[0].id / "0.interrupted-1" / "stdout").read_bytes() == b"half"
    RunWriter.resume(path).close()


def test_what_interrupted_sessions_left_in_a_finished_run_is_no_damage(tmp_path: Path) -> None:
    path, cells = interrupted(tmp_path)
    with RunWriter.resume(path) as writer:
        writer.event("run-resumed")
        for one in cells:
            (writer.raw(one, 0) / "stdout").write_bytes(b"of a tool")
            (writer.raw(one, 0) / "stdout").write_bytes(b"again")  # an outage spoilt the first
            writer.finish(one, 0, [])
        writer.event("run-finished")
    assert len(list(path.glob("raw/*/0.interrupted-*"))) == 3
    assert not verify(RunReader(path), raw=True)
    with RunWriter.resume(path) as writer:  # --retry-failed
        writer.event("run-resumed")
        (writer.raw(cells[0], 0) / "stdout").write_bytes(b"half")
        assert not verify(RunReader(path), raw=True)
    assert not verify(RunReader(path), raw=True)
    with RunWriter.resume(path) as writer:
        writer.event("run-resumed")
        writer.event("run-finished")  # --target-ci is met
    assert not verify(RunReader(path), raw=True)


def test_generators_that_wait_for_their_first_slice_are_no_loss(tmp_path: Path) -> None:
    """All cells of a block start together, and only what has slices was measured."""
    cells = [cell(label, method="slices") for label in ("a", "b", "c")]
    with RunWriter.create(tmp_path / "run", manifest(cells, blocks=2)) as writer:
        writer.event("run-started")
        for one in cells:
            (writer.raw(one, 0) / "client.stdout").write_bytes(b"of a tool")
    assert verify(RunReader(tmp_path / "run"), raw=True) == []
    for one in cells[:2]:
        (tmp_path / "run/raw" / one.id / "0/slices.jsonl").write_bytes(b"{}\n")
    (problem,) = verify(RunReader(tmp_path / "run"), raw=True)
    assert (problem.kind, problem.file) == ("lost", "events.jsonl")
