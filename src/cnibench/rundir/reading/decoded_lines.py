"""Decoding the lines of a run's files, many at once; one that cannot be read is left out and
named.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from cnibench.model.cell import SCHEMA
from cnibench.rundir.chain import Chain, Problem
from cnibench.rundir.reading.committed_lines import CommittedLines
from cnibench.rundir.reading.documents import UNREADABLE
from cnibench.rundir.reading.findings import Findings
from cnibench.rundir.schema import migrate

T = TypeVar("T")


class DecodedLines:
    """``whole`` names the files of which every line was decoded."""

    def __init__(self, path: Path, chain: Chain, findings: Findings, lines: CommittedLines) -> None:
        self._path, self._chain, self._findings, self._lines = path, chain, findings, lines
        self.whole: set[str] = set()

    def decoded(self, name: str, kind: type[T]) -> Iterator[list[T]]:
        """The lines of the file, some megabytes at a time. Raises InputError for lines of a newer
        version.
        """
        for first, data, lines in self._decodable(name, kind):
            yield list(self._one_by_one(name, first, data, kind)) if lines is None else lines

    def readable(self, name: str, kind: type[Any]) -> Iterator[tuple[int, bytes]]:
        """The same lines as ``decoded`` gives, as bytes."""
        for first, data, lines in self._decodable(name, kind):
            if lines is None:
                whole = (
                    msgspec.json.encode(line) + b"\n"
                    for line in self._one_by_one(name, first, data, kind)
                )
                yield first, b"".join(whole)
            else:
                yield first, data

    def _decodable(self, name: str, kind: type[T]) -> Iterator[tuple[int, bytes, list[T] | None]]:
        """(first line, bytes, decoded lines) of each piece; None where not all of its lines are as
        they should be.
        """
        decoder = msgspec.json.Decoder(kind)
        has_schema = "schema" in getattr(kind, "__struct_fields__", ())
        versions = decoder if has_schema else msgspec.json.Decoder(_Version)
        for first, data in self._lines.pieces(name):
            lines: list[T] = []
            try:  # the usual case: a whole buffer at once
                lines = decoder.decode_lines(data)
                decoded: list[Any] = lines if has_schema else versions.decode_lines(data)
                # Version 2 only adds fields, so that lines of version 1 are decoded as they are.
                usual = all(1 <= one.schema <= self._newest for one in decoded)
            except UNREADABLE:
                usual = False
            yield first, data, lines if usual else None
        self.whole.add(name)

    def _one_by_one(self, name: str, first: int, data: bytes, kind: type[T]) -> Iterator[T]:
        """A piece with a line that cannot be decoded like the others: one that is broken is left
        out and reported.
        """
        for number, line in enumerate(data.split(b"\n")[:-1], first):
            try:
                record = msgspec.json.decode(line, type=dict[str, Any])
                version = record.get("schema")
                if isinstance(version, int) and self._newest < version <= SCHEMA:
                    self._findings.add(
                        Problem(
                            kind="not chained",
                            file=name,
                            line=number,
                            detail="its events are missing",
                        )
                    )
                    continue
                migrated = migrate(f"{self._path / name}, line {number}", record)
                yield msgspec.json.decode(msgspec.json.encode(migrated), type=kind)
            except UNREADABLE as error:
                self._findings.add(
                    Problem(
                        kind="changed",
                        file=name,
                        line=number,
                        detail=f"left out, it cannot be read: {error}",
                    )
                )

    @property
    def _newest(self) -> int:
        """The newest version that a line of this run may have."""
        return SCHEMA if self._chain.chained else 1


class _Version(msgspec.Struct):
    schema: int
