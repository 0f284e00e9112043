"""Folders and files of raw output that were lost, replaced or added."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from cnibench.errors import InputError
from cnibench.rundir.reader import RunReader
from cnibench.rundir.verification import verify
from cnibench.rundir.writer import RunWriter
from tests.unit._call import call
from tests.unit._store import cell, manifest


@pytest.mark.parametrize("what", ["raw", "raw/CELL", "raw/CELL/0"])
def test_readers_name_raw_output_that_is_gone(run: Path, what: str) -> None:
    cell = RunReader(run).plan.cells[-1].id
    shutil.rmtree(run / what.replace("CELL", cell))
    for verified in (False, True):
        problems = verify(RunReader(run), raw=verified)
        assert {problem.kind for problem in problems} == {"lost"}
        assert all(problem.file.startswith(what.replace("CELL", cell)) for problem in problems)
        assert len(problems) == (3 if what == "raw/CELL" else 1)  # blocks of the cell
    told = call(["report", str(run)])
    assert told.exit_code == 1
    assert "problem: run: raw" in told.stdout[:100]
    with pytest.raises(InputError, match="damaged and cannot be resumed: raw"):
        RunWriter.resume(run)


def test_a_raw_folder_that_is_a_link_is_gone(run: Path, tmp_path: Path) -> None:
    (run / "raw").rename(tmp_path / "elsewhere")
    (run / "raw").symlink_to(tmp_path / "elsewhere")
    (problem,) = verify(RunReader(run))
    assert (problem.kind, problem.file) == ("lost", "raw")


def test_a_file_in_a_raw_folder_that_no_event_commits_is_named(run: Path) -> None:
    folder = sorted(run.glob("raw/*/1"))[0]
    (folder / "copy").write_bytes(b"x")
    (folder / "below").mkdir()
    (folder / "below" / "other").write_bytes(b"x")
    assert not verify(RunReader(run))
    problems = verify(RunReader(run), raw=True)
    assert [problem.kind for problem in problems] == ["not chained"] * 2
    assert [Path(problem.file).name for problem in problems] == ["other", "copy"]
    with pytest.raises(InputError, match="damaged and cannot be resumed"):
        RunWriter.resume(run)


@pytest.mark.parametrize("added", ["7", "0.attempt-9"])
@pytest.mark.parametrize("method", ["windows", "slices"])
def test_an_added_folder_of_a_finished_run_is_named(
    tmp_path: Path, added: str, method: str
) -> None:
    """Nothing is in flight there."""
    one, path = cell(method=method), tmp_path / "run"
    with RunWriter.create(path, manifest([one])) as writer:
        writer.event("run-started")
        (writer.raw(one, 0) / "stdout").write_bytes(b"of a tool")
        writer.finish(one, 0, [])
        killed = shutil.copytree(path, tmp_path / "killed")
        writer.event("run-finished")
    for folder in (path, killed):
        shutil.copytree(folder / "raw" / one.id / "0", folder / "raw" / one.id / added)
    for raw in (False, True):
        assert not verify(RunReader(killed), raw=raw)
        (problem,) = verify(RunReader(path), raw=raw)
        assert (problem.kind, problem.file) == ("not chained", f"raw/{one.id}/{added}")
    assert call(["verify", str(path)]).exit_code == 1
    with pytest.raises(InputError, match="damaged and cannot be resumed: raw"):
        RunWriter.resume(path)
