"""Results of k8s-netperf as runs: its documents and tables, networks and durations."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cnibench.analysis import analyse
from cnibench.errors import InputError, UsageError
from cnibench.importers.batch import Given
from cnibench.importers.writer import write
from cnibench.rundir.reader import RunReader
from tests.unit._imports import CSV, DOCUMENT, figures, read


def test_k8s_netperf_documents(tmp_path: Path) -> None:
    rr = {
        **DOCUMENT,
        "profile": "TCP_RR",
        "throughput": 17101.5,
        "tputMetric": "OP/s",
        "latency": 120.0,
        "service": True,
        "burst": 2,
    }
    lost = {
        **DOCUMENT,
        "driver": "iperf3",
        "profile": "UDP_STREAM",
        "throughput": 1200.0,
        "udpLossPercent": 1.5,
    }
    host = {**DOCUMENT, "hostNetwork": True}
    gone = {**DOCUMENT, "throughput": 0.0}
    unnamed = {**DOCUMENT, "clientNodeInfo": {}}
    file = tmp_path / "ovn.json"
    file.write_text(json.dumps([DOCUMENT, rr, lost, host, gone]))
    batch = read("k8s-netperf", file, Given())
    stream, pingpong, udp, bare, failed = batch.results
    assert (stream.label, stream.workload, stream.placement, stream.path, stream.mtu) == (
        "ovn",
        "tcp-stream",
        "inter",
        "pod",
        1400,
    )
    assert stream.params == {"message": 1024, "streams": 2}
    assert figures(stream) == {"throughput": 2700.5e6, "retransmits": 54.5}
    assert stream.start == pytest.approx(1767323045.678901)
    assert (pingpong.path, pingpong.params) == (
        "clusterip",
        {"request": 1024, "response": 1024, "streams": 2, "burst": 2},
    )
    assert figures(pingpong) == {"transaction_rate": 17101.5, "latency_p99": pytest.approx(120e-6)}
    assert (udp.workload, figures(udp)) == ("iperf3-udp", {"throughput": 1.2e9, "loss": 0.015})
    assert (bare.label, bare.path, bare.fidelity) == ("host", "host", "baseline")
    assert not failed.figures
    assert "0" in failed.reason
    assert batch.facts["kernel"] == "5.14.0"
    file.write_text(json.dumps([unnamed]))
    with pytest.raises(UsageError):
        read("k8s-netperf", file, Given())
    assert read("k8s-netperf", file, Given(placement="intra")).results[0].placement == "intra"


@pytest.mark.parametrize(
    ("key", "value", "param"),
    [
        ("udnInfo", "layer3", "udn"),
        ("virt", True, "virt"),
        ("externalServer", True, "external_server"),
        ("acrossAZ", True, "across_az"),
        ("sriovInfo", {"pf": "ens1"}, "sriov"),
        ("bridgeInfo", "br-ex", "bridge"),
        ("macvlanInfo", "macvlan/storage", "macvlan"),
        ("localnetInfo", "localnet/physnet", "localnet"),
    ],
)
def test_k8s_netperf_networks_are_never_blocks_of_one_cell(
    tmp_path: Path, key: str, value: object, param: str
) -> None:
    node = {"clientNodeInfo": {"nodeName": "a"}, "serverNodeInfo": {"nodeName": "b"}}
    file = tmp_path / "documents.json"
    file.write_text(
        json.dumps([DOCUMENT | node, DOCUMENT | node | {key: value}, DOCUMENT | node | {key: None}])
    )
    run = RunReader(write(read("k8s-netperf", file, Given()), tmp_path / "runs", "k8s-netperf", []))
    assert sorted(
        sum(cell.params == other.params for other in run.plan.cells) for cell in run.plan.cells
    ) == [1, 1]
    assert [param in cell.params for cell in run.plan.cells] == [False, True]
    assert sorted(
        result.n for result in analyse([run]).results if result.metric == "throughput"
    ) == [1, 2]


def test_k8s_netperf_durations_are_never_pooled(tmp_path: Path) -> None:
    node = {"clientNodeInfo": {"nodeName": "a"}, "serverNodeInfo": {"nodeName": "b"}}
    file = tmp_path / "documents.json"
    file.write_text(json.dumps([DOCUMENT | node | {"duration": seconds} for seconds in (10, 60)]))
    with pytest.raises(InputError, match="for 10 s and for 60 s"):
        write(read("k8s-netperf", file, Given()), tmp_path / "runs", "k8s-netperf", [])


def test_k8s_netperf_csv(tmp_path: Path) -> None:
    folder = tmp_path / "weave"
    folder.mkdir()
    (folder / "result-1.csv").write_text(CSV)
    (folder / "cpu-result-1.csv").write_text("Role,Driver\nClient,netperf\n")
    stream, pingpong = read("k8s-netperf", tmp_path, Given()).results
    assert (stream.label, stream.placement, figures(stream)) == (
        "weave",
        "inter",
        {"throughput": 861.5e6},
    )
    assert (pingpong.placement, pingpong.path) == ("intra", "clusterip")
    assert figures(pingpong) == {"transaction_rate": 9333.5, "latency_p99": pytest.approx(451.5e-6)}


@pytest.mark.parametrize(
    ("column", "cell", "expected"),
    [
        ("VM mode", "true", {"virt": True}),
        ("External Server", "true", {"external_server": True}),
        ("UDN Info", "layer2", {"udn": "layer2"}),
        ("Bridge Info", "default/br-ex", {"bridge": "default/br-ex"}),
        ("SR-IOV Info", "sriov/one", {"sriov": "sriov/one"}),
        ("Macvlan Info", "macvlan/one", {"macvlan": "macvlan/one"}),
        ("Localnet Info", "localnet/one", {"localnet": "localnet/one"}),
    ],
)
def test_k8s_netperf_networks_of_a_table(
    tmp_path: Path, column: str, cell: str, expected: dict[str, object]
) -> None:
    """The headings are those of pkg/archive/archive.go, commonCsvHeaderFields (August 2026)."""
    heads, row = CSV.splitlines()[:2]
    if column not in heads.split(","):
        heads, row = f"{heads},{column}", f"{row},{cell}"
    else:
        cells = row.split(",")
        cells[heads.split(",").index(column)] = cell
        row = ",".join(cells)
    file = tmp_path / "result-1.csv"
    file.write_text(f"{heads}\n{row}\n")
    (found,) = read("k8s-netperf", file, Given()).results
    assert found.params == {"message": 1024, "streams": 1} | expected


def test_k8s_netperf_says_service_where_the_server_was_met_directly(tmp_path: Path) -> None:
    file = tmp_path / "documents.json"
    direct = ({"localnetInfo": "localnet/one"}, {"externalServer": True}, {})
    file.write_text(json.dumps([{**DOCUMENT, "service": True, **one} for one in direct]))
    found = read("k8s-netperf", file, Given()).results
    assert [one.path for one in found] == ["pod", "pod", "clusterip"]


def test_k8s_netperf_drivers_whose_figures_are_others_than_they_say(tmp_path: Path) -> None:
    """ib_write_bw's MiB/s are called Mb/s; uperf's p99 is one of one-second means."""
    file = tmp_path / "documents.json"
    rdma = {**DOCUMENT, "driver": "ib_write_bw", "throughput": 100.0, "tcpRetransmits": 0.0}
    uperf = {**DOCUMENT, "driver": "uperf", "profile": "TCP_RR", "tputMetric": "OP/s"}
    file.write_text(json.dumps([rdma, uperf]))
    batch = read("k8s-netperf", file, Given())
    assert [figures(one) for one in batch.results] == [
        {"throughput": 100 * 8 * 2**20},
        {"transaction_rate": 2700.5},
    ]
    assert any("uperf" in note for note in batch.notes)
