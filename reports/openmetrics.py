"""The results as OpenMetrics text 1.0, for a node exporter's textfile folder or a push gateway."""

from __future__ import annotations

import math
import re

from cnibench.analysis.model import Analysis, Result
from cnibench.model.context import PLACE_NAMES
from cnibench.model.metrics import METRICS
from cnibench.reports._escape import plain

_UNITS = {"bit/s": "bits_per_second", "1/s": "per_second", "s": "seconds", "B": "bytes"}
_LABELS = (
    "profile",
    "label",
    *(name for name in PLACE_NAMES if name != "params"),
    "fidelity",
    "environment",
)


class OpenMetricsReport:
    """One gauge a metric, its ``statistic`` label being median, mean, ci_low or ci_high; and the
    number of blocks.
    """

    name = "openmetrics"
    suffix = ".txt"

    def render(self, analysis: Analysis) -> str:
        families: dict[str, list[Result]] = {}
        for result in analysis.results:
            families.setdefault(result.metric, []).append(result)
        lines = []
        for metric, results in families.items():
            unit = _UNITS.get(results[0].unit, "")
            name = (
                "cnibench_"
                + re.sub(r"[^a-z0-9_]", "_", metric.lower())
                + (f"_{unit}" if unit else "")
            )
            help_ = METRICS[metric].title if metric in METRICS else metric
            lines += [
                f"# TYPE {name} gauge",
                *([f"# UNIT {name} {unit}"] if unit else []),
                f"# HELP {name} {_escape(help_)}",
            ]
            for result in results:
                for statistic in ("median", "mean", "ci_low", "ci_high"):
                    value = getattr(result, statistic)
                    if value is not None and math.isfinite(value):
                        lines.append(f"{name}{{{_labels(result, statistic=statistic)}}} {value!r}")
        if analysis.results:
            lines += [
                "# TYPE cnibench_blocks gauge",
                "# HELP cnibench_blocks blocks that each figure rests on",
            ]
            lines += [
                f"cnibench_blocks{{{_labels(result, metric=result.metric)}}} {result.n}"
                for result in analysis.results
            ]
        return "\n".join([*lines, "# EOF"]) + "\n"


def _labels(result: Result, **more: str) -> str:
    values = {name: str(getattr(result, name)) for name in _LABELS}
    values |= {
        f"param_{re.sub(r'[^A-Za-z0-9_]', '_', key)}": str(value)
        for key, value in result.params.items()
    }
    if result.cycles_source:
        values["cycles_source"] = result.cycles_source
    return ",".join(f'{name}="{_escape(value)}"' for name, value in {**values, **more}.items())


def _escape(text: str) -> str:
    return plain(text).replace("\\", r"\\").replace('"', r"\"")


PROVIDER = OpenMetricsReport()
