"""Verifies a run directory: recomputes every hash that its events carry and names what does not
agree.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import msgspec

from cnibench.errors import InputError
from cnibench.model.cell import Attestation, Sample
from cnibench.rundir.chain import Event, Kind, Problem, digest
from cnibench.rundir.reader import RunReader
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
    Record,
    raw_folder,
)
from cnibench.system.files import open_beneath, read_beneath

_CHUNK = 1 << 20
_KINDS: dict[str, type[Any]] = {SAMPLES: Sample, ATTESTATIONS: Attestation}


def verify(reader: RunReader, *, raw: bool = False) -> list[Problem]:
    """All that is lost, changed, doubled, out of order or not chained; ``raw``: in the raw files,
    too.

    Nothing is written. Figures that ``reader`` gives are made of lines that are none of these.
    """
    for name, expected in reader.chain.documents().items():
        _document(reader, name, expected)
    if (
        reader.chain.chained
        and not reader.chain.count
        and os.path.lexists(reader.path / ENVIRONMENT)
    ):
        reader.findings.tell(
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
    if raw:
        _raw(reader)
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
        reader.findings.tell(Problem(kind="changed" if found else "lost", file=name, detail=words))


def _seal(reader: RunReader) -> None:
    """A finished run says which line of events.jsonl it ended with: that line must be there for
    ever.
    """
    try:
        data = read_beneath(reader.path, SEAL, LONGEST_DOCUMENT)
    except FileNotFoundError:
        return
    except OSError as error:
        raise InputError(
            f"{reader.path / SEAL}: {error.strerror}", "check the path and its permissions"
        ) from None
    try:
        seal = msgspec.json.decode(data, type=_Seal)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError):
        reader.findings.tell(Problem(kind="changed", file=SEAL, detail="it cannot be read"))
        return
    if reader.chain.hashes.get(seal.lines) != seal.sha256 and not reader.grows():
        words = f"the run had finished with line {seal.lines}, which is missing or was changed"
        kind: Kind = "lost" if reader.chain.count < seal.lines else "changed"
        reader.findings.tell(Problem(kind=kind, file=EVENTS, line=seal.lines, detail=words))


class _Seal(msgspec.Struct):
    """``lines``: the number of the last line of events.jsonl when the run finished; ``sha256``:
    that line's own.
    """

    lines: int
    sha256: str


def _raw(reader: RunReader) -> None:
    for event in reader.chain.events:
        for name, expected in event.raw.items():
            folder = event.folder or raw_folder(event.cell, event.block, event.attempt)
            file = f"{RAW}/{folder}/{name}"
            found = _hash(reader, file)
            if found != expected:
                words = "it is not what was recorded" if found else "the raw file is missing"
                kind: Kind = "changed" if found else "lost"
                reader.findings.tell(
                    Problem(kind=kind, file=file, detail=words, cell=event.cell, block=event.block)
                )
    strange = _without_events(reader)
    if len(strange) > 1 and not reader.grows():
        words = (
            f"raw output of {len(strange)} samples is there that no event commits, the first of"
            f" {strange[0]}"
        )
        reader.findings.tell(
            Problem(kind="lost", file=EVENTS, line=reader.chain.count + 1, detail=words)
        )


def _hash(reader: RunReader, file: str) -> str:
    """'' when it is not there."""
    found = sha256()
    try:
        with open(open_beneath(reader.path, file), "rb", buffering=0) as content:
            if os.fstat(content.fileno()).st_size > LONGEST_LINES:  # a sparse file has no end
                return f"larger than {LONGEST_LINES} bytes"
            while piece := content.read(_CHUNK):
                found.update(piece)
    except FileNotFoundError:
        return ""
    except InputError as error:
        return error.message
    except OSError as error:
        raise InputError(
            f"{reader.path / file}: {error.strerror}", "check the path and its permissions"
        ) from None
    return found.hexdigest()


def _without_events(reader: RunReader) -> list[str]:
    """Samples with raw output that no event commits, one for those that are measured at the same
    time.
    """
    if not reader.chain.chained:
        return []
    found: dict[tuple[object, ...], str] = {}
    known: dict[tuple[str, int], Event] = reader.chain.latest
    for cell in reader.plan.cells:
        for block in _blocks(reader, cell.id):
            if (cell.id, block) not in known:
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


def _blocks(reader: RunReader, cell: str) -> Iterator[int]:
    folder = reader.path / RAW / cell
    try:
        names = (
            [] if (reader.path / RAW).is_symlink() or folder.is_symlink() else os.listdir(folder)
        )
    except OSError:
        return
    for name in names:
        if name.isascii() and name.isdigit() and len(name) < 10 and os.path.isdir(folder / name):
            yield int(name)
