"""A run directory as it may be published: without raw output, with pseudonyms for names and
addresses, and with a chain of hashes over what is left.

The chain is the run's own (rundir/chain.py) and recomputed, event by event: pseudonyms change lines
and documents, and so their hashes. An event keeps one hash over those of its raw files, so that who
has the run directory can show that the raw output is the bundle's.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import Any

import msgspec

from cnibench.analysis.samples.series import parameters
from cnibench.analysis.samples.stream import Line
from cnibench.errors import UsageError
from cnibench.reports.site.publication.pseudonyms import Pseudonyms
from cnibench.rundir import chain
from cnibench.rundir.reader import RunReader
from cnibench.rundir.schema import EVENTS, LONGEST_DOCUMENT, PLAN, SAMPLES, SEAL, Record
from cnibench.system.files import read_beneath

_ENCODER = msgspec.json.Encoder()
# Of an event: what verification needs, and no free text.
_STRUCTURE = frozenset(
    (
        *("schema", "time", "event", "cell", "block", "attempt", "status", "lines", "more"),
        *("files", "documents", "folder"),
    )
)
_REPLACED = frozenset(("before", "sha256", "raw"))  # of an event: hashes of what is not published
# Of a sample: what says where it belongs. The rest is free text, or figures.
_WHERE = (
    *("label", "profile", "placement", "path", "workload", "cpus", "window", "testbed", "wire"),
    *("wire_offload", "metric", "unit", "better", "fidelity", "status", "method", "priority"),
)
_FREE = ("reason", "disturbed", "congestion_control")
_coordinates = attrgetter(*_WHERE)
_free = attrgetter(*_FREE)
_words = attrgetter("cell", *_WHERE, *_FREE)


def pseudonyms_of(reader: RunReader) -> Pseudonyms:
    """What takes the place of the run's names of machines and users, and of addresses."""
    plan = reader.plan
    names = Pseudonyms(True, {*plan.profiles, reader.id, *(cell.label for cell in plan.cells)})
    names.learn(*reader.environments, plan.command)
    return names


def published(reader: RunReader, names: Pseudonyms, most: int) -> dict[str, bytes]:
    """The files of the run ``reader`` as they may be published. It must be finished and verified,
    its raw files excepted.

    Raises UsageError when a name that figures depend on would become a pseudonym, InputError for a
    file of more than ``most`` bytes.
    """
    plan = reader.plan
    files, replaced = _documents(reader, names)
    ids = {cell.id for cell in plan.cells}
    published_plan = msgspec.json.decode(files[PLAN], type=type(plan))
    _check(ids == {cell.id for cell in published_plan.cells}, "a cell's name or parameters")
    _check(plan.profiles.keys() == published_plan.profiles.keys(), "a label")
    lines = _Lines(reader, names, ids, most)
    events: list[bytes] = []
    last = ""
    sealed = (0, "")
    for number, line in enumerate(reader.chain.lines, 1):
        record = msgspec.json.decode(line)
        event = reader.chain.events[number - 1]
        new = names.walk(
            {
                key: value
                for key, value in record.items()
                if key not in _STRUCTURE and key not in _REPLACED
            }
        )
        kept = {key: value for key, value in record.items() if key in _STRUCTURE}
        if event.files:
            kept["files"] = {name: lines.add(name, one) for name, one in event.files.items()}
        if event.documents:
            kept["documents"] = {
                name: replaced.get((name, old), old) for name, old in event.documents.items()
            }
        if event.raw:
            new["raw_sha256"] = chain.digest(msgspec.json.encode(event.raw, order="sorted"))
        before = last or kept.get("documents", {}).get(PLAN, "")
        written, last = chain.link({**kept, **new}, before)
        events.append(written + b"\n")
        if event.event in (chain.FINISHED, chain.CALIBRATED):
            sealed = (number, last)
    seal = msgspec.json.encode({"lines": sealed[0], "sha256": sealed[1]})
    return {**files, **lines.files(), EVENTS: b"".join(events), SEAL: seal}


def _documents(
    reader: RunReader, names: Pseudonyms
) -> tuple[dict[str, bytes], dict[tuple[str, str], str]]:
    """The documents that are there, and (name, hash) to the hash of what is published instead."""
    files: dict[str, bytes] = {}
    replaced: dict[tuple[str, str], str] = {}
    for name in reader.chain.documents():
        try:
            data = read_beneath(reader.path, name, LONGEST_DOCUMENT)
        except FileNotFoundError:  # verified: no event says that it is there
            continue
        files[name] = msgspec.json.encode(names.walk(msgspec.json.decode(data)))
        replaced[name, chain.digest(data)] = chain.digest(files[name])
    return files, replaced


def _check(same: bool, what: str) -> None:
    if not same:
        raise UsageError(
            f"{what} holds an address, a machine's name or hidden characters, and cannot be"
            " published as it is",
            "measure again with another name: --cni NAME=PROFILE",
        )


class _Lines:
    """The files of lines, piece by piece as the events commit them."""

    def __init__(self, reader: RunReader, names: Pseudonyms, ids: set[str], most: int) -> None:
        self._reader, self._names, self._ids, self._most = reader, names, ids, most
        self._old: dict[str, memoryview] = {}
        self._new: dict[str, list[bytes]] = {}
        self._sizes: dict[str, int] = {}
        self._samples = msgspec.json.Decoder(Line)
        self._records = msgspec.json.Decoder(dict[str, Any])
        self._known: dict[tuple[Any, ...], dict[str, Any]] = {}

    def add(self, name: str, segment: chain.Segment) -> Record:
        """The piece that takes the place of ``segment``, as an event commits it."""
        if name not in self._old:
            self._old[name] = memoryview(read_beneath(self._reader.path, name, self._most))
        old = self._old[name][segment.at : segment.at + segment.bytes]
        if name == SAMPLES:
            found: list[Any] = self._samples.decode_lines(old)
            new = _ENCODER.encode_lines([self._sample(one) for one in found])
        else:
            new = _ENCODER.encode_lines(self._names.walk(self._records.decode_lines(old)))
        at = self._sizes.get(name, 0)
        self._sizes[name] = at + len(new)
        self._new.setdefault(name, []).append(new)
        return {"at": at, "bytes": len(new), "lines": segment.lines, "sha256": chain.digest(new)}

    def files(self) -> Mapping[str, bytes]:
        return {name: b"".join(pieces) for name, pieces in self._new.items()}

    def _sample(self, line: Line) -> Line:
        key = (*_words(line), bytes(line.params))
        new = self._known.get(key)
        if new is None:  # many lines contain the same words
            new = self._known[key] = self._changed(line)
        return msgspec.structs.replace(line, **new) if new else line

    def _changed(self, line: Line) -> dict[str, Any]:
        """The fields of the line that are published otherwise."""
        where = _coordinates(line)
        _check(all(self._names.text(text) == text for text in where), "a sample's coordinate")
        _check(line.cell in self._ids, "a cell's name")
        old = _free(line)
        new = dict(zip(_FREE, self._names.walk(old), strict=True))
        found = {name: new[name] for name, was in zip(_FREE, old, strict=True) if new[name] != was}
        # written anew: what a decoder passes over (a key that is there twice) is not published
        params = msgspec.json.encode(self._names.walk(parameters(line.params)))
        return found if params == bytes(line.params) else {**found, "params": msgspec.Raw(params)}
