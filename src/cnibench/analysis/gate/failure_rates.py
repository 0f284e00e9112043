"""Does a candidate fail more often than its base, or is one side disturbed more often than the
other? Exact tests of the blocks in which each gave no figure.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from cnibench.analysis.samples.series import Block

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

    @property
    def begun(self) -> frozenset[Block]:
        """All blocks in which it was measured, whatever came of it."""
        return self.tried | self.disturbed

    def of_run(self, number: int) -> Tally:
        """The same blocks as those of the run of that number."""
        tried, failed, disturbed = (
            frozenset((number, block) for _, block in blocks)
            for blocks in (self.tried, self.failed, self.disturbed)
        )
        return Tally(tried, failed, self.reason, disturbed)


@dataclass(frozen=True)
class Evidence:
    """``p`` of such a difference by chance; ``more``: the candidate has the larger share."""

    p: float
    more: bool
    test: str


def more_often(base: Tally, candidate: Tally, *, paired: bool) -> Evidence | None:
    """None where the failures cannot show any difference: then there is nothing to test.

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
        p = _fisher(len(candidate.failed), len(candidate.tried), len(base.failed), len(base.tried))
        return Evidence(p, more, FISHER)
    both = base.tried & candidate.tried
    theirs, ours = (
        len((candidate.failed - base.failed) & both),
        len((base.failed - candidate.failed) & both),
    )
    if not theirs + ours and not more:
        return None
    return Evidence(_sign(theirs, ours), more or theirs > ours, MCNEMAR)


def unequally_disturbed(base: Tally, candidate: Tally, *, paired: bool) -> Evidence | None:
    """Two-sided, as either direction selects the blocks that remain; None where nothing was
    disturbed. ``more``: the candidate was disturbed more often.

    ``paired`` as in ``more_often``.
    """
    if not base.disturbed and not candidate.disturbed:
        return None
    ours, theirs = len(base.begun), len(candidate.begun)
    if not ours or not theirs:
        return None
    if paired:
        both = base.begun & candidate.begun
        theirs = len((candidate.disturbed - base.disturbed) & both)
        ours = len((base.disturbed - candidate.disturbed) & both)
        p = min(_sign(theirs, ours), _sign(ours, theirs))
        return Evidence(min(1.0, 2 * p), theirs > ours, MCNEMAR)
    several, others = len(candidate.disturbed), len(base.disturbed)
    p = min(_fisher(several, theirs, others, ours), _fisher(others, ours, several, theirs))
    return Evidence(min(1.0, 2 * p), several * ours > others * theirs, FISHER)


def few_left(base: Tally, candidate: Tally, *, paired: bool) -> str:
    """Says so where disturbances leave fewer than half of the pairs, or, of runs that are not
    paired, of the blocks of one side; else ''.
    """
    if paired:
        every = base.begun | candidate.begun
        left = every - base.disturbed - candidate.disturbed
        if 2 * len(left) >= len(every):
            return ""
        return f"only {len(left)} of {len(every)} pairs of blocks were not disturbed"
    for one, name in ((base, "base"), (candidate, "candidate")):
        left = one.begun - one.disturbed
        if 2 * len(left) < len(one.begun):
            return f"only {len(left)} of {len(one.begun)} blocks of the {name} were not disturbed"
    return ""


def _sign(above: int, below: int) -> float:
    """P(at least ``above`` heads in above + below fair tosses)."""
    n = above + below
    ways = total = math.comb(n, above)
    for k in range(above, n):  # integers of any size, each made of the one before
        ways = ways * (n - k) // (k + 1)
        total += ways
    return total / (1 << n)


def _fisher(hits: int, of: int, other_hits: int, other_of: int) -> float:
    """P(at least so many of all hits fall among the first ``of``), with the margins fixed
    (hypergeometric).
    """
    every = hits + other_hits
    most = min(every, of)
    ways = total = math.comb(of, hits) * math.comb(other_of, every - hits)
    for k in range(hits, most):
        ways = ways * (of - k) * (every - k) // ((k + 1) * (other_of - every + k + 1))
        total += ways
    return total / math.comb(of + other_of, every)
