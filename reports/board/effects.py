"""What a run says about its CNIs, place by place, as the board combines it: by how much each is
better than the average of those that were measured with it, and how uncertain that is.

Within a block all profiles are measured under the same conditions. The effect of a label in a block
is the log of its figure minus the mean of the logs over all labels, with the sign that makes larger
better: a randomised block design, whose differences between two labels need no model of the
machine. Where a label lacks blocks, least squares with a level for each label and one for each
block compares it in those that it has. Labels that failed often are not ranked, as in reports.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cnibench.analysis.comparison.contexts import OFTEN
from cnibench.analysis.model import Analysis, Result
from cnibench.analysis.samples.series import CPP_METRICS
from cnibench.analysis.text.narrative import place_of
from cnibench.analysis.text.places import describe
from cnibench.model.metrics import METRICS
from cnibench.model.units import human
from cnibench.stats.additive import contrasts
from cnibench.stats.inference import ALPHA

# For each dimension the metrics that stand for it, the first that a use case has: netperf's rate of
# transactions of one connection is the inverse of their mean latency.
DIMENSIONS: dict[str, tuple[str, ...]] = {
    "latency": ("transaction_rate", "latency_p50", "latency_mean", "latency_p99"),
    "throughput": ("throughput", "request_rate"),
    "cpu": ("cpu_per_transaction", "cpu_per_byte", "cycles_per_packet"),
}
_LONGEST = 200  # characters of a description


@dataclass(frozen=True)
class Effect:
    """``mean`` of the log over the blocks; ``variance`` of that mean under independent errors, None
    of fewer than two blocks.
    """

    label: str
    mean: float
    variance: float | None


@dataclass(frozen=True)
class Place:
    """One place and metric with at least two CNIs; ``blocks`` have a figure of two or more."""

    dimension: str
    use: str
    metric: str
    blocks: int
    effects: list[Effect]


@dataclass(frozen=True)
class Row:
    """One figure, in words, for the page of a bundle."""

    use: str
    metric: str
    label: str
    value: str
    interval: str
    blocks: int
    relative: float


def places(analysis: Analysis) -> list[Place]:
    """All that can be ranked. Throughput between nodes counts only where a network card is the
    wire; baselines are no CNIs.
    """
    found: dict[str, dict[str, dict[str, list[Result]]]] = {}
    for one in analysis.results:
        if not one.reading and one.fidelity != "baseline":
            groups = found.setdefault(use_of(one), {}).setdefault(one.metric, {})
            groups.setdefault(repr(place_of(one)), []).append(one)
    ranked = []
    for metrics in found.values():
        for dimension, wanted in DIMENSIONS.items():
            metric = next((name for name in wanted if name in metrics), "")
            for results in metrics[metric].values() if metric else ():
                place = None if _unfit(dimension, results[0]) else _place(dimension, results)
                ranked += [place] if place else []
    return ranked


def _unfit(dimension: str, one: Result) -> bool:
    return dimension == "throughput" and one.placement == "inter" and one.wire != "nic"


def _place(dimension: str, results: Sequence[Result]) -> Place | None:
    known = [
        (one.label, dict(zip(one.blocks, one.values, strict=True)))
        for one in results
        if one.values and min(one.values) > 0 and one.failed < OFTEN * max(1, one.tried)
    ]
    blocks = [
        block
        for block in sorted({block for _, values in known for block in values})
        if sum(block in values for _, values in known) > 1
    ]
    known = [one for one in known if set(one[1]) & set(blocks)]
    if len(known) < 2:
        return None
    table = np.array([[values.get(block, np.nan) for block in blocks] for _, values in known])
    logs = np.log(table) * (1.0 if results[0].better == "higher" else -1.0)
    apart = contrasts(logs, paired=True, alpha=ALPHA, family=1).difference
    if np.isnan(apart).any():  # no blocks connect them
        return None
    means = apart.mean(axis=1)
    rest = logs - means[:, None]
    errors = rest - np.nanmean(rest, axis=0)
    there = (~np.isnan(errors)).sum(axis=1)
    count = len(known)
    # of count labels the mean of their blocks takes one part: independent errors are larger
    scale = count / (count - 1) / there / np.maximum(there - 1, 1)
    spread = np.where(there > 1, np.nansum(errors**2, axis=1) * scale, np.nan)
    return Place(
        dimension,
        use_of(results[0]),
        results[0].metric,
        len(blocks),
        [
            Effect(label, float(means[at]), None if there[at] < 2 else float(spread[at]))
            for at, (label, _) in enumerate(known)
        ],
    )


def use_of(one: Result) -> str:
    """The use case that a place stands for, in words."""
    params = ", ".join(f"{name} {value}" for name, value in sorted(one.params.items()))
    words = describe(one) + (f" ({params})" if params else "")
    return words if len(words) <= _LONGEST else words[: _LONGEST - 1] + "…"


def rows(analysis: Analysis) -> list[Row]:
    """All figures of a run with their intervals, for people."""
    best: dict[str, float] = {}
    for one in analysis.results:
        key = repr((place_of(one), one.metric, one.reading, one.environment))
        seen = best.get(key, one.median)
        best[key] = max(seen, one.median) if one.better == "higher" else min(seen, one.median)
    found = []
    for one in analysis.results:
        if one.metric == CPP_METRICS[0] and analysis.cpp:  # the page has them with their parts
            continue
        top = best[repr((place_of(one), one.metric, one.reading, one.environment))]
        ratio = one.median / top if one.better == "higher" and top else math.nan
        if one.better == "lower" and one.median:
            ratio = top / one.median
        interval = (
            "too few blocks"
            if one.ci_low is None or one.ci_high is None
            else f"{human(one.ci_low, one.unit)} to {human(one.ci_high, one.unit)}"
        )
        found.append(
            Row(
                use_of(one),
                METRICS[one.metric].title if one.metric in METRICS else one.metric,
                one.label,
                human(one.median, one.unit),
                interval,
                one.n,
                min(1.0, max(0.0, ratio)) if math.isfinite(ratio) else 0.0,
            )
        )
    return found
