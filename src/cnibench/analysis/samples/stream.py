"""Lines of a run, read a piece at a time: a million samples are never in memory together."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from cnibench.model.cell import Sample
from cnibench.rundir.reader import RunReader
from cnibench.rundir.schema import SAMPLES


class Line(Sample, frozen=True, kw_only=True, gc=False):
    """A line of samples.jsonl whose ``params`` stay undecoded."""

    params: msgspec.Raw  # type: ignore[assignment]


def samples(reader: RunReader) -> Iterator[list[Line]]:
    """The samples in pieces, in order: those that the run's events vouch for, of the last attempt
    at each of them.

    What is left out is reported in ``reader.problems``. Raises InputError for a newer schema.
    """
    yield from reader.decoded(SAMPLES, Line)
