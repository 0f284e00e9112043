"""What a history keeps of a run for the gate, and the sides of the gate made of it again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cnibench.analysis.comparability import Circumstances
from cnibench.analysis.gate.cell import Place
from cnibench.analysis.gate.failure_rates import Tally
from cnibench.analysis.gate.history import Cell, Run
from cnibench.analysis.gate.judgement import Key, Side
from cnibench.model import context
from cnibench.model.coordinates import MACHINE


def run_of(
    reader_id: str, label: str, side: Side, keys: Sequence[Key], circumstances: Circumstances
) -> Run:
    """``side`` is what this label of this run alone measured, ``keys`` are those whose figures are
    judged. Of every other window its first metric is kept, for its failures and disturbances.
    """
    wanted = set(keys)
    windows = {(key[0], side[key].window) for key in side if key in wanted}
    cells = []
    for key, place in side.items():
        window = (key[0], place.window)
        if key not in wanted and window in windows:
            continue
        windows.add(window)
        cells.append(_cell(place, figures=key in wanted))
    return Run(
        id=reader_id,
        label=label,
        facts=_facts(circumstances.facts),
        labels=circumstances.labels,
        places=circumstances.places,
        settings=circumstances.settings,
        cells=cells,
    )


def _cell(place: Place, *, figures: bool) -> Cell:
    tally = place.tally
    values = {block: value for run in place.runs for (_, block), value in run.items()}
    return Cell(
        where=place.where,
        window=place.window,
        values=values if figures else {},
        tried=sorted(block for _, block in tally.tried),
        failed=sorted(block for _, block in tally.failed),
        disturbed=sorted(block for _, block in tally.disturbed),
        reason=tally.reason,
    )


def _facts(environment: Mapping[str, Any]) -> dict[str, Any]:
    """What of env.json says on which machine and with which programs a run was made."""
    names = {path.split(".")[0] for one in MACHINE for path in one.at or (one.name,)}
    return {name: environment[name] for name in sorted(names) if name in environment}


def circumstances_of(run: Run) -> Circumstances:
    """What must agree between that run and others."""
    return Circumstances(run.facts, run.labels, run.places, run.settings)


def side_of(runs: Mapping[int, Run]) -> Side:
    """One side of the gate, of runs by their number; both sides give the same run the same number
    where they are compared block by block.
    """
    found: Side = {}
    for number, run in runs.items():
        for cell in run.cells:
            where = {name: getattr(cell.where, name) for name in context.IDENTITY}
            key = (context.key(where, context.IDENTITY), cell.where.metric)
            place = found.setdefault(key, Place(cell.where, cell.window, []))
            values = {(number, block): value for block, value in cell.values.items()}
            place.runs += [values] if values else []
            tried, failed, disturbed = (
                frozenset((number, block) for block in blocks)
                for blocks in (cell.tried, cell.failed, cell.disturbed)
            )
            place.tally |= Tally(tried, failed, cell.reason, disturbed)
    return found


def between_runs(side: Side, keys: Sequence[Key]) -> dict[Key, tuple[float, int]]:
    """The standard deviation of the runs' mean logs and the number of runs, of each cell with at
    least two runs of positive values.
    """
    import numpy as np

    found = {}
    for key in keys:
        runs = side[key].runs if key in side else []
        values = [np.array(list(run.values())) for run in runs]
        if len(values) >= 2 and all((one > 0).all() for one in values):
            means = np.array([np.log(one).mean() for one in values])
            found[key] = (float(means.std(ddof=1)), len(values))
    return found
