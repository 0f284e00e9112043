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
def folder() -> Iterator[Path]:
    """A private folder, removed at the end. The kernel ends its lock with the process, so that
    ``remove_stale`` finds what stayed.
    """
    path, descriptor = _made()
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(descriptor)


def remove_stale(dry_run: bool = False) -> list[str]:
    """Removes folders of this user that no live process holds; their paths. ``dry_run``: only names
    them.
    """
    found = []
    for entry in sorted(Path(tempfile.gettempdir()).glob(f"{_PREFIX}*")):
        with contextlib.suppress(OSError):  # it went meanwhile
            if _ours(entry.lstat()) and (descriptor := _locked(entry)) is not None:
                try:
                    if not dry_run:
                        shutil.rmtree(entry)
                    found.append(str(entry))
                finally:
                    os.close(descriptor)
    return found


def _made() -> tuple[Path, int]:
    """(the folder, the descriptor that holds its lock)"""
    while True:
        path = Path(tempfile.mkdtemp(prefix=_PREFIX))
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
