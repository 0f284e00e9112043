"""Results of other tools in their formats, with invented figures: none of these tools can measure
without a cluster, and none of these texts was captured. Each says where its format comes from.
"""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from typing import Any

# The data of knb 1.5.0 (InfraBuilder/k8s-bench-suite, script knb); the empty bandwidth is what it
# stores where iperf3 printed no receiver line. From this data knb itself made knb.json and knb.yaml
# of golden/import (-fd DATA -o json|yaml), and knb_idle.json from one whose other Pods have no
# names.
_AVG = "cpu-user cpu-nice cpu-system cpu-iowait cpu-steal memory-used records-number\n"
KNB_FILES = {
    "env": (
        'BENCHMARK_RUN_NAME="knb-4242"\nGENERATOR="knb"\nVERSION="1.5.0"\n'
        'BENCHMARK_DATE="2021-04-27 20:21:36"\nSERVER_NODE="node-b"\nCLIENT_NODE="node-a"\n\n'
        'SOCKET_BUFFER_SIZE="256K"\n\nIDLE_POD_NAME="knb-client-idle-4242"\n'
        'CLIENT_TCP_P2P_POD_NAME="knb-client-tcp-p2p-4242"\n'
        'CLIENT_UDP_P2P_POD_NAME="knb-client-udp-p2p-4242"\n'
        'CLIENT_TCP_P2S_POD_NAME=""\nCLIENT_UDP_P2S_POD_NAME=""\n'
    ),
    "cpu": "A processor\n",
    "kernel": "5.4.0-66-generic\n",
    "k8s-version": "v1.19.8\n",
    "mtu": "1450\n",
    "knb-client-idle-4242.bw": "0\n",
    "knb-client-idle-4242-client.avg": f"{_AVG}0.25 0.00 0.35 0.00 0.00 512 10\n",
    "knb-client-idle-4242-server.avg": f"{_AVG}0.25 0.00 0.35 0.00 0.00 600 10\n",
    "knb-client-tcp-p2p-4242.bw": "9812\n",
    "knb-client-tcp-p2p-4242-client.avg": f"{_AVG}1.00 0.00 3.00 0.00 0.00 514 10\n",
    "knb-client-tcp-p2p-4242-server.avg": f"{_AVG}1.00 0.00 3.00 0.00 0.00 602 10\n",
    "knb-client-udp-p2p-4242.bw": "",
    "knb-client-udp-p2p-4242-client.avg": f"{_AVG}1.00 0.00 3.00 0.00 0.00 515 10\n",
    "knb-client-udp-p2p-4242-server.avg": f"{_AVG}1.00 0.00 3.00 0.00 0.00 603 10\n",
}


def knb_data(files: dict[str, str] = KNB_FILES, *, compressed: bool = True) -> bytes:
    """What ``tar -czf - .`` makes of knb's folder."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(f"./{name}")
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
    return gzip.compress(made.getvalue(), mtime=0) if compressed else made.getvalue()


# kubernetes/perf-tests, network/benchmarks/netperf: flushDataPointsToCsv and parseQperfTCPLatency
# of nptest/nptest.go; the README shows the first form.
PERF_TESTS = """\
MSS                                          , Maximum, 96, 160, 224,
1 iperf TCP. Same VM using Pod IP            ,35507.000000,33835,33430,35507,
4 iperf TCP. Remote VM using Virtual IP      ,11046.000000,10429,0,11046,
5 iperf TCP. Hairpin Pod to own Virtual IP   ,32400.000000,31473,30253,32400,
9 iperf SCTP. Remote VM using Pod IP         ,900.000000,700,800,900,
13 iperf UDP. Remote VM using Pod IP         ,11143.000000,11143,
17 netperf. Remote VM using Pod IP           ,6646.820000,6646.82,
18 netperf. Remote VM using Virtual IP       ,0.000000,0.00,
3 qperf TCP. Remote VM using Pod IP          ,0.000000,\
(bw = 2.5 MB/sec; latency = 30.5 us),(bw = 5 MB/sec; latency = 31 us),
"""
QPERF = """\
MSS                                          , Maximum, 1, 2,
3 qperf TCP. Remote VM using Pod IP          ,0.000000,\
(bw = 2.5 MB/sec; latency = 30.5 us),(bw = 1.25 GB/sec; latency = 1.5 ms),
"""


def _summary(mean: float, **more: Any) -> dict[str, Any]:
    same = dict.fromkeys(("min", "max", "avg", "P50", "P75", "P90", "P99"), mean)
    return {**same, "datapoints": 1, **more}


# projectcalico/tiger-bench v0.6.0: results.json.reference and pkg/results, pkg/stats; the unit that
# is missing from iperf's pod-pod is missing there, too (pkg/iperf, SummarizeResults).
TIGER_CONFIG: dict[str, Any] = {
    "TestKind": "thruput-latency",
    "NumPolicies": 5,
    "NumIdlePolicies": 3,
    "NumServices": 10,
    "NumPods": 7,
    "HostNetwork": False,
    "Iterations": 1,
    "Duration": 10,
    "Perf": {"Direct": True, "Service": True, "External": False},
    "TTFRConfig": None,
    "CalicoNodeCPULimit": "",
}
TIGER_CLUSTER: dict[str, Any] = {
    "NodeOS": "Debian GNU/Linux 12 (bookworm)",
    "NodeKernel": "6.8.0-71-generic",
    "Dataplane": "iptables",
    "IPFamily": "ipv4",
    "Encapsulation": "VXLANCrossSubnet",
    "WireguardEnabled": False,
    "Product": "calico",
    "K8SVersion": "v1.32.0",
}
TIGER_BENCH: list[dict[str, Any]] = [
    {
        "config": TIGER_CONFIG,
        "ClusterDetails": TIGER_CLUSTER,
        "status": "success",
        "thruput-latency": {
            "Latency": {
                "pod-pod": _summary(15.5, unit="us"),
                "pod-svc-pod": _summary(16.5, unit="us"),
                "ext-svc-pod": {},
            },
            "Throughput": {
                "pod-pod": _summary(21600, unit="Mb/sec"),
                "pod-svc-pod": _summary(20200, unit="Mb/sec"),
                "ext-svc-pod": {},
            },
        },
    },
    {
        "config": {**TIGER_CONFIG, "TestKind": "iperf"},
        "ClusterDetails": TIGER_CLUSTER,
        "status": "success",
        "iperf": {
            "Retries": {
                "pod-pod": _summary(12, unit="none"),
                "pod-svc-pod": {"unit": "none", "datapoints": 1},
                "ext-svc-pod": {},
            },
            "Throughput": {
                "pod-pod": _summary(91701.5),
                "pod-svc-pod": _summary(89655.5, unit="Mb/sec"),
                "ext-svc-pod": {},
            },
        },
    },
    {
        "config": {
            **TIGER_CONFIG,
            "TestKind": "ttfr",
            "Perf": None,
            "TTFRConfig": {"TestPodsPerNode": 53, "Rate": 2.5},
        },
        "ClusterDetails": TIGER_CLUSTER,
        "status": "success",
        "ttfr": [
            {
                "ttfrSummary": {
                    "min": 0.0005,
                    "max": 0.004,
                    "avg": 0.00075,
                    "P50": 0.0007,
                    "P75": 0.0008,
                    "P90": 0.0009,
                    "P99": 0.0012,
                    "unit": "seconds",
                    "datapoints": 150,
                }
            }
        ],
    },
]

# cilium/cilium, cilium-cli/connectivity: perf/common/metrics.go and check/context.go; the labels of
# OLD are those of before July 2024 (cilium-cli commit 849b09c2f).
CILIUM_JSON: dict[str, Any] = {
    "version": "v1",
    "dataItems": [
        {
            "data": {
                "TCP_RR_pod-to-pod_p50": 15,
                "TCP_RR_pod-to-pod_p90": 19,
                "TCP_RR_pod-to-pod_p99": 440,
            },
            "unit": "us",
            "labels": {"metric": "Latency", "node": "other-node", "test_type": "netperf"},
        },
        {
            "data": {"TCP_RR_pod-to-pod_throughput": 18542.5},
            "unit": "ops/s",
            "labels": {"metric": "TransactionRate", "node": "other-node", "test_type": "netperf"},
        },
        {
            "data": {
                "TCP_STREAM_pod-to-pod_throughput": 9876.5,
                "TCP_STREAM_MULTI_host-to-host_throughput": 20000,
                "UDP_STREAM_pod-to-host_throughput": 0,
            },
            "unit": "Mb/s",
            "labels": {"metric": "Throughput", "node": "same-node", "test_type": "netperf"},
        },
    ],
}
CILIUM_OLD: dict[str, Any] = {
    "version": "v1",
    "dataItems": [
        {
            "data": data,
            "unit": unit,
            "labels": {
                "metric": metric,
                "node": "other-node",
                "scenario": "pod-to-pod",
                "test_type": "netperf-TCP_RR",
            },
        }
        for rate in (18542.5, 18600.5)
        for metric, unit, data in (
            ("Latency", "us", {"Perc50": 15, "Perc90": 19, "Perc99": 440}),
            ("TransactionRate", "ops/s", {"Throughput": rate}),
        )
    ],
}
_RULE = "-" * 88
CILIUM_TABLES = f"""\
🔥 Network Performance Test Summary [cilium-test-1]:
{_RULE}
📋 Scenario        | Node       | Test            | Duration        | Min             \
| Mean            | Max             | P50             | P90             | P99             | Transaction rate OP/s
{_RULE}
📋 pod-to-pod      | other-node | TCP_RR          | 10s             | 12µs            \
| 53.87µs         | 1.234ms         | 15µs            | 19µs            | 440µs           | 18542.51    \n\
📋 pod-to-pod      | other-node | TCP_RR          | 10s             | 12µs            \
| 53.9µs          | 1.3ms           | 15µs            | 19µs            | 441µs           | 18600.50    \n\
{_RULE}
{_RULE}
📋 Scenario        | Node       | Test               | Duration        | Throughput Mb/s \n\
{_RULE}
📋 pod-to-pod      | same-node  | TCP_STREAM         | 10s             | 9876.50      \n\
📋 host-to-host    | other-node | TCP_STREAM_MULTI   | 1m30s           | 20000.00     \n\
{_RULE}
"""  # noqa: E501


def flow(
    case: str, test: str, result: dict[str, Any], nodes: tuple[str, str] = ("a", "b"), **more: Any
) -> dict[str, Any]:
    """One test of ovn-kubernetes/kubernetes-traffic-flow-tests (tftbase.py: TftResult,
    FlowTestOutput, TestMetadata).
    """
    about = {
        "tft_idx": 0,
        "test_cases_idx": 0,
        "connections_idx": 0,
        "test_case_id": case,
        "test_type": test,
        "reverse": False,
        "client": {"name": nodes[0], "pod_type": "NORMAL", "is_tenant": True, "index": 0},
        "server": {"name": nodes[1], "pod_type": "NORMAL", "is_tenant": True, "index": 0},
    } | {key: more.pop(key) for key in list(more) if key in ("reverse", "client", "server")}
    outcome = {"success": True, "msg": None, "command": "", "bitrate_gbps": {}} | more
    return {"flow_test": {"tft_metadata": about, "result": result, **outcome}, "plugins": []}


# The keys are those of testTypeNetPerf.py, netperf_parse, and testTypeRdma.py.
TCP_RR = {
    "Socket Send Bytes": 16384.0,
    "Size Receive Bytes": 131072.0,
    "Request Size Bytes": 1.0,
    "Response Size Bytes": 1.0,
    "Elapsed Time Seconds": 10.0,
    "Transaction Rate Per Second": 18542.5,
}
TCP_STREAM = {
    "Receive Socket Size Bytes": 131072.0,
    "Send Socket Size Bytes": 16384.0,
    "Send Message Size Bytes": 16384.0,
    "Elapsed Time Seconds": 10.0,
    "Throughput 10^6bits/sec": 9876.5,
}


def flows(report: dict[str, Any]) -> str:
    """A file of tests, two of them with a report of iperf3."""
    blocked = {"success": True, "msg": "Traffic was blocked as expected (deny policy active)"}
    tests = [
        flow("POD_TO_POD_SAME_NODE", "IPERF_TCP", report, ("a", "a"), reverse=True),
        flow("POD_TO_CLUSTER_IP_TO_POD_DIFF_NODE", "IPERF_TCP", report),
        flow("POD_TO_POD_DIFF_NODE", "NETPERF_TCP_RR", TCP_RR, bitrate_gbps={"tx": 18.5425}),
        flow("HOST_TO_HOST_DIFF_NODE", "NETPERF_TCP_STREAM", TCP_STREAM),
        flow("POD_TO_POD_DIFF_NODE", "IPERF_TCP", {}, success=False, msg="it timed out"),
        flow("POD_TO_POD_NP_DENY", "IPERF_TCP", {}, **blocked),
        flow("POD_TO_EXTERNAL", "HTTP", {"result": {}}),
    ]
    return json.dumps({"tft-tests": tests})
