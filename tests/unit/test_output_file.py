"""The files that --out names: a new one is complete or absent."""

from __future__ import annotations

import resource
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from cnibench.cli.output.file import write
from cnibench.errors import InputError

LIMIT = 4096  # bytes


@pytest.fixture
def small_files() -> Iterator[None]:
    """Writing more to a file fails, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, handler)


def test_nothing_is_left_of_a_file_that_could_not_be_written(
    tmp_path: Path, small_files: None
) -> None:
    write(tmp_path / "fits", bytes(LIMIT))
    with pytest.raises(InputError):
        write(tmp_path / "large", bytes(4 * LIMIT))
    assert [one.name for one in tmp_path.iterdir()] == ["fits"]


def test_a_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("file")
    write(tmp_path / "link", "one")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text() == "one"
