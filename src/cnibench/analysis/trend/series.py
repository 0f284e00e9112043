"""From what runs measured to one series for each label and place: an estimate for each run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from scipy.special import stdtrit

from cnibench.analysis.comparison.contexts import Context
from cnibench.analysis.model import Where
from cnibench.analysis.trend.model import Point, Series
from cnibench.model.metrics import main_metric
from cnibench.model.units import plural
from cnibench.rundir.reader import RunReader
from cnibench.stats.change_points import FEWEST
from cnibench.stats.inference import Array


def main_contexts(contexts: Sequence[Context], main: Mapping[str, str]) -> list[Context]:
    """Those of each workload's main metric, measured without perf."""
    whole = [one for one in contexts if one.window == "speed" and not one.where["reading"]]
    there: dict[str, list[str]] = {}
    for one in whole:
        there.setdefault(one.where["workload"], []).append(one.where["metric"])
    return [
        one
        for one in whole
        if one.where["metric"]
        == main_metric(one.where["workload"], there[one.where["workload"]], main)
    ]


def series(
    context: Context, label: str, baseline: str, readers: Sequence[RunReader], level: float
) -> tuple[Series, Array]:
    """The series, and the logs of its estimates by run, NaN where a run has none."""
    where = Where(**context.where | ({"unit": "1"} if baseline else {}))
    logs, points = np.full(len(readers), np.nan), []
    shown = {name: getattr(where, name) for name in where.__struct_fields__}
    positive = all(
        value > 0
        for name in (label, baseline)
        if name in context.members
        for value in context.members[name].values.values()
    )
    for run, reader in enumerate(readers if positive else ()):
        found = _estimate(context, label, baseline, run, level)
        if found is None:
            continue
        n, logs[run], reach = found
        low, high = (
            (None, None) if reach is None else np.exp([logs[run] - reach, logs[run] + reach])
        )
        points.append(
            Point(
                run=reader.id,
                started=reader.started,
                n=n,
                estimate=float(np.exp(logs[run])),
                low=None if low is None else float(low),
                high=None if high is None else float(high),
            )
        )
    reason = ""
    if not positive:
        reason = "a value is not above 0, so there are no ratios"
    elif len(points) < FEWEST:
        reason = f"{plural(len(points), 'run')}, change points need at least {FEWEST}"
    return Series(**shown, label=label, points=points, reason=reason), logs


def _estimate(
    context: Context, label: str, baseline: str, run: int, level: float
) -> tuple[int, float, float | None] | None:
    """(blocks, mean log, half of its interval), None where the run has no value."""
    own = _logs(context, label, run)
    if baseline:
        base = _logs(context, baseline, run)
        if not context.paired and own and base:
            return len(own), float(np.mean([*own.values()]) - np.mean([*base.values()])), None
        own = {block: own[block] - base[block] for block in own if block in base}
    if not own:
        return None
    row, n = np.array([*own.values()]), len(own)
    reach = None if n < 2 else float(stdtrit(n - 1, 1 - level / 2) * row.std(ddof=1) / np.sqrt(n))
    return n, float(row.mean()), reach


def _logs(context: Context, label: str, run: int) -> dict[int, float]:
    """By block."""
    member = context.members.get(label)
    return {
        block: float(np.log(value))
        for (its, block), value in (member.values.items() if member else ())
        if its == run
    }
