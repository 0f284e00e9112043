"""Verifies a run directory: recomputes every hash that its events carry and names what does not
agree.
"""

from __future__ import annotations

import fcntl
import math
import os
from hashlib import sha256
from typing import Any

import msgspec

from cnibench.errors import InputError
from cnibench.model.cell import Attestation, Cell, Sample
from cnibench.model.units import plural
from cnibench.rundir.chain import Event, Kind, Problem, digest
from cnibench.rundir.reader import RunReader
from cnibench.rundir.reading.raw_listing import RawListing, folder_of
from cnibench.rundir.schema import (
    ATTESTATIONS,
    ENVIRONMENT,
    EVENTS,
    LONGEST_DOCUMENT,
    LONGEST_LINES,
    PLAN,
    RAW,
    SAMPLES,
    SEAL,
    SLICES,
    Record,
)
from cnibench.rundir.writing import raw_folders
from cnibench.system.files import open_beneath, read_beneath

# What every reader verifies of raw files, so that a report stays quick whoever made the run.
MOST_RAW = 5000  # files: those of about seven hundred samples
MOST_RAW_BYTES = 1 << 30
_CHUNK = 1 << 20
_KINDS: dict[str, type[Any]] = {SAMPLES: Sample, ATTESTATIONS: Attestation}


def verify(reader: RunReader, *, raw: bool = False) -> list[Problem]:
    """All that is lost, changed, doubled, out of order or not chained. Without ``raw``, files that
    were added to raw folders do not matter, and only MOST_RAW_BYTES of raw files are read; of more
    than MOST_RAW files only the folders are looked for.

    Nothing is written. Figures that ``reader`` gives are made of lines that are none of these.
    """
    known = reader.chain.documents()
    for name, expected in known.items():
        _document(reader, name, expected)
    for name in reader.environment_files:
        if (
            reader.chain.count
            and reader.chain.chained
            and name not in known
            and os.path.lexists(reader.path / name)
            and not reader.grows()
        ):
            words = "no event names it, and an event is written before its document"
            reader.findings.add(Problem(kind="not chained", file=name, detail=words))
    if (
        reader.chain.chained
        and not reader.chain.count
        and os.path.lexists(reader.path / ENVIRONMENT)
    ):
        reader.findings.add(
            Problem(kind="lost", file=EVENTS, detail="it is empty, but the run had started")
        )
    _seal(reader)
    for name in reader.files():
        if reader.chain.chained:
            if name not in reader.lines.complete:
                for _ in reader.lines.pieces(name):
                    pass
        elif (
            name not in reader.whole
        ):  # nothing vouches for its lines: decoding tells what is broken
            for _ in reader.decoded(name, _KINDS.get(name, Record)):
                pass
    listing = RawListing(reader.path, reader.chain)
    few = sum(len(event.raw) for event in reader.chain.events) <= MOST_RAW
    try:
        lost = _folders(reader, listing)
        if raw or few:
            _raw(reader, listing, lost, added=raw)
    except InputError as error:  # raw output is its owner's, and other users read reports
        if raw:
            raise
        reader.findings.warn(f"{error.message}: whether raw output is missing is not known")
    return reader.problems


def _document(reader: RunReader, name: str, expected: list[str]) -> None:
    """Tells when a file that is written as a whole is not one of those that the events name
    ('': it may be missing).
    """
    try:
        found = digest(
            reader.plan_bytes if name == PLAN else read_beneath(reader.path, name, LONGEST_DOCUMENT)
        )
    except FileNotFoundError:
        found = ""
    except OSError as error:
        raise InputError(
            f"{reader.path / name}: {error.strerror}", "check the path and its permissions"
        ) from None
    if found not in expected and not reader.grows():
        words = "it is not what was written" if found else "the file is missing"
        reader.findings.add(Problem(kind="changed" if found else "lost", file=name, detail=words))


def _seal(reader: RunReader) -> None:
    """A finished run says which line of events.jsonl it ended with: that line must be there for
    ever.
    """
    try:
        data = read_beneath(reader.path, SEAL, LONGEST_DOCUMENT)
    except FileNotFoundError:
        if reader.chain.sealed and not _is_written(reader):
            # A run that was killed, or whose disk failed, after its last event has none either.
            reader.findings.warn(
                f"{SEAL} is missing, although the run finished: whether its end was cut off"
                " afterwards cannot be verified; 'cnibench run --resume' writes it again"
            )
        return
    except OSError as error:
        raise InputError(
            f"{reader.path / SEAL}: {error.strerror}", "check the path and its permissions"
        ) from None
    try:
        seal = msgspec.json.decode(data, type=_Seal)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError):
        reader.findings.add(Problem(kind="changed", file=SEAL, detail="it cannot be read"))
        return
    if reader.chain.hashes.get(seal.lines) != seal.sha256 and not reader.grows():
        words = f"the run had finished with line {seal.lines}, which is missing or was changed"
        kind: Kind = "lost" if reader.chain.count < seal.lines else "changed"
        reader.findings.add(Problem(kind=kind, file=EVENTS, line=seal.lines, detail=words))


def _is_written(reader: RunReader) -> bool:
    """Does a writer hold the run? It writes the seal after its event."""
    try:
        events = open_beneath(reader.path, EVENTS)
    except OSError:
        return False
    try:
        fcntl.flock(events, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return isinstance(error, BlockingIOError)
    finally:
        os.close(events)
    return False


class _Seal(msgspec.Struct):
    """``lines``: the number of the last line of events.jsonl when the run finished; ``sha256``:
    that line's own.
    """

    lines: int
    sha256: str


def _folders(reader: RunReader, listing: RawListing) -> set[str]:
    """Names raw output whose folder is gone, and raw output without events: in a finished run any,
    else that of more samples than can have been in flight. The folders that are gone.
    """
    lost = listing.lost()
    with_raw = sum(bool(event.raw) for event in reader.chain.events)
    if 1 < len(lost) == with_raw:
        words = f"all {len(lost)} folders with raw output are missing"
        reader.findings.add(Problem(kind="lost", file=RAW, detail=words))
    else:
        for event in lost:
            words = "the folder with the raw output is missing"
            _name(reader, event, "lost", folder_of(event), words)
    if reader.finished:
        _added(reader, listing)
        return {folder_of(event) for event in lost}
    strange = _without_events(reader, listing)
    if len(strange) > 1 and not reader.grows():
        words = (
            f"raw output of {len(strange)} samples is there that no event commits, the first of"
            f" {strange[0]}"
        )
        reader.findings.add(
            Problem(kind="lost", file=EVENTS, line=reader.chain.count + 1, detail=words)
        )
    return {folder_of(event) for event in lost}


def _added(reader: RunReader, listing: RawListing) -> None:
    """Names the folders of samples that no event of a finished run commits."""
    strange = list(listing.uncommitted(reader.plan.cells)) if reader.chain.chained else []
    if strange and not reader.grows():
        for cell, block, folder in strange:
            where, words = f"{RAW}/{folder}", "no event commits this folder"
            reader.findings.add(
                Problem(kind="not chained", file=where, detail=words, cell=cell.id, block=block)
            )


def _raw(reader: RunReader, listing: RawListing, lost: set[str], *, added: bool) -> None:
    """``added``: all of them, and files that no event commits, too; else MOST_RAW_BYTES at most,
    and a warning when there are more.
    """
    left: float = math.inf if added else MOST_RAW_BYTES
    unread = 0
    for event in reader.chain.events:
        folder = folder_of(event)
        if folder in lost:
            continue
        for name, expected in event.raw.items():
            hashed = _hash(reader, f"{RAW}/{folder}/{name}", left)
            if hashed is None:  # others are missing, or small enough
                unread += 1
                continue
            found, size = hashed
            left -= size
            if found != expected:
                words = "it is not what was recorded" if found else "the raw file is missing"
                _name(reader, event, "changed" if found else "lost", f"{folder}/{name}", words)
        if added and event.sha256 and (event.cell or event.folder) and listing.has(folder):
            _not_known(reader, event, folder)
    if unread:
        reader.findings.warn(
            f"{plural(unread, 'raw file')} beyond {MOST_RAW_BYTES >> 20} MiB not verified:"
            " 'cnibench verify' reads all of them"
        )


def _not_known(reader: RunReader, event: Event, folder: str) -> None:
    """Names the files in the folder that the event does not commit."""
    try:
        names = sorted(raw_folders.regular(reader.path / RAW / folder))
    except OSError as error:
        raise InputError(
            f"{reader.path / RAW / folder}: {error.strerror}", "check the path and its permissions"
        ) from None
    for name in names:
        if name not in event.raw:
            words = "no event commits this file"
            _name(reader, event, "not chained", f"{folder}/{name}", words)


def _name(reader: RunReader, event: Event, kind: Kind, file: str, detail: str) -> None:
    """A problem with a sample's raw output; ``file`` is relative to raw/."""
    reader.findings.add(
        Problem(kind=kind, file=f"{RAW}/{file}", detail=detail, cell=event.cell, block=event.block)
    )


def _hash(reader: RunReader, file: str, most: float) -> tuple[str, int] | None:
    """(hash, bytes), the hash is '' when it is not there; None when it has more bytes than
    ``most``.
    """
    found = sha256()
    try:
        with open(open_beneath(reader.path, file), "rb", buffering=0) as content:
            size = os.fstat(content.fileno()).st_size
            if size > LONGEST_LINES:  # a sparse file has no end
                return f"larger than {LONGEST_LINES} bytes", 0
            if size > most:
                return None
            while piece := content.read(_CHUNK):
                found.update(piece)
    except FileNotFoundError:
        return "", 0
    except InputError as error:
        return error.message, 0
    except OSError as error:
        raise InputError(
            f"{reader.path / file}: {error.strerror}", "check the path and its permissions"
        ) from None
    return found.hexdigest(), size


def _without_events(reader: RunReader, listing: RawListing) -> list[str]:
    """Samples with raw output that no event commits, one for those that are measured at the same
    time. All cells that are measured in slices have output when their block begins: those without
    slices were not measured yet.
    """
    if not reader.chain.chained:
        return []
    found: dict[tuple[object, ...], str] = {}
    for cell, block, folder in listing.uncommitted(reader.plan.cells):
        if _measured(reader, cell, folder):
            key = (
                cell.label,
                cell.placement,
                cell.path,
                cell.workload,
                str(cell.params),
                cell.ip,
                cell.window,
                block,
            )
            found.setdefault(key, f"{cell.id}, block {block}")
    return list(found.values())


def _measured(reader: RunReader, cell: Cell, folder: str) -> bool:
    return cell.method != "slices" or os.path.lexists(reader.path / RAW / folder / SLICES)
