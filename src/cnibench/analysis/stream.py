"""Lines of a run, read a piece at a time: a million samples are never in memory together."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from cnibench.cell import SCHEMA, Sample
from cnibench.layout import SAMPLES
from cnibench.store import RunReader

_PIECE = 2 << 20


class Line(Sample, frozen=True, kw_only=True, gc=False):
    """A line of samples.jsonl whose ``params`` stay undecoded."""

    params: msgspec.Raw  # type: ignore[assignment]


class _Unusual(Exception):
    """An older schema, or a line that cannot be read: the reader's slow way tells what it is."""


def samples(reader: RunReader) -> Iterator[list[Line]]:
    """The samples in pieces, in order. What is broken is left out and told in ``reader.warnings``. Raises InputError for a newer schema."""
    sent = 0
    try:
        for piece in _fast(reader.path / SAMPLES, reader.warnings):
            sent += len(piece)
            yield piece
    except _Unusual:
        rest = [line for i, line in enumerate(_slow(reader)) if i >= sent]
        yield rest


def _fast(path: Path, warnings: list[str]) -> Iterator[list[Line]]:
    if not path.exists():
        return
    decoder = msgspec.json.Decoder(Line)
    left = b""
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            whole, newline, rest = piece.rpartition(b"\n")
            if not newline:
                left += piece
                continue
            try:
                lines = decoder.decode_lines(left + whole)
            except (msgspec.MsgspecError, UnicodeDecodeError):
                raise _Unusual from None
            if any(line.schema != SCHEMA for line in lines):
                raise _Unusual
            left = rest
            yield lines
    if left:
        warnings.append(f"{path}: the last line is cut off in the middle and left out")


def _slow(reader: RunReader) -> Iterator[Line]:
    for sample in reader.samples():
        fields = {name: getattr(sample, name) for name in Line.__struct_fields__ if name != "params"}
        yield Line(params=msgspec.Raw(msgspec.json.encode(sample.params)), **fields)
