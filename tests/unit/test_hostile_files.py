"""Files that somebody else has prepared: nothing but regular files is opened, no link is followed,
and everything has a limit.
"""

from __future__ import annotations

import os
import shutil
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from cnibench.cpp import summary, taxonomy
from cnibench.errors import InputError
from cnibench.importers import batch as batches
from cnibench.importers import files
from cnibench.importers.batch import Batch, Result
from cnibench.model.cell import Cell
from cnibench.rundir.writer import RunWriter
from cnibench.system.files import make_private
from tests._manifest import manifest
from tests.unit._call import Outcome, call
from tests.unit._runs import synthetic

GOLDEN = Path(__file__).parents[1] / "golden"
REPORT = GOLDEN / "iperf3" / "tcp.json"


def importing(form: str, path: Path, out: Path) -> Outcome:
    return call(["import", form, str(path), "--placement", "inter", "--out", str(out)])


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(path))


def _device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _link(path: Path) -> None:
    path.symlink_to(REPORT)


def _large(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(65 << 20)


def _folder(path: Path) -> None:
    path.mkdir()


KINDS: dict[str, tuple[Callable[[Path], None], str]] = {
    "fifo": (_fifo, "not a regular file"),
    "socket": (_socket, "not a regular file"),
    "device": (_device, "symbolic link"),
    "link": (_link, "symbolic link"),
    "large": (_large, "is larger than"),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("form", ["iperf3", "netperf", "k8s-netperf", "infrabuilder"])
@pytest.mark.parametrize("kind", KINDS)
def test_an_archive_with_something_else_than_files(kind: str, form: str, tmp_path: Path) -> None:
    make, words = KINDS[kind]
    folder = tmp_path / "archive" / "flannel" / "1"
    folder.mkdir(parents=True)
    make(folder / {"infrabuilder": "all.results", "netperf": "x.txt"}.get(form, "x.json"))
    found = importing(form, tmp_path / "archive", tmp_path / "runs")
    assert found.exit_code == 2
    assert words in found.stderr
    assert not (tmp_path / "runs").exists()


@pytest.mark.timeout(60)
def test_what_the_user_names_must_be_a_file_too(tmp_path: Path) -> None:
    _fifo(tmp_path / "fifo.json")
    for path in (tmp_path / "fifo.json", Path("/dev/zero"), Path("/dev/tty")):
        found = importing("iperf3", path, tmp_path / "runs")
        assert found.exit_code == 2
        assert "error:" in found.stderr
    for path in (tmp_path / "fifo.json", Path("/dev/zero"), tmp_path):
        for option in (
            ["--cni", f"{path}/."[:-2] if path.is_dir() else str(path)],
            ["--plan", str(path)],
        ):
            found = call(["run", "--dry-run", *option])
            assert found.exit_code == 2, (path, option)
            assert "a bug" not in found.stderr


def test_a_link_that_the_user_names_is_followed(tmp_path: Path) -> None:
    _link(tmp_path / "mine.json")
    assert importing("iperf3", tmp_path / "mine.json", tmp_path / "runs").exit_code == 0


def test_folders_behind_links_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "archive").mkdir()
    shutil.copy(REPORT, tmp_path / "archive" / "x.json")
    (tmp_path / "archive" / "out").symlink_to(GOLDEN)
    (tmp_path / "archive" / "loop").symlink_to(tmp_path / "archive")
    found = importing("iperf3", tmp_path / "archive", tmp_path / "runs")
    assert found.stdout.startswith("1 result of 1 profile ("), found.stderr


def test_kept_files_stay_in_the_run_and_are_for_the_owner(tmp_path: Path) -> None:
    folder = tmp_path / "archive" / ".."[:1] / "a\nb"
    folder.mkdir(parents=True)
    shutil.copy(REPORT, folder / "..;\x1b[31m{x}.json")
    assert importing("iperf3", tmp_path / "archive", tmp_path / "runs").exit_code == 0
    (run,) = (tmp_path / "runs").iterdir()
    (kept,) = (run / "raw" / "imported").iterdir()
    assert kept.name == "0001-..___31m_x_.json"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert {stat.S_IMODE((run / name).stat().st_mode) for name in ("raw", "raw/imported")} == {
        0o700
    }


def test_names_and_numbers_of_results_have_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def one(label: str) -> Result:
        return Result(
            label=label, placement="inter", workload="idle", params={}, figures=(), file=tmp_path
        )

    with pytest.raises(InputError, match="a name of more than"):
        Batch(tmp_path).add([one("x" * 1001)])
    monkeypatch.setattr(batches, "_MOST_RESULTS", 3)
    with pytest.raises(InputError, match="more than 3 results"):
        Batch(tmp_path).add([one("x")] * 4)
    monkeypatch.setattr(files, "_MOST_FILES", 2)
    for number in range(3):
        (tmp_path / f"{number}.json").touch()
    with pytest.raises(InputError, match="more than 2 files"):
        files.files(tmp_path, (".json",))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: " + "[" * 5000, "not YAML that can be read"),
        ("a: " + "{a: " * 2000 + "1" + "}" * 2000, "not YAML that can be read"),
        ("a: &a [x]\nb: *a\n", "aliases are not allowed"),
        ("x" * 300_000, "is larger than"),
        ("a: " + "9" * 5000, "not YAML that can be read"),
        ("\x00", "x.yaml"),
        ("? [a]\n: b\n", "x.yaml"),
        ("a: !!python/object:os.system x", "x.yaml"),
        ("[1]", "expected a mapping"),
    ],
)
def test_yaml_bombs(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text(text)
    for option in ("--cni", "--plan"):
        found = call(["run", "--dry-run", option, str(tmp_path / "x.yaml")])
        assert found.exit_code == 2
        assert words in found.stderr


@pytest.mark.parametrize("cell", ["../../..", "/etc", "..", "link"])
def test_a_record_leads_to_no_file_outside_of_its_run(cell: str, tmp_path: Path) -> None:
    reader = synthetic(tmp_path, {"flannel": 1.0}, blocks=1)
    (tmp_path / "0").mkdir()
    (tmp_path / "0" / "stacks.folded").write_text("cell;[user];secret 1 1\n")
    (reader.path / "raw" / "link").symlink_to(tmp_path)
    group, *_ = summary.groups([{**record, "cell": cell} for record in reader.records("cpp")])
    with pytest.raises(InputError):
        summary.trees(reader, group, taxonomy.load())


def test_folders_for_raw_output_are_private_from_the_start(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        cell = Cell(label="flannel", profile="flannel", placement="inter", workload="tcp-rr")
        with RunWriter.create(tmp_path / "run", manifest([cell])) as run:
            folder = run.raw(cell, 0)
    finally:
        os.umask(before)
    for made in (folder, folder.parent, folder.parent.parent):
        assert stat.S_IMODE(made.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    "arguments",
    [
        ("runs", "list"),
        ("report", "last"),
        ("site", "RUN", "--out", "x"),
        ("query", "SELECT 1", "RUN"),
        ("report", "RUN", "--format", "parquet"),
        ("report", "RUN", "--out", "x.md"),
    ],
)
def test_a_working_directory_that_is_gone_is_named(
    arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = synthetic(tmp_path, {"a": 1.0, "b": 1.1}, blocks=6)
    (tmp_path / "gone").mkdir()
    with monkeypatch.context() as patch:
        patch.chdir(tmp_path / "gone")
        (tmp_path / "gone").rmdir()
        found = call([str(run.path) if word == "RUN" else word for word in arguments])
        patch.chdir(tmp_path)
    assert found.exit_code == 2
    assert found.stderr == (
        "error: the working directory is gone\n  remedy: change into a folder that exists\n"
    )


def test_raw_files_become_private(tmp_path: Path) -> None:
    (tmp_path / "raw" / "a").mkdir(parents=True)
    (tmp_path / "raw" / "a" / "file").write_text("x")
    (tmp_path / "other").write_text("x")
    (tmp_path / "raw" / "link").symlink_to(tmp_path / "other")
    _fifo(tmp_path / "raw" / "fifo")
    before = stat.S_IMODE((tmp_path / "other").stat().st_mode)
    make_private(tmp_path / "raw")
    assert stat.S_IMODE((tmp_path / "raw" / "a" / "file").stat().st_mode) == 0o600
    assert {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("raw", "raw/a")} == {0o700}
    assert stat.S_IMODE((tmp_path / "other").stat().st_mode) == before
