"""Does a candidate fail more often than its base? Exact tests, one-sided, of the blocks in which
each gave no figure.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from cnibench.analysis.series import Block

MCNEMAR, FISHER = "exact McNemar test", "Fisher's exact test"


@dataclass(frozen=True)
class Tally:
    """The blocks in which a cell was tried, those of them that gave no figure, and why the first of
    these did not. Blocks that were ``disturbed`` are neither tried nor failed.
    """

    tried: frozenset[Block] = frozenset()
    failed: frozenset[Block] = frozenset()
    reason: str = ""
    disturbed: frozenset[Block] = frozenset()

    @property
    def rate(self) -> float:
        return len(self.failed) / len(self.tried) if self.tried else 0.0

    def __or__(self, other: Tally) -> Tally:
        return Tally(
            self.tried | other.tried,
            self.failed | other.failed,
            self.reason or other.reason,
            self.disturbed | other.disturbed,
        )

    def of_run(self, number: int) -> Tally:
        """The same blocks as those of the run of that number."""
        tried, failed, disturbed = (
            frozenset((number, block) for _, block in blocks)
            for blocks in (self.tried, self.failed, self.disturbed)
        )
        return Tally(tried, failed, self.reason, disturbed)


@dataclass(frozen=True)
class Evidence:
    """``p`` of so many more failures by chance; ``more``: the candidate did fail more often."""

    p: float
    more: bool
    test: str


def more_often(base: Tally, candidate: Tally, *, paired: bool) -> Evidence | None:
    """None where the failures cannot tell the two apart at all: then there is nothing to test.

    ``paired``: both were tried in the same blocks, and those in which only one of them failed
    decide (exact McNemar test: a sign test); else Fisher's exact test of the two shares, which
    takes the blocks as independent.
    """
    if not base.tried or not candidate.tried:
        return None
    more = candidate.rate > base.rate
    if not paired:
        if not base.failed and not candidate.failed:
            return None
        return Evidence(_fisher(base, candidate), more, FISHER)
    both = base.tried & candidate.tried
    theirs, ours = (
        len((candidate.failed - base.failed) & both),
        len((base.failed - candidate.failed) & both),
    )
    if not theirs + ours and not more:
        return None
    return Evidence(_sign(theirs, ours), more or theirs > ours, MCNEMAR)


def _sign(above: int, below: int) -> float:
    """P(at least ``above`` heads in above + below fair tosses)."""
    n = above + below
    ways = total = math.comb(n, above)
    for k in range(above, n):  # integers of any size, each made of the one before
        ways = ways * (n - k) // (k + 1)
        total += ways
    return total / (1 << n)


def _fisher(base: Tally, candidate: Tally) -> float:
    """P(at least so many of all failures fall to the candidate), with the margins fixed
    (hypergeometric).
    """
    ours, theirs = len(base.tried), len(candidate.tried)
    failures = len(base.failed) + len(candidate.failed)
    first, most = len(candidate.failed), min(failures, theirs)
    ways = total = math.comb(theirs, first) * math.comb(ours, failures - first)
    for k in range(first, most):
        ways = ways * (theirs - k) * (failures - k) // ((k + 1) * (ours - failures + k + 1))
        total += ways
    return total / math.comb(ours + theirs, failures)
