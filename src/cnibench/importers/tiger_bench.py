"""results.json of projectcalico/tiger-bench (v0.6.0; pkg/results, pkg/qperf, pkg/iperf, pkg/ttfr).

Each test is a summary over its iterations: ``avg`` is their mean and is what is imported. Its P50
to P99 are percentiles over iterations and no latency percentiles, except for ttfr, which summarises
single Pods. Go leaves out zeros: a summary that counts data points and has no ``avg`` has the mean
0. A path that was not asked for is an empty summary.

qperf's latency is one-way, and its rate what was received; both in powers of 1000.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cnibench.errors import InputError
from cnibench.importers.batch import Batch, Figure, Given, Result
from cnibench.importers.files import texts
from cnibench.importers.values import figure, json_of, mapping, number, whole

_PATHS = {
    "pod-pod": ("pod", "Direct"),
    "pod-svc-pod": ("clusterip", "Service"),
    "ext-svc-pod": ("external", "External"),
}
_ASKED = {"Direct": True, "Service": True, "External": False}  # where the file has no Perf
_KINDS = ("thruput-latency", "iperf", "ttfr")
_SPREAD = (
    ("avg", "latency_mean"),
    ("P50", "latency_p50"),
    ("P90", "latency_p90"),
    ("P99", "latency_p99"),
)
_STANDING = {
    "NumPolicies": "policies",
    "NumIdlePolicies": "idle_policies",
    "NumServices": "services",
    "NumPods": "pods",
}


def parse(text: str, file: Path) -> list[Mapping[str, Any]]:
    """The tests of the file. Raises InputError."""
    found = json_of(text, file)
    tests = found if isinstance(found, list) else []
    for at, one in enumerate(tests, 1):
        if not mapping(mapping(one).get("config")).get("TestKind"):
            raise InputError(
                f"{file}, test {at}: it has no config with a TestKind",
                "take the results.json of tiger-bench",
            )
    if not tests:
        raise InputError(
            f"{file}: expected a list of tests", "take the results.json of tiger-bench"
        )
    return list(tests)


def system(test: Mapping[str, Any]) -> str:
    """What tiger-bench may have reconfigured between two tests of one file."""
    details = mapping(test.get("ClusterDetails"))
    parts = [str(details.get(name) or "") for name in ("Product", "Dataplane", "Encapsulation")]
    parts.append("wireguard" if details.get("WireguardEnabled") is True else "")
    limit = str(mapping(test.get("config")).get("CalicoNodeCPULimit") or "")
    parts.append(f"cpu{limit}" if limit else "")
    return "-".join(part.lower() for part in parts if part)[:200]


def results(test: Mapping[str, Any], file: Path, label: str) -> list[Result | str]:
    """The measurements of one test; a text for each that was not run."""
    config = mapping(test["config"])
    kind = str(config["TestKind"])
    if kind not in _KINDS:
        return []
    host = config.get("HostNetwork") is True
    details = mapping(test.get("ClusterDetails"))
    common: dict[str, Any] = {
        "label": label,
        "fidelity": "baseline" if host else "cni",
        "file": file,
        "ip": {"ipv4": 4, "ipv6": 6}.get(str(details.get("IPFamily")).lower(), 0),
        "duration": number(config.get("Duration")) or 0.0,
    }
    params = {name: whole(config.get(key)) for key, name in _STANDING.items()}
    if config.get("Iterations") == 0:
        return [kind]
    broken = str(test.get("error") or "the file has no result of it")[:300]
    if kind == "ttfr":
        return list(_starts(test, config, common, params, broken))
    return list(_paths(kind, test, config, common, params, broken))


def _paths(
    kind: str,
    test: Mapping[str, Any],
    config: Mapping[str, Any],
    common: Mapping[str, Any],
    params: Mapping[str, Any],
    broken: str,
) -> Iterator[Result | str]:
    """Between Pods on two nodes, each way to the server."""
    asked = mapping(config.get("Perf")) or _ASKED
    found = mapping(test.get(kind))
    for way, (path, option) in _PATHS.items():
        if asked.get(option) is not True:
            yield f"{kind} {way}"
            continue
        where = {**common, "placement": "inter", "path": _path(path, common)}
        rate = mapping(mapping(found.get("Throughput")).get(way))
        speed = _mean("throughput", rate, {"Mb/sec": 1e6, "": 1e6 if kind == "iperf" else 0.0})
        if kind == "iperf":
            again = mapping(mapping(found.get("Retries")).get(way))
            yield _result(
                where | {"workload": "iperf3-tcp", "params": {**params, "streams": 8}},
                (speed, _mean("retransmits", again, {"none": 1.0, "": 1.0})),
                broken if not rate else "",
            )
            continue
        delay = mapping(mapping(found.get("Latency")).get(way))
        latency = _mean("latency_mean", delay, {"us": 1e-6})
        for workload, one, there, more in (
            ("qperf-tcp-bw", speed, rate, {}),
            ("qperf-tcp-lat", latency, delay, {"latency": "one-way"}),
        ):
            yield _result(
                where | {"workload": workload, "params": {**params, **more}},
                (one,),
                "" if there else broken,
            )


def _starts(
    test: Mapping[str, Any],
    config: Mapping[str, Any],
    common: Mapping[str, Any],
    params: Mapping[str, Any],
    broken: str,
) -> Iterator[Result]:
    """From the start of a Pod to the first answer of a server on its node, of all Pods of an
    iteration.
    """
    asked = mapping(config.get("TTFRConfig"))
    rate = {
        "pods_per_node": whole(asked.get("TestPodsPerNode")),
        "pod_rate": number(asked.get("Rate")) or 0.0,
    }
    where = {**common, "placement": "intra", "path": _path("pod", common), "workload": "ttfr"}
    given = test.get("ttfr")
    for one in given if isinstance(given, list) and given else [None]:
        summary = mapping(mapping(one).get("ttfrSummary"))
        yield _result(
            where | {"params": {**params, **rate}},
            _spread(summary, {"seconds": 1.0}),
            "" if summary else broken,
        )


def _path(path: str, common: Mapping[str, Any]) -> str:
    return "host" if common["fidelity"] == "baseline" and path == "pod" else path


def _mean(metric: str, summary: Mapping[str, Any], units: Mapping[str, float]) -> Figure:
    return _figure(metric, "avg", summary, units)


def _spread(summary: Mapping[str, Any], units: Mapping[str, float]) -> tuple[Figure, ...]:
    return tuple(_figure(metric, name, summary, units) for name, metric in _SPREAD)


def _figure(
    metric: str, name: str, summary: Mapping[str, Any], units: Mapping[str, float]
) -> Figure:
    unit = str(summary.get("unit") or "")
    value = summary.get(name, 0 if whole(summary.get("datapoints")) else None)
    if not (scale := units.get(unit)):
        return Figure(metric, None, {}, f"the unit of {metric} is '{unit[:30]}'")
    return figure(metric, value, f"{name} of {metric}", scale)


def lost(test: Mapping[str, Any]) -> list[str]:
    """Which iterations of a test have no result although others of it have one."""
    config = mapping(test["config"])
    asked, kind = whole(config.get("Iterations")), str(config["TestKind"])
    found = []
    for way, summary in mapping(mapping(test.get(kind)).get("Throughput")).items():
        there = whole(mapping(summary).get("datapoints"))
        if 0 < there < asked:
            found.append(f"{kind[:60]} {way[:60]}: {there} of {asked} iterations have a result")
    return found


def _result(where: Mapping[str, Any], figures: tuple[Figure, ...], broken: str) -> Result:
    """Without its first figure it failed."""
    reason = broken or figures[0].failure
    return Result(**where, figures=() if reason else figures, reason=reason)


class TigerBench:
    """Reads one results.json, or those of a folder."""

    name = "tiger-bench"
    title = "results.json of tiger-bench: a file, or a folder of them (PROFILE/*.json)"

    def read(self, path: Path, given: Given) -> Batch:
        batch = Batch(path, given, facts={"source": "tiger-bench"})
        read = [
            (file, label, parse(text, file)) for file, label, text in texts(path, given, (".json",))
        ]
        systems: dict[str, set[str]] = {}
        for _, label, tests in read:
            systems.setdefault(label, set()).update(map(system, tests))
        for file, label, tests in read:
            for test in tests:
                several = len(systems[label]) > 1
                name = f"{label} {system(test)}".strip() if several else label
                found = results(test, file, name)
                batch.add(one for one in found if isinstance(one, Result))
                batch.not_run += [(name, one) for one in found if isinstance(one, str)]
                for one in lost(test):
                    batch.note(f"{name}: {one}")
                batch.facts_of(
                    mapping(test.get("ClusterDetails")),
                    kernel="NodeKernel",
                    os="NodeOS",
                    kubernetes="K8SVersion",
                )
                if (kind := str(mapping(test["config"])["TestKind"])) not in (*_KINDS, "none"):
                    batch.note(f"left out: tests of the kind {kind[:60]}")
        batch.note("each figure is the mean over the iterations of a test of tiger-bench")
        if any(one.workload == "qperf-tcp-lat" for one in batch.results):
            batch.note("qperf's latency is one-way: half of a round trip")
        return batch


PROVIDER = TigerBench()
