"""Results of ``cilium connectivity perf`` (netperf in Pods): the JSON of ``--report-dir``, and the
tables at the end of its output (cilium/cilium, cilium-cli/connectivity: perf/common/metrics.go,
check/context.go; the JSON of before July 2024 names its tests in labels).

Latencies are in us, rates in operations/s, throughputs in Mbit/s (the comment "bytes/s" in
metrics.go is wrong: netperf's 10^6bits/s times 10^6). The JSON keeps the last of several samples,
the tables all of them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from cnibench.errors import InputError
from cnibench.importers.batch import Batch, Figure, Given, Result
from cnibench.importers.files import texts
from cnibench.importers.values import figure, json_of, mapping, number

_TEST = re.compile(r"(TCP|UDP)_(STREAM|RR|CRR)(_MULTI)?")
_SCENARIO = re.compile(r"(?:pod|host)-to-(?:pod|host)")
_KEY = re.compile(rf"({_TEST.pattern})_({_SCENARIO.pattern})_(p50|p90|p99|throughput)")
_NODES = {"same-node": "intra", "other-node": "inter"}
_PATHS = {"pod-to-pod": "pod", "host-to-host": "host"}
_UNITS = {"us": 1e-6, "ops/s": 1.0, "Mb/s": 1e6}
_METRICS = {
    "Latency": {"p50": "latency_p50", "p90": "latency_p90", "p99": "latency_p99"},
    "TransactionRate": {"throughput": "transaction_rate"},
    "Throughput": {"throughput": "throughput"},
}
_OLD = {"Perc50": "p50", "Perc90": "p90", "Perc99": "p99", "Throughput": "throughput"}
_STEPS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60, "h": 3600}
_STEP = re.compile(r"(\d+(?:\.\d+)?)(ns|us|µs|μs|ms|s|m|h)")

_Place = tuple[str, str, str]  # node, test, scenario


def parse_json(text: str, file: Path, label: str) -> list[Result]:
    """Raises InputError."""
    items = mapping(json_of(text, file)).get("dataItems")
    if not isinstance(items, list) or not items:
        raise InputError(
            f"{file}: it has no dataItems", "take the JSON of cilium connectivity perf --report-dir"
        )
    found: dict[tuple[_Place, int], list[Figure]] = {}
    seen: Counter[tuple[_Place, str]] = Counter()
    for at, item in enumerate(map(mapping, items), 1):
        labels = {key: str(value) for key, value in mapping(item.get("labels")).items()}
        metrics, scale = _METRICS.get(labels.get("metric", "")), _UNITS.get(str(item.get("unit")))
        if metrics is None or scale is None or labels.get("node") not in _NODES:
            raise InputError(
                f"{file}, data item {at}: unknown metric, unit or node",
                "take the JSON of cilium connectivity perf --report-dir",
            )
        for place, name, value in _values(mapping(item.get("data")), labels, f"{file}, item {at}"):
            if name not in metrics:
                raise InputError(
                    f"{file}, data item {at}: {name} is no {labels['metric']}",
                    "check that this is the right file",
                )
            one = figure(metrics[name], value, name, scale)
            found.setdefault((place, seen[place, one.metric]), []).append(one)
            seen[place, one.metric] += 1
    return [_result(place, figures, file, label) for (place, _), figures in found.items()]


def _values(
    data: Mapping[str, Any], labels: Mapping[str, str], where: str
) -> Iterable[tuple[_Place, str, object]]:
    """(place, name of the figure, value) of one data item. Raises InputError."""
    for key, value in data.items():
        if match := _KEY.fullmatch(key):
            yield (labels["node"], match[1], match[5]), match[6], value
            continue
        test = labels.get("test_type", "").partition("-")[2]
        scenario = labels.get("scenario", "")
        if key not in _OLD or not _TEST.fullmatch(test) or not _SCENARIO.fullmatch(scenario):
            raise InputError(
                f"{where}: unknown test: {key[:60]!r}", "check that this is the right file"
            )
        yield (labels["node"], test, scenario), _OLD[key], value


def parse_tables(text: str, file: Path, label: str) -> list[Result]:
    """Raises InputError."""
    found = []
    for at, line in enumerate(text.split("\n"), 1):
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) not in (5, 11) or cells[1] not in _NODES:
            continue
        scenario = (cells[0].split() or [""])[-1]
        if not _SCENARIO.fullmatch(scenario) or not _TEST.fullmatch(cells[2]):
            raise InputError(
                f"{file}, line {at}: unknown test: {cells[2][:60]!r}",
                "check that this is the right file",
            )
        if len(cells) == 5:
            figures = [figure("throughput", cells[4], "the throughput", 1e6)]
        else:
            figures = [
                figure("transaction_rate", cells[10], "the transaction rate"),
                *(
                    figure(metric, seconds(cells[column]), f"{metric} ({cells[column][:20]})")
                    for column, metric in (
                        (5, "latency_mean"),
                        (7, "latency_p50"),
                        (8, "latency_p90"),
                        (9, "latency_p99"),
                    )
                ),
            ]
        place = (cells[1], cells[2], scenario)
        found.append(_result(place, figures, file, label, seconds(cells[3]) or 0.0))
    if not found:
        raise InputError(
            f"{file}: no table of cilium connectivity perf in it",
            "take the output of 'cilium connectivity perf' (0.16 or newer), or its --report-dir",
        )
    return found


def seconds(text: str) -> float | None:
    """A duration as Go prints it (1m0s, 53.87µs); None for anything else, also
    for one that is no possible time.
    """
    steps = _STEP.findall(text)
    if not steps or "".join(f"{size}{unit}" for size, unit in steps) != text:
        return None
    return number(sum(float(size) * _STEPS[unit] for size, unit in steps))


def _result(
    place: _Place, figures: list[Figure], file: Path, label: str, duration: float = 0.0
) -> Result:
    """Without its rate or throughput it failed."""
    node, test, scenario = place
    match = _TEST.fullmatch(test)
    protocol, kind, several = match.groups() if match else ("", "", "")
    figures.sort(key=lambda one: one.metric not in ("transaction_rate", "throughput"))
    main = figures[0]
    if main.metric not in ("transaction_rate", "throughput"):
        reason = "there is no rate of it"
    else:
        reason = main.failure
    host = scenario == "host-to-host"
    return Result(
        label=label,
        placement=_NODES[node],
        workload=f"{protocol}-{kind}".lower(),
        params={"multi": True} if several else {},
        figures=() if reason else tuple(figures),
        file=file,
        reason=reason,
        path=_PATHS.get(scenario, scenario),
        fidelity="baseline" if host else "cni",
        duration=duration,
    )


class CiliumPerf:
    """Reads one file, or those of a folder."""

    name = "cilium-perf"
    title = "cilium connectivity perf: its output, or its --report-dir; a file, or a folder"

    def read(self, path: Path, given: Given) -> Batch:
        batch = Batch(path, given, facts={"source": "cilium connectivity perf"})
        for file, label, text in texts(path, given, (".json", ".txt", ".log", ".out")):
            if text.lstrip()[:1] == "{":
                batch.add(parse_json(text, file, label))
                batch.note("of several samples, the JSON of cilium connectivity perf has the last")
            else:
                batch.add(parse_tables(text, file, label))
        if any("multi" in one.params for one in batch.results):
            batch.note("multi: as many streams as --streams said, which the results do not contain")
        return batch


PROVIDER = CiliumPerf()
