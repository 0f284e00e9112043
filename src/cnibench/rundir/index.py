"""The store: run directories, written by RunWriter, read by RunReader (schema.py says what is in
them).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from cnibench.errors import InputError, UsageError
from cnibench.rundir.reader import RunReader
from cnibench.rundir.schema import PLAN
from cnibench.system.files import check_relative


def runs(folder: Path, unreadable: list[str] | None = None) -> list[RunReader]:
    """All runs below ``folder``, oldest first; what is no run is passed over, one that cannot be
    read is reported in ``unreadable``. Raises InputError when the working directory is gone.
    """
    check_relative(folder)
    found = []
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if os.path.lexists(path / PLAN):
            try:
                found.append(RunReader(path))
            except InputError as error:
                if unreadable is not None:
                    unreadable.append(error.message)
    return found


def each_once(
    readers: Sequence[RunReader],
    remedy: str = "each run counts once: its blocks would be taken for more than they are",
    *,
    words: str = "one run was named twice",
) -> None:
    """Raises UsageError that names both folders if two readers have the same run id: one folder
    named twice, or a run and a copy of it, damaged or not.
    """
    seen: dict[str, Path] = {}
    for reader in readers:
        if reader.id in seen:
            raise UsageError(
                f"{words}: {seen[reader.id]} and {reader.path} have the run id {reader.id}", remedy
            )
        seen[reader.id] = reader.path


def find(name: str, folder: Path = Path("runs")) -> Path:
    """The run directory that ``name`` means: a path, an id below ``folder``, the beginning of one,
    or ``last``. Raises UsageError.
    """
    if Path(name).is_dir():
        return Path(name)
    known = [run.path for run in runs(folder)]
    if name == "last" and known:
        return known[-1]
    exact = [path for path in known if path.name == name]
    found = exact or [path for path in known if path.name.startswith(name) and name]
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(
            f"'{name}' begins the names of {len(found)} runs",
            f"write more of it: {', '.join(path.name for path in found[:3])}",
        )
    raise UsageError(
        f"there is no run '{name}' in {folder}",
        "'cnibench runs' lists the runs; a path to a run directory is taken too",
    )
