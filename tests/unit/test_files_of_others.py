"""A resumed run replaces no file that it did not write."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from cnibench.rundir.reader import RunReader
from cnibench.rundir.verification import verify
from cnibench.rundir.writer import RunWriter
from cnibench.rundir.writing import report_file
from tests.unit._call import call
from tests.unit._store import MANIFEST, measure

NOTES = b"my own notes\n"


def _interrupted(folder: Path) -> Path:
    with RunWriter.create(folder, MANIFEST) as writer:
        writer.event("run-started")
        writer.environment({"kernel": "6.1"})
        measure(writer, 0)
    return folder


def _resumed(folder: Path) -> None:
    with RunWriter.resume(folder) as writer:
        writer.event("run-resumed")
        writer.environment({"kernel": "6.1", "again": True})
        measure(writer, 1)
        measure(writer, 2)
        writer.event("run-finished")


def test_a_file_with_the_name_of_the_next_environment_is_kept(folder: Path) -> None:
    run = _interrupted(folder)
    (run / "env-2.json").write_bytes(NOTES)
    _resumed(run)
    assert (run / "env-2.json.orphan-1").read_bytes() == NOTES
    assert [facts.get("again") for facts in RunReader(run).environments] == [None, True]
    (event,) = [one for one in RunReader(run).events() if one["event"] == "set-aside"]
    assert event["orphans"] == {"env-2.json": "env-2.json.orphan-1"}
    assert not verify(RunReader(run), raw=True)


def _folder(path: Path) -> None:
    path.mkdir()


def _link(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize(
    ("make", "kind"), [(os.mkfifo, stat.S_ISFIFO), (_folder, stat.S_ISDIR), (_link, stat.S_ISLNK)]
)
@pytest.mark.parametrize("name", ["env-2.json", "series.jsonl"])
def test_what_is_no_regular_file_is_renamed_unopened(
    folder: Path, make: Callable[[Path], None], kind: Callable[[int], bool], name: str
) -> None:
    run = _interrupted(folder)
    make(run / name)
    with RunWriter.resume(run) as writer:
        writer.event("run-resumed")
        writer.environment({"kernel": "6.1", "again": True})
        (cell,) = MANIFEST.cells[:1]
        writer.finish(cell, 1, [], [("series", {"total": 1.0})])
    assert kind(os.lstat(run / f"{name}.orphan-1").st_mode)
    assert [record["total"] for record in RunReader(run).records("series")] == [1.0]
    assert not verify(RunReader(run))


def test_a_file_that_comes_between_two_environments_of_a_run_is_kept(folder: Path) -> None:
    run = _interrupted(folder)
    with RunWriter.resume(run) as writer:
        (run / "env-2.json").write_bytes(NOTES)
        writer.event("run-resumed")
        writer.environment({"kernel": "6.1"})
        writer.environment({"kernel": "6.1", "more": True})
    assert (run / "env-2.json.orphan-1").read_bytes() == NOTES
    assert not (run / "env-2.json.orphan-2").exists()
    assert not verify(RunReader(run))


def test_a_report_that_somebody_edited_is_kept_and_named(folder: Path) -> None:
    run = _interrupted(folder)
    _resumed(run)
    assert report_file.store(run, "of the run\n") == ""
    assert report_file.store(run, "of the run again\n") == ""
    assert not list(run.glob("report.md.orphan-*"))
    for number, content in enumerate(
        [NOTES, b"", (run / "report.md").read_bytes() + NOTES], start=1
    ):
        (run / "report.md").write_bytes(content)
        assert report_file.store(run, "of the run\n") == f"report.md.orphan-{number}"
        assert (run / f"report.md.orphan-{number}").read_bytes() == content
        assert (run / "report.md").read_text().startswith("of the run\n")
    assert not verify(RunReader(run), raw=True)


def test_the_command_names_where_it_keeps_the_edited_report(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from cnibench.cli.measurement import results

    run = _interrupted(folder)
    _resumed(run)
    (run / "report.md").write_bytes(NOTES)
    results.show(run, as_json=False, quiet=False)
    assert "kept as report.md.orphan-1" in capsys.readouterr().err
    assert (run / "report.md.orphan-1").read_bytes() == NOTES
    results.show(run, as_json=False, quiet=False)
    assert "orphan" not in capsys.readouterr().err
    assert call(["verify", str(run)]).exit_code == 0


def test_the_report_is_named_as_the_current_directory_has_it(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from cnibench.cli.measurement import results

    run = _interrupted(folder).resolve()
    _resumed(run)
    for here, named in (
        (run.parent.parent, f"{run.parent.name}/{run.name}"),
        (Path("/usr"), f"{run}"),
    ):
        monkeypatch.chdir(here)
        results.show(run, as_json=False, quiet=False)
        last = capsys.readouterr().err.splitlines()[-1]
        assert last == f"everything else: cnibench report {named} (or its report.md)"
