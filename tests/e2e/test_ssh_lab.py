"""The lab between two machines, without Kubernetes: to samples, and nothing stays on either."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from _kind_runs import CNIBENCH, LIMIT, cnibench, lines, nothing_left, until
from _machines import Machines

pytestmark = pytest.mark.timeout(600)
OURS = "ps -eo args | grep -E '[c]nibench|[n]etserver|[n]etperf|[s]leep infinity' || true"
SHORT = ("--blocks", "1", "--no-perf", "--placement", "inter")


def asked(machines: Machines, *words: str) -> tuple[str, ...]:
    """Of a run of two models and the baseline."""
    return (
        *("run", "--cluster", machines.cluster, "--lab", "--allow-node-changes"),
        *("--cni", "host,flannel,calico-wp-vxlan", *SHORT, *words),
    )


@pytest.fixture
def unchanged(machines: Machines) -> Iterator[None]:
    """What both machines have is the same before and after, by commands that are not cnibench's."""
    before = [machines.listing(which) for which in (0, 1)]
    yield
    for which in (0, 1):
        until(lambda which=which: not machines.on(which, OURS).strip())
        assert sorted(set(before[which]) ^ set(machines.listing(which))) == []


@pytest.mark.usefixtures("unchanged")
def test_to_samples_and_nothing_stays(machines: Machines, tmp_path: Path) -> None:
    words = ("--workload", "tcp-rr,tcp-stream,http", "--duration", "1s")
    done = cnibench(*asked(machines, *words), cwd=tmp_path)
    samples = lines(tmp_path, "samples")
    assert {(one["label"], one["workload"]) for one in samples if one["status"] == "ok"} == {
        (label, workload)
        for label in ("host", "flannel", "calico-wp-vxlan")
        for workload in ("tcp-rr", "tcp-stream", "http")
    }
    assert {(one["testbed"], one["wire"]) for one in samples} == {("lab", "veth")}  # as eth0 is
    assert {one["wire_offload"] for one in samples} == {"as the machines' devices have it"}
    assert {one["method"] for one in samples if one["workload"] != "http"} == {"slices"}
    assert {one["fidelity"] for one in samples} == {"baseline", "datapath-model"}
    assert done.stderr.count("as it was before, no difference in") == 2
    found = lines(tmp_path, "attestations")
    assert [one for one in found if not one["passed"]] == []
    checks = {one["check"] for one in found if one["label"] == "calico-wp-vxlan"}
    assert {"kernel-state-a", "kernel-state-b", "encapsulation", "encapsulation-back-replies"} < (
        checks
    )
    assert {"offload-inter", "tunnel-device-back", "mtu", "denied-inter-b", "denied-port"} < checks
    (run,) = (tmp_path / "runs").iterdir()
    environment = json.loads((run / "env.json").read_text())
    nodes = environment["nodes"]
    assert nodes.keys() == {"a", "b"}
    assert environment["certificates"].keys() == {"flannel", "calico-wp-vxlan"}
    assert environment["certificates"]["flannel"]["agent"] == "flanneld"
    assert all("tx-udp_tnl-segmentation" in node["features"] for node in nodes.values())
    assert not any(address in (run / "env.json").read_text() for address in machines.addresses)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.usefixtures("unchanged")
def test_ended_in_the_middle(number: signal.Signals, machines: Machines, tmp_path: Path) -> None:
    """A live run's machine is refused to others; of one that has ended nothing is there, whatever
    ended it, and there is nothing to clean.
    """
    with (tmp_path / "log").open("w") as stderr:
        run = subprocess.Popen(
            [CNIBENCH, *asked(machines, "--workload", "tcp-rr", "--duration", "60s")],
            stderr=stderr,
            stdout=subprocess.DEVNULL,
            cwd=tmp_path,
        )
    try:
        until(lambda: run.poll() is not None or "netperf" in machines.on(0, OURS), LIMIT)
        assert run.poll() is None, (tmp_path / "log").read_text()
        assert "netserver" in machines.on(1, OURS)
        doctor = ("doctor", "--cluster", machines.cluster, "--lab", "--cni", "flannel", "--json")
        refused = cnibench(*doctor, cwd=tmp_path, status=3)
        assert "another run of cnibench's lab uses this machine" in refused.stdout
    finally:
        run.send_signal(number)
        status = run.wait(LIMIT)
    assert status == (130 if number == signal.SIGINT else -number)
    assert nothing_left(cnibench("clean", "--cluster", machines.cluster, cwd=tmp_path).stdout)


@pytest.mark.usefixtures("unchanged")
def test_what_cannot_be_is_refused_by_name_before_anything_starts(
    machines: Machines, tmp_path: Path
) -> None:
    run = ("run", "--cluster", machines.cluster, "--lab", "--no-perf", "--dry-run")
    allowed = (*run, "--allow-node-changes")
    done = cnibench(*run, "--cni", "flannel", cwd=tmp_path, status=2)
    assert "macvlan devices would be made on eth0" in done.stderr
    done = cnibench(
        *allowed, "--cni", "cilium,flannel-off,flannel-wireguard", cwd=tmp_path, status=3
    )
    for label in ("cilium", "flannel-off", "flannel-wireguard"):
        assert f"{label}: " in done.stderr
    done = cnibench(*allowed, "--cni", "flannel", "--path", "clusterip", cwd=tmp_path, status=2)
    assert "has no path clusterip" in done.stderr
    done = cnibench(*allowed, "--cni", "flannel", "--wire-offload", "all", cwd=tmp_path, status=2)
    assert "this one is real" in done.stderr
    machines.on(1, "mv /usr/bin/netperf /usr/bin/netperf.gone")
    try:
        words = ("--cni", "flannel", "--workload", "tcp-rr")
        done = cnibench(*allowed, *words, cwd=tmp_path, status=2)
    finally:
        machines.on(1, "mv /usr/bin/netperf.gone /usr/bin/netperf")
    assert f"{machines.addresses[1]} has no netperf (apt-get install netperf)" in done.stderr
    machines.on(
        1, "mv /usr/sbin/iptables /usr/sbin/iptables.gone; mv /usr/bin/python3.11 /usr/bin/python"
    )
    try:
        done = cnibench(*allowed, "--cni", "flannel", cwd=tmp_path, status=3)
    finally:
        machines.on(
            1,
            "mv /usr/sbin/iptables.gone /usr/sbin/iptables; mv /usr/bin/python /usr/bin/python3.11",
        )
    assert "the lab needs Python" in done.stderr
    assert not (tmp_path / "runs").exists()
