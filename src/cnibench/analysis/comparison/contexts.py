"""What labels are compared in: one metric at one place, a value for each label in each block."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from cnibench.analysis.gate.failure_rates import Tally
from cnibench.analysis.samples.series import Block
from cnibench.analysis.samples.stream import Line

OFTEN = 0.2  # share of the blocks that were tried


@dataclass
class Member:
    """One label in one context: a value for each block."""

    first: Line
    values: dict[Block, float] = field(default_factory=dict)
    tally: Tally = field(default_factory=Tally)


@dataclass
class Context:
    """One metric at one place: what its labels can be compared in. ``where`` are the fields of
    model.Where.

    ``absent`` are labels that never gave a figure there: all of their samples failed or were
    disturbed. Where that is so of all labels, there are no members. ``paired``: what was measured
    in one block belongs together, which the repeats of other tools do not. ``replicate``: a value
    is that of a block, or of a run as a whole (by_runs.py). ``compared``: its labels may be
    compared with each other (host_baseline.py).
    """

    where: dict[str, Any]
    window: str
    members: dict[str, Member] = field(default_factory=dict)
    absent: dict[str, Member] = field(default_factory=dict)
    paired: bool = True
    replicate: Literal["block", "run"] = "block"
    compared: bool = True

    @property
    def failing(self) -> list[str]:
        """The labels that gave no figure so often that those they gave do not rank them."""
        return [label for label, (failed, tried) in self.failed.items() if failed >= OFTEN * tried]

    @property
    def failed(self) -> dict[str, tuple[int, int]]:
        """The labels that failed at times: (in how many blocks, of how many)."""
        every = {**self.members, **self.absent}
        return {
            label: (len(one.tally.failed), len(one.tally.tried))
            for label, one in every.items()
            if one.tally.failed
        }
