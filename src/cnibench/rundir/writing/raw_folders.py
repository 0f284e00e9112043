"""The folders for the raw output of tools: made for each attempt, and hashed when it is over."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path

from cnibench.rundir.files import CHUNK, RunFiles
from cnibench.rundir.schema import RAW
from cnibench.system.files import make_beneath, open_beneath


def make(files: RunFiles, where: str) -> Path:
    """A new, empty raw/``where`` for the raw output, which only its owner can read; what
    an interrupted attempt left there is kept beside it.
    """
    cell, _, name = where.rpartition("/")
    folder = files.path / RAW / cell / name
    files.room()
    try:
        at = make_beneath(files.path, Path(RAW) / cell, 0o700)
        try:
            _rename(at, name)
            os.mkdir(name, 0o700, dir_fd=at)
        finally:
            os.close(at)
    except OSError as error:
        raise files.failed(folder, error) from None
    return folder


def set_aside(files: RunFiles, folders: Iterable[str]) -> None:
    """Keeps what an interrupted session left in these folders beside them, as ``make`` does."""
    for folder in folders:
        above, _, name = folder.rpartition("/")
        with files.storing(files.path / RAW / folder):
            at = make_beneath(files.path, Path(RAW) / above)
            try:
                _rename(at, name)
            finally:
                os.close(at)


def hashes(files: RunFiles, folder: str) -> dict[str, str]:
    """The SHA-256 of every regular file in raw/``folder``, by its name in it. The files are on
    the disk then: an event must not outlive what it vouches for.
    """
    found: dict[str, str] = {}
    with files.storing(files.path / RAW / folder):
        for name in sorted(regular(files.path / RAW / folder)):
            with open(
                open_beneath(files.path, f"{RAW}/{folder}/{name}"), "rb", buffering=0
            ) as file:
                content = sha256()
                while piece := file.read(CHUNK):
                    content.update(piece)
                os.fsync(file.fileno())
            found[name] = content.hexdigest()
        if found:
            for above in {Path(RAW, folder, name).parent for name in found}:
                files.sync_folder(above)
            files.sync_folder(Path(RAW, folder).parent)
            files.sync_folder(Path(RAW))
    return found


def _rename(at: int, name: str) -> None:
    """To NAME.interrupted-N, if it is there."""
    if _there(at, name):
        number = 1
        while _there(at, aside := f"{name}.interrupted-{number}"):
            number += 1
        os.rename(name, aside, src_dir_fd=at, dst_dir_fd=at)


def _there(at: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=at, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def regular(folder: Path, below: str = "") -> Iterator[str]:
    """Names of the regular files in the folder and in those below it; links are left out."""
    try:
        entries = list(os.scandir(folder / below))
    except FileNotFoundError:
        return
    for entry in entries:
        mode = entry.stat(follow_symlinks=False).st_mode
        if stat.S_ISDIR(mode):
            yield from regular(folder, f"{below}{entry.name}/")
        elif stat.S_ISREG(mode):
            yield f"{below}{entry.name}"
