"""What the tests of importers share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cnibench.importers.batch import Batch, Given, Result
from cnibench.registry import providers

GOLDEN = Path(__file__).parent.parent / "golden"
INTER = Given(placement="inter")
UNSAID = Given()
# Two measurements of k8s-netperf.
DOCUMENT: dict[str, Any] = {
    "uuid": "k8s-netperf",
    "timestamp": "2026-01-02T03:04:05.678901234Z",
    "hostNetwork": False,
    "driver": "netperf",
    "parallelism": 2,
    "profile": "TCP_STREAM",
    "duration": 10,
    "service": False,
    "local": False,
    "samples": 3,
    "messageSize": 1024,
    "burst": 0,
    "throughput": 2700.5,
    "latency": 2.5,
    "tputMetric": "Mb/s",
    "ltcyMetric": "usec",
    "tcpRetransmits": 54.5,
    "udpLossPercent": 0.0,
    "metadata": {"kernel": "5.14.0", "mtu": 1400, "k8sVersion": "v1.30"},
    "clientNodeInfo": {"nodeName": "n1"},
    "serverNodeInfo": {"nodeName": "n2"},
}
CSV = (
    "Driver,Profile,Same node,Host Network,Service,External Server,Duration,Parallelism,# of"
    " Samples,Message Size,Avg Throughput,"
    "Throughput Metric,99%tile Observed Latency,Latency Metric\n"
    "netperf,TCP_STREAM,false,false,false,false,10,1,3,1024,861.5,Mb/s,3.5,usec\n"
    "netperf,TCP_RR,true,false,true,false,10,1,3,1024,9333.5,OP/s,451.5,usec\n"
)


def read(form: str, path: Path, said: Given = INTER) -> Batch:
    found: Batch = providers("importers")[form].read(path, said)
    return found


def figures(result: Result) -> dict[str, float | None]:
    return {
        "/".join((one.metric, *map(str, one.params.values()))): one.value for one in result.figures
    }
