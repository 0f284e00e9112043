"""Which samples of a run are finished: what a resumed run leaves out."""

from __future__ import annotations

import msgspec

from cnibench.rundir.chain import Chain
from cnibench.rundir.reading.committed_lines import CommittedLines
from cnibench.rundir.reading.decoded_lines import DecodedLines
from cnibench.rundir.reading.findings import Findings
from cnibench.rundir.schema import SAMPLES


def finished_samples(
    chain: Chain, lines: CommittedLines, decoded: DecodedLines, findings: Findings
) -> set[tuple[str, int]]:
    """(cell id, block) of all whose lines are intact; ``findings`` are those of the same run."""
    known = chain.latest
    found = {key for key, event in known.items() if event.sha256}
    if SAMPLES not in lines.complete:
        for _ in lines.pieces(SAMPLES):
            pass
    damaged = [problem for problem in findings.problems if problem.file == SAMPLES]
    found -= {(problem.cell, problem.block) for problem in damaged}
    if len(found) < len(known):
        found |= _before_the_chain(chain, decoded)
    return found


def _before_the_chain(chain: Chain, decoded: DecodedLines) -> set[tuple[str, int]]:
    """An older version committed samples by the number of their lines."""
    counts: dict[tuple[str, int], int] = {}
    for places in decoded.decoded(SAMPLES, _Place):
        for place in places:
            counts[place.cell, place.block] = counts.get((place.cell, place.block), 0) + 1
    old = {key: event.lines for key, event in chain.latest.items() if not event.sha256}
    return {key for key, wanted in old.items() if counts.get(key, 0) >= wanted}


class _Place(msgspec.Struct, frozen=True, gc=False):
    """As much of a Sample as says where it belongs."""

    schema: int
    cell: str
    block: int
