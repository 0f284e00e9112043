"""Under a limit of memory a command says so: no library ends the process or waits for ever."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cnibench.cli import memory
from cnibench.cli.errors import guarded
from tests.unit._runs import synthetic

_MAIN = "from cnibench.cli.main import main; main()"


def limited(kind: int, megabytes: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    most = megabytes * 1_000_000
    return subprocess.run(
        [sys.executable, "-c", _MAIN, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "2"},
        preexec_fn=lambda: resource.setrlimit(kind, (most, most)),
    )


@pytest.fixture
def small_group() -> Iterator[Path]:
    """A cgroup that may use 300 MB; in either version of cgroups."""
    root = Path("/sys/fs/cgroup")
    second = (root / "cgroup.controllers").exists()
    folder = (root if second else root / "memory") / f"cnibench-test-{os.getpid()}"
    folder.mkdir()
    limit = folder / ("memory.max" if second else "memory.limit_in_bytes")
    limit.write_text("300000000")
    yield folder
    folder.rmdir()


def test_the_limit_of_a_cgroup_is_what_there_is_room_in(small_group: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from cnibench.system.memory import available; print(available())"],
        capture_output=True,
        text=True,
        check=True,
        preexec_fn=lambda: (small_group / "cgroup.procs").write_text("0") and None,
    )
    assert 0 < int(done.stdout) <= 300_000_000


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(synthetic(tmp_path_factory.mktemp("memory"), {"a": 1.0, "b": 1.1}, blocks=6).path)


@pytest.mark.parametrize(
    ("kind", "megabytes", "option"),
    [
        (resource.RLIMIT_AS, 60, "ulimit -v"),
        (resource.RLIMIT_AS, 100, "ulimit -v"),
        (resource.RLIMIT_AS, 150, "ulimit -v"),
        (resource.RLIMIT_DATA, 60, "ulimit -d"),
    ],
)
def test_a_report_without_room_for_numpy(run: str, kind: int, megabytes: int, option: str) -> None:
    done = limited(kind, megabytes, "report", run)
    assert done.returncode == 3
    assert done.stderr.startswith(f"error: '{option}' leaves ")
    assert done.stderr.endswith(
        "numpy needs " + ("190" if kind == resource.RLIMIT_AS else "110") + " MB\n"
        f"  remedy: '{option} unlimited', or run this where memory is not limited\n"
    )


def test_a_report_with_room_for_numpy(run: str) -> None:
    done = limited(resource.RLIMIT_AS, 260, "report", run)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "library"),
    [
        (("query", "SELECT count(*) FROM samples"), "duckdb"),
        (("report", "--format", "parquet"), "duckdb"),
        (("site",), "vl_convert"),
    ],
)
def test_commands_without_room_for_their_own_library(
    run: str, tmp_path: Path, arguments: tuple[str, ...], library: str
) -> None:
    out = () if library == "duckdb" else ("--out", str(tmp_path / "site"))
    done = limited(resource.RLIMIT_AS, 600, *arguments, run, *out)
    assert done.returncode == 3
    assert f"and {library} needs " in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_what_needs_no_library_works_below_that(run: str) -> None:
    assert limited(resource.RLIMIT_AS, 100, "verify", run).returncode == 0


@pytest.mark.parametrize(
    "words",
    [
        "libscipy_openblas-6cdc3b4a.so: failed to map segment from shared object",
        "libx.so: cannot allocate memory in static TLS block",
    ],
)
def test_a_library_that_cannot_be_mapped_is_lack_of_memory(
    words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def load() -> None:
        try:
            raise ImportError(words)
        except ImportError as error:
            raise ImportError("the install seems to be broken") from error

    assert guarded(load) == 3
    assert capsys.readouterr().err.startswith("error: there is not enough memory for this\n")


def test_a_library_that_is_missing_is_not() -> None:
    assert not memory.is_lack_of_memory(ImportError("No module named 'numpy'"))
