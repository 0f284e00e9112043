"""The axis of a chart of percentiles: what was measured, and room for the tail."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import vl_convert
from msgspec import structs

from cnibench.analysis.text.narrative import primary_groups
from cnibench.reports.document.parts import Section
from cnibench.reports.site.dataset import material
from cnibench.reports.site.figures import latency
from cnibench.reports.site.figures.charts import Chart
from cnibench.reports.site.places import place
from tests.unit._runs import synthetic


def test_each_percentile_has_a_tick_and_the_tail_as_much_room_as_the_rest(tmp_path: Path) -> None:
    one = synthetic(tmp_path, {"flannel": 1.0, "cilium": 1.1}, workloads=("tcp-rr",), cpp=False)
    found = material([one], raw=False, allow_different=False, baseline="")
    (group, *_) = primary_groups(found.analysis)
    here = place(found.analysis, group, Section("", [], []), frozenset())
    assert latency.percentiles(found, here) is None
    results = [
        structs.replace(row, metric=f"latency_{name}", unit="s", median=1e-5, ci_low=1e-5)
        for row in found.analysis.results
        if row.metric == group.metric
        for name in ("p50", "p90", "p99")
    ]
    found = replace(found, analysis=structs.replace(found.analysis, results=results))
    chart = latency.percentiles(found, here)
    assert chart
    picture = vl_convert.vegalite_to_svg({**chart.spec, "width": 500})
    ticks = re.findall(r'translate\(([\d.]+),[\d.]+\)"[^>]*>(p[\d.]+)</text>', picture)
    assert [name for _, name in ticks] == ["p50", "p90", "p99"]
    fifty, ninety, last = (float(at) for at, _ in ticks)
    # by logarithms 1 / 0.699; the labels at the ends are moved inside
    assert 1.3 < (last - ninety) / (ninety - fifty) < 1.6
    assert "log" not in _upwards(chart)["scale"].values()


def test_a_tail_of_a_hundred_times_the_median_does_not_flatten_the_rest(tmp_path: Path) -> None:
    """42 and 56 us were one line at the bottom of an axis of milliseconds."""
    one = synthetic(tmp_path, {"flannel": 1.0, "cilium": 1.1}, workloads=("tcp-rr",), cpp=False)
    found = material([one], raw=False, allow_different=False, baseline="")
    (group, *_) = primary_groups(found.analysis)
    here = place(found.analysis, group, Section("", [], []), frozenset())
    times = {"flannel": {"p50": 42e-6, "p90": 52e-6, "p99": 5e-3}}
    times["cilium"] = {"p50": 56e-6, "p90": 65e-6, "p99": 3e-3}
    results = [
        structs.replace(
            row, metric=f"latency_{name}", unit="s", median=time, ci_low=0.0, ci_high=2 * time
        )
        for row in found.analysis.results
        if row.metric == group.metric
        for name, time in times[row.label].items()
    ]
    found = replace(found, analysis=structs.replace(found.analysis, results=results))
    chart = latency.percentiles(found, here)
    assert chart
    up = _upwards(chart)
    assert up["scale"]["type"] == "log"
    assert up["title"] == "latency, ms (log scale)"
    # a logarithm has no place for an interval that begins at 0: no band, and a picture anyway
    assert not any("low" in row for row in chart.spec["data"]["values"])
    assert "NaN" not in vl_convert.vegalite_to_svg({**chart.spec, "width": 500})


def _upwards(chart: Chart) -> dict[str, Any]:
    encoding: dict[str, Any] = chart.spec["layer"][-1]["encoding"]["y"]
    return encoding
