"""Takes up an interrupted run where its events end: what no event commits is moved aside, and a run
of an older version gets a chain.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from cnibench.errors import InputError
from cnibench.model.cell import Cell
from cnibench.rundir.chain import ADOPTED, Chain, Problem, Segment, digest
from cnibench.rundir.files import RunFiles, check_log
from cnibench.rundir.reading.raw_listing import RawListing
from cnibench.rundir.schema import (
    CALIBRATION,
    ENVIRONMENT,
    EVENTS,
    PLAN,
    SAMPLES,
    SEAL,
    environment_file,
    is_lines,
)
from cnibench.rundir.writing import raw_folders
from cnibench.rundir.writing.event_log import EventLog
from cnibench.rundir.writing.recovery import NO_NEWLINE
from cnibench.system.files import open_beneath

_log = logging.getLogger(__name__)
RESTORE = (
    "restore it from a copy; 'cnibench verify' names all that is wrong, 'cnibench report' shows"
    " what is intact"
)


def check(path: Path) -> None:
    """Raises InputError when the run directory cannot be taken up, whatever is in its files, and as
    ``open_log`` when its log cannot be written. Makes nothing.
    """
    if not os.access(path, os.W_OK):
        raise InputError(
            f"{path}: is read-only",
            "copy the run to a folder that can be written, and resume the copy",
        )
    if not (path / EVENTS).exists() and not (path / EVENTS).is_symlink() and _has_lines(path):
        raise InputError(
            f"{path}: {EVENTS} is missing, so nothing says which samples are complete", RESTORE
        )
    check_log(path)


def refuse(path: Path, problems: Sequence[Problem]) -> None:
    """Raises InputError that names the first of the problems, if there are any."""
    if problems:
        more = f" and {len(problems) - 1} more" if len(problems) > 1 else ""
        raise InputError(
            f"{path}: the run is damaged and cannot be resumed: {problems[0]}{more}", RESTORE
        )


def restore_newlines(files: RunFiles, problems: Sequence[Problem]) -> bool:
    """Writes the newlines at the ends of files back when they are all that is lost: the events say
    what was there. Otherwise nothing is changed, and False is returned.
    """
    if not problems or any(problem.detail != NO_NEWLINE for problem in problems):
        return False
    for problem in problems:
        files.end_line(problem.file)
        _log.info("%s: its last newline was missing and is written again", problem.file)
    return True


def take_up(files: RunFiles, log: EventLog, chain: Chain, cells: Iterable[Cell]) -> None:
    """Goes on where the events end. Drafts of a killed writer are removed. What a sample of
    ``cells`` in flight left is set aside, so that only one is ever in flight. The lines of a run of
    an older version are hashed as they are now.
    """
    files.remove_drafts()
    log.last, log.count, log.sessions = chain.last, chain.kept_lines, chain.sessions
    for name, segments in chain.segments.items():
        files.sizes[name] = segments[-1].at + segments[-1].bytes
    files.sizes[EVENTS] = chain.kept if chain.chained else chain.whole
    log.documents = set(chain.documents())
    log.promised = dict(chain.events[-1].documents) if chain.events else {}
    aside = {}
    if chain.chained:
        for name in files.sizes:
            files.descriptor(name)
        for name in files.sizes:
            if moved := files.set_aside(name):
                aside[name] = moved
    else:
        aside = _adopt(files, log, chain)
    left = [folder for _, _, folder in RawListing(files.path, chain).uncommitted(cells)]
    raw_folders.set_aside(files, left)
    if (number := chain.sealed) and not os.path.lexists(files.path / SEAL):
        log.seal(number, chain.events[number - 1].sha256)  # the writer was killed before that
    if not log.count:
        log.begin()
    if aside:
        log.event("set-aside", orphans=aside)
    log.make_way(environment_file(chain.sessions + 1))  # of the session that begins


def _adopt(files: RunFiles, log: EventLog, chain: Chain) -> dict[str, str]:
    """Begins a chain behind the lines of an older version. The old events say up to which size
    its files were complete.
    """
    sizes: dict[str, int] = {SAMPLES: 0}
    for line in chain.lines:
        recorded = msgspec.json.decode(line).get("sizes")
        for name, size in recorded.items() if isinstance(recorded, Mapping) else ():
            if not is_lines(name) or not isinstance(size, int) or size < 0:
                raise InputError(
                    f"{files.path / EVENTS}: an event names a file that is not of a run:"
                    f" {str(name)[:80]!a}",
                    RESTORE,
                )
            sizes[name] = size
    files.sizes.update({name: size for name, size in sizes.items() if size})
    aside: dict[str, str] = {}
    committed: dict[str, Segment] = {}
    names = [EVENTS, *(name for name in files.sizes if name != EVENTS)]
    for name in names:  # all that is refused, before anything is moved
        if os.fstat(files.descriptor(name)).st_size < files.sizes[name]:
            raise InputError(f"{files.path / name}: has lost its end", RESTORE)
    for name in names:
        if moved := files.set_aside(name):
            aside[name] = moved
        with files.storing(files.path / name), open(open_beneath(files.path, name), "rb") as file:
            data = file.read()
        committed[name] = Segment(
            at=0, bytes=len(data), lines=data.count(b"\n"), sha256=digest(data)
        )
    documents = {}
    for name in (PLAN, ENVIRONMENT, CALIBRATION):
        if found := files.digest(name):
            documents[name] = found
    log.last = documents[PLAN]
    log.event(ADOPTED, files=committed, documents=documents)
    return aside


def _has_lines(path: Path) -> bool:
    try:
        return os.stat(path / SAMPLES, follow_symlinks=False).st_size > 0
    except OSError:
        return False
