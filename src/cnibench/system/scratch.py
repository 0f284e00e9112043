"""Temporary files: without a name where that will do, else in a locked folder that a later command
finds when its process was killed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PREFIX = "cnibench-scratch-"


@contextmanager
def nameless() -> Iterator[Path]:
    """A file in memory, by a path that only this process can open. Nothing of it outlives the
    process.
    """
    descriptor = os.memfd_create("cnibench", os.MFD_CLOEXEC)
    try:
        yield Path(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)


@contextmanager
def folder(near: Path | None = None) -> Iterator[Path]:
    """A private folder, removed at the end: a temporary one, or one beside ``near`` and named after
    it. The kernel ends its lock with the process, so that ``remove_stale`` finds what stayed.
    """
    try:
        path, descriptor = _made(*_where(near))
    except OSError as error:
        if near is not None:  # whose path its user knows
            error.filename = str(near)
        raise
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(descriptor)


def remove_stale(dry_run: bool = False, near: Path | None = None) -> list[str]:
    """Removes folders of this user that no live process holds, temporary ones or those beside
    ``near``; their paths. ``dry_run``: only names them.
    """
    found = []
    parent, prefix = _where(near)
    for entry in sorted(path for path in parent.iterdir() if path.name.startswith(prefix)):
        with contextlib.suppress(OSError):  # it went meanwhile
            if _ours(entry.lstat()) and (descriptor := _locked(entry)) is not None:
                try:
                    if not dry_run:
                        shutil.rmtree(entry)
                    found.append(str(entry))
                finally:
                    os.close(descriptor)
    return found


def _where(near: Path | None) -> tuple[Path, str]:
    """(the parent of the folders, how their names begin)"""
    if near is None:
        return Path(tempfile.gettempdir()), _PREFIX
    return near.parent, f".{near.name}.{_PREFIX}"


def _made(parent: Path, prefix: str) -> tuple[Path, int]:
    """(the folder, the descriptor that holds its lock)"""
    while True:
        path = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        descriptor = _locked(path)
        if descriptor is None:  # ``remove_stale`` of another process was quicker than our lock
            continue
        if path.exists():
            return path, descriptor
        os.close(descriptor)


def _locked(path: Path) -> int | None:
    """A descriptor with the folder's lock; None when a process has it, or the folder is gone."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def _ours(known: os.stat_result) -> bool:
    return stat.S_ISDIR(known.st_mode) and known.st_uid == os.geteuid()
