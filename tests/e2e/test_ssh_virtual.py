"""The lab between two virtual machines of the stock kernel, joined by virtio: to samples, and a
reboot in the middle.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from _kind_runs import CNIBENCH, cnibench, lines, nothing_left, until
from _virtual_machines import UP, Virtual, virtual_machines

pytestmark = pytest.mark.timeout(4 * UP)
LISTING = """
ip -o link | sed 's/@.*//; s/^[0-9]*: //' | sort; ip address show | grep inet; ip -4 route show table all; ip rule
iptables-save | grep -v '^[#:]'; nft list tables; mount | sort; sysctl net.ipv4.ip_forward net.bridge
ps -eo args | grep -E '[c]nibench|[n]etserver|[n]etperf|[s]leep infinity'
find /etc /usr /var /root -xdev -type f ! -path '/var/log/*' -printf '%p %s %T@\\n' | sort
true
"""  # noqa: E501


@pytest.fixture(scope="module")
def virtual(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Virtual]:
    for made in virtual_machines(tmp_path_factory.mktemp("virtual")):
        for which in (0, 1):
            # a bare machine has it not loaded, and the lab loads nothing that changes its bridges
            made.on(which, "modprobe br_netfilter")
        yield made


def asked(virtual: Virtual, *words: str) -> tuple[str, ...]:
    return (
        *("run", "--cluster", virtual.cluster, "--lab", "--allow-node-changes"),
        *("--cni", "host,flannel", "--blocks", "1", "--no-perf", "--placement", "inter"),
        # a slice of 20 ms is too short for an emulated machine, as cnibench says
        *("--workload", "tcp-rr", "--method", "windows", *words),
    )


def test_to_samples_over_virtio_and_nothing_stays(virtual: Virtual, tmp_path: Path) -> None:
    """Each machine has an eth0 of its own, which is not the measured card."""
    before = [virtual.on(which, LISTING).splitlines() for which in (0, 1)]
    done = cnibench(*asked(virtual, "--duration", "15s"), cwd=tmp_path)
    assert done.stderr.count("as it was before, no difference in") == 2
    for which in (0, 1):
        after = virtual.on(which, LISTING).splitlines()
        assert sorted(set(before[which]) ^ set(after)) == []
    samples = lines(tmp_path, "samples")
    assert {one["label"] for one in samples if one["status"] == "ok"} == {"host", "flannel"}
    assert {(one["testbed"], one["wire"]) for one in samples} == {("lab", "virtio")}
    found = lines(tmp_path, "attestations")
    assert [one for one in found if not one["passed"]] == []
    tunnel = {one["check"]: one["observed"] for one in found if one["label"] == "flannel"}
    assert tunnel["encapsulation"].endswith("packets vxlan")
    (run,) = (tmp_path / "runs").iterdir()
    nodes = json.loads((run / "env.json").read_text())["nodes"]
    assert {node["device"] for node in nodes.values()} == {"eth1"}


def test_a_reboot_in_the_middle_is_named_and_the_run_can_be_resumed(
    virtual: Virtual, tmp_path: Path
) -> None:
    earlier = virtual.boot_id(1)
    with (tmp_path / "log").open("w") as stderr:
        run = subprocess.Popen(
            [CNIBENCH, *asked(virtual, "--duration", "30s")],
            stderr=stderr,
            stdout=subprocess.DEVNULL,
            cwd=tmp_path,
        )
    try:
        until(lambda: run.poll() is not None or "netserver" in virtual.on(1, LISTING), UP)
        assert run.poll() is None, (tmp_path / "log").read_text()
        virtual.on(1, "systemd-run --on-active=1 systemctl reboot")
        status = run.wait(UP)
    finally:
        run.kill()
    said = " ".join((tmp_path / "log").read_text().split())
    assert status == 3, said
    assert "--resume" in said
    virtual.await_up(1, other_than=earlier)
    assert nothing_left(cnibench("clean", "--cluster", virtual.cluster, cwd=tmp_path).stdout)
    (path,) = (tmp_path / "runs").iterdir()
    virtual.on(1, "modprobe br_netfilter")
    cnibench("run", "--resume", path, cwd=tmp_path)
    assert {one["label"] for one in lines(tmp_path, "samples") if one["status"] == "ok"} == {
        "host",
        "flannel",
    }
