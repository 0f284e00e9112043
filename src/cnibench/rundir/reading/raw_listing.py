"""Which folders with raw output a run directory has: each folder is listed once, no file is
opened.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from cnibench.errors import InputError
from cnibench.model.cell import Cell
from cnibench.rundir.chain import Chain, Event
from cnibench.rundir.schema import RAW, is_below, raw_folder

_ATTEMPT = re.compile(r"([0-9]{1,9})(?:\.attempt-([0-9]{1,9}))?")
_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)  # no folder of that name; a link is none


class RawListing:
    """The folders below raw/ in the run directory ``path``, as they were when they were asked for
    first. Raises InputError when one cannot be listed.
    """

    def __init__(self, path: Path, chain: Chain) -> None:
        self._path, self._chain = path, chain
        self._known: dict[str, frozenset[str]] = {}

    def has(self, folder: str) -> bool:
        """Is raw/``folder`` there?"""
        above, _, name = folder.rpartition("/")
        return name in self._names(above)

    def lost(self) -> list[Event]:
        """The events that commit raw output whose folder is gone."""
        return [
            event for event in self._chain.events if event.raw and not self.has(folder_of(event))
        ]

    def uncommitted(self, cells: Iterable[Cell]) -> Iterator[tuple[Cell, int, str]]:
        """(cell, block, folder) of all attempts that no event commits."""
        for cell in cells:
            for name in sorted(self._names(cell.id)):
                if found := _ATTEMPT.fullmatch(name):
                    block, attempt = int(found[1]), int(found[2] or 1)
                    last = self._chain.latest.get((cell.id, block))
                    if last is None or attempt > last.attempt:
                        yield cell, block, f"{cell.id}/{name}"

    def _names(self, folder: str) -> frozenset[str]:
        if folder not in self._known:
            self._known[folder] = frozenset(_folders(self._path, folder))
        return self._known[folder]


def folder_of(event: Event) -> str:
    """The folder below raw/ with the files that the event commits."""
    return event.folder or raw_folder(event.cell, event.block, event.attempt)


def _folders(path: Path, folder: str) -> list[str]:
    if folder and not is_below(folder):
        return []
    try:
        at = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for part in [RAW, *folder.split("/")] if folder else [RAW]:
                inner = os.open(
                    part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at
                )
                os.close(at)
                at = inner
            with os.scandir(at) as entries:
                return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        finally:
            os.close(at)
    except OSError as error:
        if error.errno in _ABSENT:
            return []
        raise InputError(
            f"{path / RAW / folder}: {error.strerror}", "check the path and its permissions"
        ) from None
