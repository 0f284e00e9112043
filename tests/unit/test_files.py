"""Files that somebody else may have written."""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from cnibench.errors import InputError
from cnibench.system.files import open_beneath, read_beneath, read_named

LIMIT = 100


def test_a_regular_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "out").write_bytes(b"x" * LIMIT)
    assert read_beneath(tmp_path, "raw/out", LIMIT) == b"x" * LIMIT
    assert read_named(tmp_path / "raw" / "out", LIMIT) == b"x" * LIMIT


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "raw/../../secret", ""])
def test_no_path_leaves_the_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / "secret").write_text("s")
    (tmp_path / "run" / "raw").mkdir(parents=True)
    with pytest.raises(InputError, match="not a path inside"):
        open_beneath(tmp_path / "run", name)


def test_links_are_refused_wherever_they_are(tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key").write_text("s")
    run = tmp_path / "run"
    run.mkdir()
    (run / "raw").symlink_to(tmp_path / "secret")
    (run / "samples.jsonl").symlink_to(tmp_path / "secret" / "key")
    (run / "dangling").symlink_to(tmp_path / "nowhere")
    for name in ("raw/key", "samples.jsonl", "dangling"):
        with pytest.raises(InputError, match="symbolic link"):
            open_beneath(run, name)
    with pytest.raises(InputError, match="symbolic link"):
        open_beneath(run, "dangling", os.O_WRONLY | os.O_CREAT)
    assert not (tmp_path / "nowhere").exists()


def test_what_is_no_regular_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
        for name in ("fifo", "folder", "socket"):
            with pytest.raises(InputError, match="not a regular file"):
                read_beneath(tmp_path, name, LIMIT)
    with pytest.raises(InputError, match="not a regular file"):
        read_named(Path("/dev/zero"), LIMIT)


def test_a_file_above_the_limit_is_refused(tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(b"x" * (LIMIT + 1))
    with pytest.raises(InputError, match="larger than 100 bytes"):
        read_beneath(tmp_path, "big", LIMIT)


def test_what_is_missing_is_missing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_beneath(tmp_path, "nothing", LIMIT)
    with pytest.raises(FileNotFoundError):
        read_beneath(tmp_path, "no/thing", LIMIT)


def test_a_folder_that_fails_to_open_is_no_wrong_kind_of_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "stdout").write_bytes(b"42\n")
    real = os.open

    def failing(path: Any, *more: Any, **options: Any) -> int:
        if path == "raw":
            raise OSError(errno.EIO, "Input/output error")
        return real(path, *more, **options)

    monkeypatch.setattr(os, "open", failing)
    with pytest.raises(OSError, match="Input/output error"):
        open_beneath(tmp_path, "raw/stdout")
