"""Lines of a run, read a piece at a time: a million samples are never in memory together."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from cnibench.layout import SAMPLES
from cnibench.store import RunReader


class Line(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What the analysis needs of a line of samples.jsonl; ``params`` stays undecoded."""

    schema: int
    cell: str
    block: int
    profile: str
    label: str
    placement: str
    path: str
    workload: str
    params: msgspec.Raw
    ip: int
    mtu: int
    cpus: str
    pair: int
    window: str
    testbed: str
    wire: str
    wire_offload: str
    metric: str
    value: float | None
    unit: str
    better: str
    fidelity: str
    status: str
    reason: str = ""
    warmup: bool = False
    start: str
    end: str


def samples(reader: RunReader) -> Iterator[list[Line]]:
    """The samples in pieces, in order: those that the run's events vouch for, of the last attempt at each of them.

    What is left out is told in ``reader.problems``. Raises InputError for a newer schema.
    """
    yield from reader.decoded(SAMPLES, Line)
