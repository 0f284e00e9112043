"""Every workload through the real veth-baseline profile: its metrics, both families, both
placements.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Literal

import pytest

from cnibench.clusters.lab.deployment import LabDeployment
from cnibench.errors import CnibenchError, MeasureError
from cnibench.model.metrics import METRICS, cost_of
from cnibench.registry import provider, providers
from cnibench.run.sample_context import SampleContext
from cnibench.run.windows.sample import measure
from cnibench.testbed.place import Pod
from cnibench.workloads._load import groups, sent
from cnibench.workloads.tcp_crr import count, drain
from tests._each_workload import LATENCIES, values
from tests._each_workload import METRICS_OF as OF_A_PAIR
from tests._each_workload import SMALL as SMALL_PAIR
from tests.lab._samples import context

MakeDeployment = Callable[..., LabDeployment]
METRICS_OF = {
    **OF_A_PAIR,
    "tcp-rr-under-load": {"transaction_rate", *LATENCIES},
    "tcp-stream-under-load": {"throughput"},
}
SMALL = {
    **SMALL_PAIR,
    "tcp-rr-under-load": {"connections": 5, "pods": 2, "rate": "1M"},
    "tcp-stream-under-load": {"connections": 2, "rate": "1M"},
}


def test_every_workload_is_known_here() -> None:
    assert set(METRICS_OF) <= set(providers("workloads"))


@pytest.mark.parametrize("ip", [4, 6])
@pytest.mark.parametrize("workload", METRICS_OF)
def test_gives_its_metrics(
    make_deployment: MakeDeployment, tmp_path: Path, workload: str, ip: int
) -> None:
    deployment = make_deployment("veth-baseline", ip=(4, 6))
    placement: Literal["intra", "inter"] = "inter" if ip == 4 else "intra"
    s = context(
        deployment, workload, tmp_path, placement=placement, ip=ip, **SMALL.get(workload, {})
    )
    before = os.umask(0o022)
    try:
        found = measure(s, provider("workloads", workload), []).measurements
    finally:
        os.umask(before)
    figures = values(found)
    known = provider("workloads", workload)
    # Left out where a busy machine had the window outlast the client.
    cost = {cost_of(known.primary)} if known.alone else set()
    assert set(figures) - cost == METRICS_OF[workload]
    assert known.primary in figures
    assert all(name in METRICS for name in figures)
    assert all(
        value > 0 for name, value in figures.items() if name not in ("loss", "failed_requests")
    )
    assert 0 <= figures.get("loss", 0) <= 1
    if figures.keys() >= LATENCIES:
        assert figures["latency_p50"] <= figures["latency_p90"] <= figures["latency_p99"] < 1
    commands = json.loads((tmp_path / "commands.json").read_text())
    assert "client" in commands
    assert "warmup" not in commands
    # A sample whose process is killed leaves them as they are.
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*")}
    assert [path for path, mode in modes.items() if mode & 0o077] == []


def test_warm_up_and_pinning_are_on_record(make_deployment: MakeDeployment, tmp_path: Path) -> None:
    deployment = make_deployment("veth-baseline")
    for workload in ("tcp-rr", "iperf3-tcp", "http"):
        s = context(
            deployment,
            workload,
            tmp_path / workload,
            warmup=1.0,
            cpu=0,
            **({"payload": 1000} if workload == "http" else {}),
        )
        measure(s, provider("workloads", workload), [])
        commands = json.loads((s.raw / "commands.json").read_text())
        assert {"server", "warmup", "client"} <= commands.keys()
        assert all(command[:3] == ["taskset", "-c", "0"] for command in commands.values())


def test_http_counts_requests_and_cleans_up(
    make_deployment: MakeDeployment, tmp_path: Path
) -> None:
    deployment = make_deployment("veth-baseline")
    before = set(Path("/run/cnibench").glob("cnibench-http.*"))
    s = context(
        deployment, "http", tmp_path, requests=200, payload=5000, concurrency=10, keepalive=True
    )
    found = measure(s, provider("workloads", "http"), []).measurements
    (record,) = [record for name, record in found.records if name == "tools"]
    assert record["values"]["complete"] == 200
    assert values(found)["failed_requests"] == 0
    (cdf,) = [record for name, record in found.records if name == "cdf"]
    assert len(cdf["values"]) == len(cdf["shares"]) == 101
    assert cdf["values"] == sorted(cdf["values"])
    assert set(Path("/run/cnibench").glob("cnibench-http.*")) == before


def test_tcp_crr_starts_without_time_wait_and_refuses_too_few_ports(
    make_deployment: MakeDeployment, tmp_path: Path
) -> None:
    deployment = make_deployment("veth-baseline")
    s = context(deployment, "tcp-crr", tmp_path / "crr", placement="intra")
    measure(s, provider("workloads", "tcp-crr"), [])
    assert count(s.client).time_wait < 10
    assert count(s.server).time_wait < 10
    s.client.run(["sysctl", "-w", "net.ipv4.ip_local_port_range=50000 50099"], timeout=5)
    with pytest.raises(MeasureError, match="free ports of 100 "):
        measure(
            context(deployment, "tcp-crr", tmp_path / "few", placement="intra"),
            provider("workloads", "tcp-crr"),
            [],
        )


@pytest.mark.parametrize("workload", ["tcp-stream", "tcp-rr", "iperf3-tcp", "http"])
def test_a_server_that_dies_is_a_failure_with_its_reason(
    make_deployment: MakeDeployment, tmp_path: Path, workload: str
) -> None:
    deployment = make_deployment("veth-baseline")
    s = context(
        deployment,
        workload,
        tmp_path,
        duration=5.0,
        **({"payload": 1000} if workload == "http" else {}),
    )
    tested = provider("workloads", workload)
    pid = s.server.run(["sh", "-c", "readlink /proc/self/ns/net"], timeout=5).stdout.strip()
    with pytest.raises(CnibenchError) as caught, tested.serve(s), tested.start(s) as client:  # noqa: PT012
        _wait_for_traffic(s)
        _kill_in(pid, {"netserver", "iperf3", "nginx"})
        client.wait(20)
        tested.measurements(s)
    assert len(caught.value.message) > 20
    assert "defect" not in caught.value.message


def test_background_connections_that_die_fail_the_cell(
    make_deployment: MakeDeployment, tmp_path: Path
) -> None:
    deployment = make_deployment("veth-baseline")
    tested = provider("workloads", "tcp-rr-under-load")
    first = context(
        deployment,
        "tcp-rr-under-load",
        tmp_path / "1",
        placement="intra",
        connections=4,
        pods=2,
        rate="1M",
    )
    found = measure(first, tested, []).measurements
    (load,) = [record for name, record in found.records if name == "background"]
    assert load["connections"] == 4
    assert load["pairs"] == 2
    assert load["achieved"] > 0
    number = len(list(deployment.pods()))
    s = context(
        deployment,
        "tcp-rr-under-load",
        tmp_path / "2",
        placement="intra",
        connections=4,
        pods=2,
        rate="1M",
    )
    with (  # noqa: PT012
        pytest.raises(MeasureError, match="background load broke"),
        tested.serve(s),
        tested.start(s) as client,
    ):
        _, servers = groups(deployment, [s.client.node, s.server.node], 2)
        victim = servers[-1].run(["readlink", "/proc/self/ns/net"], timeout=5).stdout.strip()
        _kill_in(victim, {"iperf3"})
        client.wait(20)
        tested.measurements(s)
    assert len(list(deployment.pods())) == number  # the same Pods served both


def test_a_background_client_that_stalls_fails_the_cell_and_is_named(
    make_deployment: MakeDeployment, tmp_path: Path
) -> None:
    """Its connections stay, the other Pod goes on sending. The profile's policies let the load
    through as they do the pair.
    """
    deployment = make_deployment("calico-wp-xsub")
    tested = provider("workloads", "tcp-rr-under-load")
    s = context(deployment, "tcp-rr-under-load", tmp_path, connections=4, pods=2, rate="1M")
    with tested.serve(s):
        (_, victim), _ = groups(deployment, [s.client.node, s.server.node], 2)
        namespace = victim.run(["readlink", "/proc/self/ns/net"], timeout=5).stdout.strip()
        _kill_in(namespace, {"iperf3"}, signal.SIGSTOP)
        try:
            _wait_until_silent(victim)
            with tested.start(s) as client:
                client.wait(20)
            with pytest.raises(MeasureError, match=f"background load stalled: {victim.name} sent"):
                tested.measurements(s)
        finally:
            _kill_in(namespace, {"iperf3"}, signal.SIGCONT)


def _wait_until_silent(pod: Pod) -> None:
    """Until what the sockets still had is out."""
    end = time.monotonic() + 10
    before, now = -1, sent(pod.read_text("/proc/net/dev"), pod.interface)
    while now != before:
        assert time.monotonic() < end, "it does not stop"
        time.sleep(0.2)
        before, now = now, sent(pod.read_text("/proc/net/dev"), pod.interface)


def _wait_for_traffic(s: SampleContext) -> None:
    end = time.monotonic() + 10
    before = sent(s.client.read_text("/proc/net/dev"), s.client.interface)
    while sent(s.client.read_text("/proc/net/dev"), s.client.interface) < before + 20_000:
        assert time.monotonic() < end, "the client sends nothing"
        time.sleep(0.02)


def _kill_in(namespace: str, names: set[str], number: signal.Signals = signal.SIGKILL) -> None:
    """Signals the programs of those names in one network namespace."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "comm").read_text().strip() in names and os.readlink(
                process / "ns/net"
            ) == namespace:
                os.kill(int(process.name), number)
        except OSError:
            continue


def test_connections_of_a_server_that_ended_before_its_client_do_not_keep_a_pod_waiting(
    make_deployment: MakeDeployment,
) -> None:
    """The client is stopped, as it is between slices: the server's sockets are in FIN_WAIT2. So is
    what somebody else has closed for writing, and still reads from.
    """
    pod, _ = make_deployment("veth-baseline").pair("intra")
    with pod.entered(), ExitStack() as made:
        server, other = (made.enter_context(socket.socket()) for _ in range(2))
        for one in (server, other):
            one.bind(("127.0.0.1", 0))
            one.listen()
        for _ in range(3):
            made.enter_context(socket.create_connection(server.getsockname()))
            server.accept()[0].close()
        writer = made.enter_context(socket.create_connection(other.getsockname()))
        reader = made.enter_context(other.accept()[0])
        reader.shutdown(socket.SHUT_WR)
        time.sleep(0.1)  # the last acknowledgement
        assert count(pod).time_wait == 3
        drain(pod, [server.getsockname()[1]], limit=0.01)
        assert count(pod).time_wait == 0
        writer.sendall(b"still read")
        assert reader.recv(100) == b"still read"
