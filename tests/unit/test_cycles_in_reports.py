"""Cycles per packet are one figure wherever a report shows them: the mean over the blocks."""

from __future__ import annotations

from pathlib import Path

from cnibench.analysis import analyse
from cnibench.reports._numbers import Scale
from cnibench.reports.document.build import document
from cnibench.rundir.reader import RunReader
from tests.unit._runs import synthetic


def test_the_table_of_other_metrics_has_the_mean_of_cycles(tmp_path: Path) -> None:
    """It had their median, beside a table of components that add up to the mean."""
    analysis = analyse([RunReader(synthetic(tmp_path, {"flannel": 1.0, "cilium": 2.0}).path)])
    means = [one for one in analysis.results if one.metric == "cycles_per_packet"]
    assert all(one.mean != one.median for one in means)
    tables = [
        table
        for section in document(analysis, whole=True).sections
        for table in section.tables
        if table.heads[0] == "medians"
    ]
    assert len(tables) == 4
    for table in tables:
        (at,) = (n for n, head in enumerate(table.heads) if head.startswith("cycles per packet"))
        assert "mean" in table.heads[at]
        shown = {row[0]: row[at] for row in table.rows}
        places = [
            {one.label: one for one in means if (one.workload, one.placement) == place}
            for place in {(one.workload, one.placement) for one in means}
        ]
        expected = []
        for found in places:
            scale = Scale.of([one.mean for one in found.values()], "1")
            expected.append({label: scale(one.mean) for label, one in found.items()})
        assert shown in expected
