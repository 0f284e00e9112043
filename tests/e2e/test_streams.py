"""Standard streams that are closed, full or gone, a locale without Unicode, and a working directory
that is gone.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit._runs import synthetic
from tests.unit.test_text import a_run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("streams")
    a_run(made / "F")
    return made


def program(*arguments: str, shell: str, **more: str) -> subprocess.CompletedProcess[str]:
    """The program itself, as a shell starts it."""
    environment = {
        **os.environ,
        **more,
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    script = f'"$0" -c "from cnibench.cli.main import main; main()" "$@" {shell}'
    return subprocess.run(
        ["sh", "-c", script, sys.executable, *arguments],
        capture_output=True,
        text=True,
        env=environment,
        timeout=120,
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["runs", "--folder", "F"],
        ["runs", "--folder", "F", "--json"],
        ["--help"],
        ["runs", "show", "F/synthetic"],
    ],
)
def test_a_full_standard_output_is_reported(
    arguments: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    found = program(*arguments, shell=">/dev/full")
    assert found.returncode == 2
    assert (
        found.stderr
        == "error: standard output: No space left on device\n  remedy: write to a writable"
        " file on a disk with free space\n"
    )


@pytest.mark.parametrize("arguments", [["--format", "parquet"], ["--format", "csv"]])
def test_a_report_that_standard_output_does_not_take(tmp_path: Path, arguments: list[str]) -> None:
    """Bytes as well as text: above what is buffered, a write fails and not only the last flush."""
    run = synthetic(tmp_path, {"a": 1.0, "b": 0.9}, blocks=30)
    command = ["report", str(run.path), *arguments]
    found = program(*command, shell=">/dev/full")
    assert found.returncode == 2
    assert found.stderr.splitlines()[-2:] == [
        "error: standard output: No space left on device",
        "  remedy: write to a writable file on a disk with free space",
    ]
    closed = program(*command, shell=">&-")
    assert closed.returncode == 0
    assert "error" not in closed.stderr
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as pipe:
        gone = subprocess.run(
            [sys.executable, "-c", "from cnibench.cli.main import main; main()", *command],
            stdout=pipe,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            timeout=120,
        )
    assert gone.returncode == 0
    assert b"error" not in gone.stderr


def test_streams_that_are_closed_or_full_do_no_harm(folder: Path) -> None:
    runs = ("runs", "--folder", str(folder / "F"))
    assert program(*runs, shell=">&-").returncode == 0
    assert program(*runs, shell="2>&- </dev/null").returncode == 0
    assert program("runs", "show", "nothing", shell="2>/dev/full").returncode == 2
    assert program(*runs, shell="| head -n 1").stderr == ""


def test_a_reader_that_has_gone_is_no_error(folder: Path) -> None:
    runs = ["runs", "--folder", str(folder / "F")]
    # Gone before the first word is written: then a write fails, and not only the last flush.
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as pipe:
        for arguments in (runs, ["--help"], [*runs, "--json"]):
            found = subprocess.run(
                [sys.executable, "-c", "from cnibench.cli.main import main; main()", *arguments],
                stdout=pipe,
                stderr=subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                timeout=120,
            )
            assert (found.returncode, found.stderr) == (0, b""), arguments


def test_a_locale_without_unicode(folder: Path) -> None:
    found = program(
        "runs",
        "--folder",
        str(folder / "F"),
        shell="",
        PYTHONIOENCODING="ascii",
        PYTHONUTF8="0",
        LC_ALL="C",
    )
    assert found.returncode == 0, found.stderr
    assert found.stdout.isascii()


def test_a_working_directory_that_is_gone(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    for arguments in (
        ["runs"],
        ["report", "x"],
        ["import", "iperf3", "x", "--placement", "inter"],
        ["run", "--cni", "flannel", "--out", "y"],
    ):
        start = '"$0" -c "from cnibench.cli.main import main; main()" "$@"'
        script = f'mkdir -p "{tmp_path}/gone" && cd "{tmp_path}/gone" && rmdir ../gone && {start}'
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        }
        argv = ["sh", "-c", script, sys.executable, *arguments]
        found = subprocess.run(argv, capture_output=True, text=True, env=environment, timeout=120)
        assert found.returncode in (0, 2, 3), (arguments, found.stderr)
        assert "a bug" not in found.stderr
        assert "Traceback" not in found.stderr
    assert found.stderr.startswith("error: the working directory is gone\n"), "before anything else"
