"""Runs whose seal or last events are missing, or whose writer is still at work."""

from __future__ import annotations

from pathlib import Path

from cnibench.rundir.reader import RunReader
from cnibench.rundir.verification import verify
from cnibench.rundir.writer import RunWriter
from tests.unit._call import call
from tests.unit._store import MANIFEST, measure


def warned(run: Path) -> bool:
    """Of the seal; nothing is wrong with the run."""
    reader = RunReader(run)
    assert not verify(reader, raw=True)
    return any("seal.json is missing" in warning for warning in reader.warnings)


def test_an_environment_that_no_event_names_is_named(run: Path) -> None:
    """An event is written before its document: this one is of another run, or its event is lost."""
    events = run / "events.jsonl"
    events.write_bytes(events.read_bytes().splitlines(keepends=True)[0])
    kinds = {(problem.kind, problem.file) for problem in verify(RunReader(run))}
    assert ("not chained", "env.json") in kinds
    (run / "env.json").unlink()
    kinds = {(problem.kind, problem.file) for problem in verify(RunReader(run))}
    assert ("not chained", "env.json") not in kinds


def test_a_missing_seal_is_said_and_written_again_on_resume(run: Path) -> None:
    """A writer that was killed after its last event had no time for the seal."""
    seal = (run / "seal.json").read_bytes()
    (run / "seal.json").unlink()
    assert warned(run)
    said = call(["report", str(run)])
    assert said.exit_code == 0
    assert "seal.json is missing, although the run finished" in said.stdout + said.stderr
    done = call(["run", "--resume", str(run)])
    assert done.exit_code == 0, done.stderr
    assert (run / "seal.json").read_bytes() == seal
    assert not warned(run)


def test_a_seal_that_is_being_written_is_not_lost(run: Path) -> None:
    with RunWriter.resume(run):
        (run / "seal.json").unlink()
        assert not warned(run)
    assert warned(run)


def test_a_reader_beside_a_live_writer_sees_no_damage(tmp_path: Path) -> None:
    """What is measured during the reading is not lost: a warning says that the run continues."""
    path = tmp_path / "run"
    with RunWriter.create(path, MANIFEST) as writer:
        writer.event("run-started")
        writer.environment({"kernel": "6.1"})
        measure(writer, 0)
        readers = [RunReader(path) for _ in range(4)]
        for reader in readers:
            assert reader.chain.count
        writer.environment({"kernel": "6.1", "more": True})
        for block in (1, 2):
            measure(writer, block)
        assert verify(readers[0], raw=True) == []
        assert len(list(readers[1].samples())) == 2
        assert any("the run is still in progress" in text for text in readers[0].warnings)
        writer.event("run-finished")
    assert verify(readers[2], raw=True) == []
    fresh = RunReader(path)
    assert verify(fresh, raw=True) == []
    assert fresh.warnings == []
