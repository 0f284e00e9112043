"""``compare --plan``: how many blocks and runs a candidate needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cnibench.cli.output.printing import print_json

if TYPE_CHECKING:
    from cnibench.analysis.gate.judgement import Key
    from cnibench.analysis.gate.memory import Together
    from cnibench.analysis.gate.planning import Noise
    from cnibench.cli.gate.history import Looked


def planned(
    found: Looked, power: float, path: Path | None, problems: Sequence[str], *, as_json: bool
) -> int:
    """Prints the plan; the exit status. Raises InputError as ``plan`` and ``together``."""
    from cnibench.analysis.gate.evidence import side_of
    from cnibench.analysis.gate.history import History
    from cnibench.analysis.gate.judgement import judged_keys
    from cnibench.analysis.gate.memory import together
    from cnibench.analysis.gate.noninferiority import LEVEL
    from cnibench.analysis.gate.planning import plan
    from cnibench.cli.gate.history import read, recorded
    from cnibench.reports import _gate_notes
    from cnibench.stats.spending import level_of_look

    known = History(Path()) if path is None else read(path)
    question = found.question
    if not found.theirs and known.looks:  # a base alone may be planned for in either way
        question = replace(question, how=known.looks[0].how)
    both = together(known, question, *recorded(found))
    base = side_of(dict(enumerate(both.every_base)))
    keys = judged_keys(base, found.metrics, found.main)
    look = max(1, both.look + (not both.new)) if found.theirs else 1
    result = plan(
        base,
        keys,
        {key: _noise(found, both, key) for key in keys},
        found.threshold,
        power=power,
        level=LEVEL if path is None else level_of_look(look, LEVEL),
        look=look if path else 1,
        have=_have(both) if path else 0,
        freedom=sum(len(runs) - 1 for runs, _ in both.others)
        if path and question.how == "blocks"
        else None,
    )
    if as_json:
        print_json({"schema": 1, "problems": problems, "plan": result})
    else:
        click.echo(_gate_notes.plan(result), nl=False)
    return 1 if problems else 0


def _noise(found: Looked, both: Together, key: Key) -> Noise | None:
    """Of base and candidate where they share runs; else of the base and what it ran with."""
    from cnibench.analysis.gate.evidence import side_of
    from cnibench.analysis.gate.planning import noise_of_base, noise_of_pairs

    base, candidate = (side_of(runs) for runs in both.pairs())
    runs = [(found.contexts[one.reader.id], one.label) for one in found.ours]
    return noise_of_pairs(base, candidate, key) or noise_of_base(runs, key)


def _have(both: Together) -> int:
    """Blocks of the candidate in the history: the fewest of its cells."""
    new = {(run.id, run.label) for run in both.new}
    counts: dict[str, int] = {}
    for run in both.candidate.values():
        for cell in run.cells:
            if cell.values:
                name = repr(cell.where)
                known = (run.id, run.label) not in new
                counts[name] = counts.get(name, 0) + len(cell.values) * known
    return min(counts.values(), default=0)
