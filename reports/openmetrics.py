"""The results as OpenMetrics text 1.0 (IETF draft-richih-opsawg-openmetrics-00) with the time at
which the run ended, so that promtool can fill the history of a Prometheus with them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache

from cnibench.analysis.model import Analysis, Cpp, Pair, Result
from cnibench.model.context import OF_RECORD, PLACE_NAMES
from cnibench.model.measured import values
from cnibench.model.metrics import METRICS
from cnibench.reports._escape import plain

_UNITS = {"bit/s": "bits_per_second", "1/s": "per_second", "s": "seconds", "B": "bytes"}
_VERDICTS = ("better", "worse", "no-difference-found", "inconclusive")
_OPPOSITE = {"better": "worse", "worse": "better"}
_FACTS = ("kernel", "cpu_model")  # of the machines that were measured
_STATISTICS = ("median", "mean", "ci_low", "ci_high")

Labels = dict[str, str]


@dataclass
class _Family:
    """All samples of one metric family, as (suffix of the name, labels, value)."""

    name: str
    kind: str
    help: str
    unit: str = ""
    samples: list[tuple[str, Labels, float]] = field(default_factory=list)

    def add(self, labels: Mapping[str, str], value: float | None, suffix: str = "") -> None:
        """Leaves out what is no number."""
        if value is not None and math.isfinite(value):
            self.samples.append((suffix, dict(labels), value))

    def lines(self, everywhere: Labels, time: str) -> Iterator[str]:
        """None if there are no samples."""
        if not self.samples:
            return
        yield f"# TYPE {self.name} {self.kind}"
        if self.unit:
            yield f"# UNIT {self.name} {self.unit}"
        yield f"# HELP {self.name} {_escape(self.help)}"
        for suffix, labels, value in self.samples:
            every = {**everywhere, **labels}
            shown = ",".join([_label(name, value) for name, value in every.items()])
            yield f"{self.name}{suffix}{{{shown}}} {value!r}{time}"


class OpenMetricsReport:
    """Gauges of every figure and ratio with their intervals (label ``statistic``), of failures and
    of cycles per packet by component; a stateset of verdicts; facts of the runs. Each sample has
    the label ``run``.
    """

    name = "openmetrics"
    suffix = ".txt"

    def render(self, analysis: Analysis) -> str:
        last = max(analysis.runs, key=lambda run: run.finished or run.started)
        time = _time(last.finished or last.started)
        everywhere = {"run": " ".join(run.id for run in analysis.runs)}
        lines = [
            line
            for family in _families(analysis)
            for line in family.lines({} if family.kind == "info" else everywhere, time)
        ]
        return "\n".join([*lines, "# EOF"]) + "\n"


def _time(when: str) -> str:
    """Nothing for a run directory that says no time: the reader's own is taken then."""
    try:
        return f" {datetime.fromisoformat(when).timestamp()!r}"
    except ValueError:
        return ""


def _families(analysis: Analysis) -> Iterator[_Family]:
    yield _runs(analysis)
    yield from _figures(analysis.results)
    yield from _counts(analysis.results)
    yield from _pairs(analysis)
    yield _cycles(analysis.cpp)


def _runs(analysis: Analysis) -> _Family:
    family = _Family("cnibench_run", "info", "the runs that the figures come from")
    for run, environment in zip(analysis.runs, analysis.environments, strict=True):
        own = {"run": run.id, "name": run.name, "version": run.tool_version}
        own["testbed"] = str(environment.get("testbed", ""))
        facts = {name: ", ".join(values(environment, name)) for name in _FACTS}
        family.add({**own, **facts, "baseline": analysis.baseline}, 1, "_info")
    return family


def _figures(results: Iterable[Result]) -> Iterable[_Family]:
    families: dict[str, _Family] = {}
    for result in results:
        unit = _UNITS.get(result.unit, "")
        name = f"cnibench_{_name(result.metric).lower()}" + (f"_{unit}" if unit else "")
        help_ = METRICS[result.metric].title if result.metric in METRICS else result.metric
        family = families.setdefault(result.metric, _Family(name, "gauge", help_, unit))
        for statistic in _STATISTICS:
            labels = _of_result(result) | {"statistic": statistic}
            family.add(labels, getattr(result, statistic))
    return families.values()


def _counts(results: Iterable[Result]) -> tuple[_Family, _Family]:
    blocks = _Family("cnibench_blocks", "gauge", "blocks that each figure rests on")
    failed = _Family("cnibench_failed_blocks", "gauge", "blocks that gave no figure")
    for result in results:
        labels = _of_result(result) | {"metric": result.metric}
        blocks.add(labels, result.n)
        failed.add(labels, result.failed)
    return blocks, failed


def _pairs(analysis: Analysis) -> tuple[_Family, _Family]:
    ratios = _Family("cnibench_ratio", "gauge", "label over against: ratio with its interval")
    verdicts = _Family("cnibench_verdict", "stateset", "what is proven of label and against")
    for pair in analysis.pairs:
        turned = pair.a == analysis.baseline
        labels = _place(pair) | {"metric": pair.metric}
        labels |= {"label": pair.b, "against": pair.a} if turned else {}
        labels |= {} if turned else {"label": pair.a, "against": pair.b}
        for statistic, value in _ratio(pair, turned).items():
            ratios.add(labels | {"statistic": statistic}, value)
        verdict = {"a-better": "better", "b-better": "worse"}.get(pair.verdict, pair.verdict)
        verdict = _OPPOSITE.get(verdict, verdict) if turned else verdict
        for state in _VERDICTS:
            verdicts.add(labels | {verdicts.name: state}, int(state == verdict))
    return ratios, verdicts


def _ratio(pair: Pair, turned: bool) -> dict[str, float | None]:
    if not turned:
        return {"ratio": pair.ratio, "ci_low": pair.ci_low, "ci_high": pair.ci_high}
    return {
        "ratio": _inverse(pair.ratio),
        "ci_low": _inverse(pair.ci_high),
        "ci_high": _inverse(pair.ci_low),
    }


def _inverse(ratio: float | None) -> float | None:
    return 1 / ratio if ratio else None


def _cycles(rows: Iterable[Cpp]) -> _Family:
    family = _Family("cnibench_packet_cycles", "gauge", "CPU cycles per packet by component")
    for row in rows:
        labels = {"profile": row.profile, "label": row.label, "cycles_source": row.cycles_source}
        labels |= {name: str(getattr(row, name)) for name in OF_RECORD if name != "params"}
        labels |= _params(row.params) | {"environment": str(row.environment)}
        for component, cycles in {**row.components, "unclassified": row.unclassified}.items():
            family.add(labels | {"component": component}, cycles)
    return family


def _of_result(result: Result) -> Labels:
    own = {name: getattr(result, name) for name in ("profile", "label", "fidelity")}
    own |= {"cycles_source": result.cycles_source} if result.cycles_source else {}
    return own | _place(result)


def _place(where: Result | Pair) -> Labels:
    names = (*(name for name in PLACE_NAMES if name != "params"), "environment")
    return {name: str(getattr(where, name)) for name in names} | _params(where.params)


def _params(params: Mapping[str, object]) -> Labels:
    return {f"param_{_name(key)}": str(value) for key, value in params.items()}


def _name(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_]", "_", text)


@lru_cache(maxsize=4096)
def _label(name: str, value: str) -> str:
    """Most samples of a report share most of their labels."""
    return f'{name}="{_escape(value)}"'


def _escape(text: str) -> str:
    return plain(text).replace("\\", r"\\").replace('"', r"\"")


PROVIDER = OpenMetricsReport()
