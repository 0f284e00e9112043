"""Writes events.jsonl: each line is chained to the one before. An event names what it commits, and
is on the disk before the document that it names.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import msgspec

from cnibench.model.cell import SCHEMA
from cnibench.rundir.chain import CALIBRATED, CREATED, FINISHED, RESUMED, STARTED, digest, link
from cnibench.rundir.files import RunFiles
from cnibench.rundir.schema import EVENTS, LONGEST_DOCUMENT, PLAN, SEAL, Record, now
from cnibench.system.files import read_beneath

_log = logging.getLogger(__name__)
_BULKY = ("files", "documents", "raw")  # hashes, which events.jsonl has


class EventLog:
    """``last`` is the hash of the last event, ``count`` the number of lines, ``sessions`` how many
    have begun. ``promised`` are the hashes of documents that an event names and that may not be
    written yet. ``documents`` are the names of all documents that events name.
    """

    def __init__(self, files: RunFiles) -> None:
        self._files = files
        self.last = ""
        self.count = 0
        self.sessions = 0
        self.promised: dict[str, str] = {}
        self.documents: set[str] = set()

    def begin(self) -> None:
        """The first event: it follows the plan."""
        with self._files.storing(self._files.path / PLAN):
            self.last = digest(read_beneath(self._files.path, PLAN, LONGEST_DOCUMENT))
        self.event(CREATED, documents={PLAN: self.last})

    def event(self, kind: str, **what: Any) -> None:
        """One line of events.jsonl."""
        fields = {name: value for name, value in what.items() if name not in _BULKY}
        _log.info("event %s%s", kind, "".join(f" {name}={fields[name]}" for name in fields))
        self.write([{"event": kind, **what}])
        if kind in (STARTED, RESUMED):
            self.sessions += 1
        elif kind in (FINISHED, CALIBRATED):
            self.seal(self.count, self.last)

    def seal(self, lines: int, last: str) -> None:
        """Says which line of events.jsonl the finished run ended with: its number and hash."""
        seal = {"schema": SCHEMA, "lines": lines, "sha256": last}
        self.document(SEAL, msgspec.json.encode(seal) + b"\n")

    def document(self, name: str, content: bytes) -> None:
        self._files.document(name, content)
        self.promised.pop(name, None)

    def make_way(self, name: str) -> None:
        """Moves a file aside that has the name of this document but is not the run's, because no
        event names it.
        """
        if name not in self.documents and (moved := self._files.move_aside(name)):
            self.event("set-aside", orphans={name: moved})

    def write(self, records: Sequence[Record]) -> None:
        lines, time, last = [], now(), self.last
        if self.promised:  # what was not written when a writer ended is vouched for as it is
            found = {name: self._files.digest(name) for name in self.promised}
            kept = {name: have for name, have in found.items() if have != self.promised[name]}
            if kept:
                first = {**records[0], "documents": {**kept, **records[0].get("documents", {})}}
                records = [first, *records[1:]]
        for record in records:
            line, last = link({"schema": SCHEMA, "time": time, **record}, last)
            lines.append(line + b"\n")
        size, count = self._files.append(EVENTS, b"".join(lines)), self.count + len(lines)
        # There is no call between these, so that no signal parts the size from the hash.
        self._files.sizes[EVENTS], self.last, self.count, self.promised = size, last, count, {}
        self.documents.update(*(record.get("documents", {}) for record in records))

    def announced(self, kind: str, name: str, content: bytes, **others: str) -> None:
        """An event that names a document, and then the document; ``others`` are the hashes of
        documents that are written already.
        """
        self.make_way(name)
        self.event(kind, documents={**others, name: digest(content)})
        self.promised = {name: digest(content)}
        self.document(name, content)
