"""Results of ovn-kubernetes/kubernetes-traffic-flow-tests: the JSON of its tests (tftbase.py,
testTypeIperf.py, testTypeNetPerf.py, testTypeRdma.py).

Each flow has the output of its tool, which is read; ``bitrate_gbps`` is not, for of netperf's
TCP_RR it is transactions/s divided by 1000. ``success`` is that of the measurement; a flow that its
evaluation found too slow (``eval_result``) was measured all the same. Flows that a policy has to
block measure nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cnibench.errors import InputError
from cnibench.importers import iperf3
from cnibench.importers.batch import Batch, Given, Result, placement_of
from cnibench.importers.files import texts
from cnibench.importers.values import figure, json_of, mapping, whole

_PLACEMENTS = {"_SAME_NODE": "intra", "_DIFF_NODE": "inter"}
_PATHS = {
    "POD_TO_POD": "pod",
    "POD_TO_HOST": "pod-to-host",
    "POD_TO_CLUSTER_IP_TO_POD": "clusterip",
    "POD_TO_NODE_PORT_TO_POD": "nodeport",
    "HOST_TO_HOST": "host",
}
_IPERF = {"IPERF_TCP": "iperf3-tcp", "IPERF_UDP": "iperf3-udp"}
_OTHERS = {  # test: (workload, metric, key of the result, bit/s or 1/s of 1)
    "NETPERF_TCP_STREAM": ("tcp-stream", "throughput", "Throughput 10^6bits/sec", 1e6),
    "NETPERF_TCP_RR": ("tcp-rr", "transaction_rate", "Transaction Rate Per Second", 1.0),
    "IB_WRITE_BW": ("ib-write-bw", "throughput", "bandwidth_gbps", 1e9),
    "IB_READ_BW": ("ib-read-bw", "throughput", "bandwidth_gbps", 1e9),
    "IB_SEND_BW": ("ib-send-bw", "throughput", "bandwidth_gbps", 1e9),
}
_SIZES = {
    "Request Size Bytes": "request",
    "Response Size Bytes": "response",
    "Send Message Size Bytes": "message",
}
# Files of before expects_blocked do not say it; the other way of MNP_DENY_2ND stays open.
_BLOCKED = re.compile(r"(?:_NP|_ANP|2ND_INTERFACE_MNP)_DENY(?:_2ND)?$")
_UNTOLD = ("message", "streams", "bidirectional", "window", "rate", "request", "response")
_USUAL = ("NORMAL", "HOSTBACKED", "None", "")


def parse(text: str, file: Path) -> list[Mapping[str, Any]]:
    """The flows of the file. Raises InputError."""
    tests = mapping(json_of(text, file)).get("tft-tests")
    if not isinstance(tests, list) or not tests:
        raise InputError(
            f"{file}: it has no list tft-tests", "take the results of kubernetes-traffic-flow-tests"
        )
    flows = [mapping(mapping(one).get("flow_test")) for one in tests]
    for at, flow in enumerate(flows, 1):
        about = mapping(flow.get("tft_metadata"))
        if not isinstance(about.get("test_case_id"), str) or not about.get("test_type"):
            raise InputError(
                f"{file}, test {at}: it has no flow_test with test_case_id and test_type",
                "take the results of kubernetes-traffic-flow-tests",
            )
    return flows


def left_out(flow: Mapping[str, Any]) -> str:
    """Why a flow is no measurement; '' for those that are one."""
    about = mapping(flow["tft_metadata"])
    case, test = str(about["test_case_id"]), str(about["test_type"])
    if about.get("expects_blocked") is True or _BLOCKED.search(case):
        return "flows that a policy has to block"
    if test not in _IPERF and test not in _OTHERS:
        return f"flows of {test[:60]}, which have no figures"
    return ""


def result(flow: Mapping[str, Any], file: Path, label: str, given: Given) -> tuple[Result, str]:
    """(the measurement, the kernel that the client ran on or ''). Raises UsageError when nothing
    tells the placement.
    """
    about = mapping(flow["tft_metadata"])
    case, test = str(about["test_case_id"]), str(about["test_type"])
    found = mapping(flow.get("result"))
    way = case.removesuffix("_SAME_NODE").removesuffix("_DIFF_NODE")
    nodes = [mapping(about.get(end)).get("name") for end in ("client", "server")]
    placement = _PLACEMENTS.get(case.removeprefix(way)) or placement_of(
        given, "traffic-flow-tests", *nodes
    )
    broken = ""
    if flow.get("success") is False:
        broken = str(flow.get("msg") or "it failed, and the file does not say why")
    kernel, duration = "", 0.0
    if test in _IPERF and mapping(mapping(found.get("start")).get("test_start")):
        one, kernel = iperf3.result(found, file, label, placement)
        workload, params, figures = one.workload, dict(one.params), one.figures
        broken = broken or one.reason
        times, ip, duration = (one.start, one.end), one.ip, one.duration
    elif test in _IPERF:  # it never began
        workload, params, figures, times, ip = _IPERF[test], {}, (), (None, None), 0
        broken = broken or str(found.get("error") or "the file has no report of iperf3")
    else:
        workload, metric, key, scale = _OTHERS[test]
        main = figure(metric, found.get(key), key, scale)
        broken = broken or main.failure
        params = {name: whole(found[key]) for key, name in _SIZES.items() if key in found}
        figures, times, ip = (main,), (None, None), 0
    host = way == "HOST_TO_HOST"
    return Result(
        label=label,
        placement=placement,
        workload=workload,
        params=params | _ends(about),
        figures=() if broken else figures,
        file=file,
        reason=broken[:300],
        path=_PATHS.get(way, way.lower().replace("_", "-")),
        fidelity="baseline" if host else "cni",
        ip=ip,
        start=times[0],
        end=times[1],
        duration=duration,
        untold=_UNTOLD if broken and not params else (),
    ), kernel


def _ends(about: Mapping[str, Any]) -> dict[str, Any]:
    """What of the two ends and of the way between them is part of what was measured."""
    found: dict[str, Any] = {}
    for end in ("client", "server"):
        kind = str(mapping(about.get(end)).get("pod_type"))
        if kind not in _USUAL:
            found[f"{end}_pod"] = kind.lower()[:60]
    if about.get("reverse") is True:
        found["reverse"] = True
    target = str(about.get("target_access_mode") or "IP")
    return found if target == "IP" else found | {"target": target.lower()[:60]}


class TrafficFlowTests:
    """Reads one file of results, or those of a folder."""

    name = "traffic-flow-tests"
    title = "kubernetes-traffic-flow-tests' JSON: a file, or a folder of them (PROFILE/*.json)"

    def read(self, path: Path, given: Given) -> Batch:
        batch = Batch(path, given, facts={"source": "kubernetes-traffic-flow-tests"})
        for file, label, text in texts(path, given, (".json",)):
            for flow in parse(text, file):
                if why := left_out(flow):
                    batch.note(f"left out: {why}")
                    continue
                one, kernel = result(flow, file, label, given)
                batch.add([one])
                batch.fact("kernel", kernel)
        return batch


PROVIDER = TrafficFlowTests()
