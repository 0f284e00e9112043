"""The noise at each place of any run of two labels or more."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cnibench.analysis.build import contexts_of, main_of
from cnibench.analysis.comparison.contexts import Context
from cnibench.analysis.model import Where
from cnibench.analysis.text.narrative import place_of
from cnibench.model.metrics import main_metric
from cnibench.rundir.reader import RunReader
from cnibench.stats.inference import Array
from cnibench.stats.scale import scale


def scatter(reader: RunReader) -> list[dict[str, Any]]:
    """The noise at each place of any run with two labels or more: {workload, placement, cpus,
    metric, method, duration, n, noise}.

    ``noise`` is the root mean square of that of each two labels, by ``scale``, which an outlier
    hardly moves: the standard deviation of the logs that neither label nor block explains.
    """
    found = []
    for context in main_of_places(reader):
        values = [member.values for member in context.members.values()]
        both = sorted(
            block
            for block in set.intersection(*(set(one) for one in values))
            if all(one[block] > 0 for one in values)
        )
        if len(values) < 2 or len(both) < 2:
            continue
        logs: Array = np.log([[one[block] for block in both] for one in values])
        first, second = np.triu_indices(len(logs), 1)
        noise = math.sqrt(float(np.mean(scale(logs[first] - logs[second]) ** 2)) / 2)
        where = context.where
        found.append(
            {
                "workload": where["workload"],
                "placement": where["placement"],
                "cpus": where["cpus"],
                "metric": where["metric"],
                "method": where["method"],
                "duration": where["duration"],
                "n": len(both),
                "noise": noise,
            }
        )
    return found


def main_of_places(reader: RunReader) -> list[Context]:
    """The contexts of each place's main metric."""
    contexts = [
        context
        for context in contexts_of(reader)
        if context.members and not context.where["reading"]
    ]
    main = main_of([reader])
    places: dict[tuple[object, ...], list[str]] = {}
    for context in contexts:
        places.setdefault(place_of(Where(**context.where)), []).append(context.where["metric"])
    return [
        one
        for one in contexts
        if one.where["metric"]
        == main_metric(one.where["workload"], places[place_of(Where(**one.where))], main)
    ]
