"""Rounds of slices while perf samples, and what it saw in each cell's turns."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from cnibench.errors import CnibenchError, MeasureError
from cnibench.run.collector import Collector, Turns
from cnibench.run.sample_context import Measurements
from cnibench.run.slices.engine import LEAD_IN, LENGTH, After, Driven, drive
from cnibench.run.slices.generator import Generator
from cnibench.run.slices.readings.clocks import descendants
from cnibench.run.slices.rounds import kept
from cnibench.run.slices.slice import Slice


def with_cycles(
    collector: Collector | None,
    generators: Mapping[str, Generator],
    rounds: int,
    block: int,
    seed: int,
    *,
    after: After = lambda done, slices: None,
) -> Driven:
    """As ``drive``, with what the collector found of each cell in ``cycles``. Raises CnibenchError
    when it cannot sample.
    """
    if collector is None:
        raise MeasureError("nothing here reads cycles", "'cnibench doctor' checks perf")
    samples = [generator.s for generator in generators.values()]
    seconds = 2 * rounds * len(generators) * (LENGTH + LEAD_IN)
    ours = descendants(os.getpid())
    with collector.rounds(samples, seconds) as evaluate:
        started = descendants(os.getpid()) - ours
        driven = drive(generators, rounds, block, seed, after=after, beside=started)
        for cell, generator in generators.items():
            if cell in driven.failed:
                continue
            own_turns = turns([one for one in driven.slices if one.cell == cell], driven.began)
            found = driven.cycles[cell] = Measurements()
            try:
                evaluate(generator.s, own_turns, found)
            except CnibenchError as error:
                driven.failed[cell] = error
    return driven


def turns(slices: Sequence[Slice], began: int) -> Turns:
    """Of the slices that count."""
    good = kept(slices)
    windows = [
        (began + round(one.start * 1e9), began + round((one.start + one.seconds) * 1e9))
        for one in good
    ]
    return Turns(windows, sum(one.packets for one in good), sum(one.bytes for one in good))
