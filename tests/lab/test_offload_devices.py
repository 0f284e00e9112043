"""Reading real devices by all three ways; features that are changed come back, also after kill
-9.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cnibench.clusters.lab.deployment import LabDeployment
from cnibench.clusters.lab.namespaces import features, links
from cnibench.clusters.lab.namespaces.netns import Namespace
from cnibench.clusters.lab.namespaces.places import LabNode
from cnibench.errors import ClusterError
from cnibench.offload import change, reading, stack
from cnibench.offload.tunnel_support import TUNNELS, judge
from cnibench.offload.verify import Stream, verify
from cnibench.system import ethtool

Make = Callable[..., LabDeployment]
BIT = "tx-udp_tnl-segmentation"
KILLED = """
import sys, time
from cnibench.system import process as programs
from cnibench.testbed.place import Node
from cnibench.offload.change import Lease

class Here(Node):
    name = "here"
    disk = sys.argv[1]
    def spawn(self, argv, *, stdout=None, stderr=None): return programs.spawn(argv)
    def run(self, argv, *, timeout, input=None, check=True): return programs.run(argv, timeout=timeout, input=input, check=check)
    def read_text(self, path): return open(path).read()

lease = Lease(Here(), "v0", 8)
lease.take({"tx-udp_tnl-segmentation": True})
lease.set({"tx-udp_tnl-segmentation": False})
print("changed", flush=True)
time.sleep(600)
"""  # noqa: E501


@pytest.fixture
def place(tmp_path: Path) -> Iterator[LabNode]:
    """A node whose disk is the test's folder."""
    ns = Namespace("offload-test")
    links.veth(ns, "v0", ns, "v1")
    node = LabNode("node", ns, 0)
    node.disk = str(tmp_path)
    yield node
    ns.remove()


def bit(place: LabNode) -> bool:
    return features.read(place.ns, "v0")[BIT]


def kept(place: LabNode) -> Path:
    """Where old values are."""
    return Path(change.folder(place))


def left(place: LabNode) -> list[Path]:
    """What is there of it: neither a file nor a folder when all is as it was."""
    return [path for path in (kept(place).parent, kept(place)) if path.exists()]


def until(reached: Callable[[], bool], limit: float = 90.0) -> bool:
    end = time.monotonic() + limit
    while not reached():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def test_the_two_ways_of_reading_agree(place: LabNode) -> None:
    with place.ns.inside():
        by_kernel = ethtool.features("v0")
        nics = {nic.name: nic for nic in reading.here("node")}
    (by_program,) = reading.there(place, ["v0"], "node")
    assert {
        name: feature.on for name, feature in by_kernel.items() if name in by_program.features
    } == {name: feature.on for name, feature in by_program.features.items() if name in by_kernel}
    assert len(by_program.features.keys() & by_kernel.keys()) > 50
    assert nics["v0"].driver == by_program.driver == "veth"
    assert nics["v0"].source == "ioctl"
    assert by_program.source == "ethtool"
    assert {judge(nic, kind).outcome for nic in (nics["v0"], by_program) for kind in TUNNELS} == {
        "software-only"
    }


def test_what_lies_on_a_bridge_is_followed_down_to_its_port(place: LabNode) -> None:
    """A macvlan lies on a bridge as a VLAN would, and the bridge on its port as a bond on its own;
    not every kernel has those two.
    """
    bridge = links.add(place.ns, "br0", "bridge")
    links.set_link(place.ns, "v0", master=bridge)
    links.add(place.ns, "mac0", "macvlan", link=bridge, macvlan_mode="bridge")

    class Inside(LabNode):
        """The same with the namespace's own /sys, as an agent on a node's network has it."""

        def run(self, argv, **limits):  # type: ignore[no-untyped-def]
            mounted = [
                "unshare",
                "--mount",
                "sh",
                "-c",
                'mount -t sysfs none /sys && exec "$@"',
                "sh",
            ]
            return super().run([*mounted, *argv], **limits)

    known = stack.there(Inside("node", place.ns, 0))
    assert known.lower == {"mac0": {"br0"}, "br0": {"v0"}}
    assert known.below("mac0") == {"v0"}
    assert known.hardware == set()
    assert known.carrying("mac0") == {"mac0"}  # no hardware below it


def test_a_device_that_answers_nothing_is_said_to(place: LabNode) -> None:
    with place.ns.inside():
        nic = reading.one("no-such", "node")
    assert "No such device" in nic.problem
    assert judge(nic, TUNNELS[0]).outcome == "software-only"  # nothing stands behind it
    (asked,) = reading.there(place, ["no-such"], "node")
    assert asked.features == {}
    assert asked.problem


def test_the_old_values_are_on_disk_before_anything_changes_and_come_back(place: LabNode) -> None:
    assert bit(place)
    with change.leased(place, "v0", {BIT: True}) as lease:
        assert (kept(place) / "v0.restore").read_text() == f"ethtool -K v0 {BIT} on\n"
        assert bit(place)
        lease.set({BIT: False})
        assert not bit(place)
        with (
            pytest.raises(ClusterError, match="has no feature tx-none"),
            change.leased(place, "v0", {"tx-none": True}),
        ):
            pass
        with (
            pytest.raises(ClusterError, match="another run is changing"),
            change.leased(place, "v0", {BIT: True}),
        ):
            pass
    assert bit(place)
    assert not left(place)


def test_a_lease_that_was_lost_is_noticed(place: LabNode) -> None:
    def lose() -> None:
        with change.leased(place, "v0", {BIT: True}) as lease:
            lease.set({BIT: False})
            (kept(place) / "v0.lease").unlink()
            assert until(lambda: bit(place))  # the guardian has restored

    with pytest.raises(ClusterError, match="was restored meanwhile"):
        lose()


def test_kill_9_restores(place: LabNode, tmp_path: Path) -> None:
    argv = place.ns.enter([sys.executable, "-c", KILLED, str(tmp_path)])
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as killed:
        assert killed.stdout is not None
        assert killed.stdout.readline() == "changed\n"
        assert not bit(place)
        killed.send_signal(signal.SIGKILL)
    assert until(lambda: bit(place))
    assert until(lambda: not left(place))


def test_the_next_start_restores_what_no_guardian_did(place: LabNode) -> None:
    kept(place).mkdir(parents=True)
    (kept(place) / "v0.restore").write_text(f"ethtool -K v0 {BIT} off\n")
    change.restore_left(place)
    assert not bit(place)
    assert not left(place)


def test_verify_changes_both_ends_and_gives_them_back(make_deployment: Make) -> None:
    deployment = make_deployment("flannel")
    seen: dict[str, tuple[bool, bool]] = {}

    def stream(name: str) -> Stream:
        first, second = (features.read(node.ns, node.wire)[BIT] for node in deployment.nodes())
        seen[name] = (first, second)
        return Stream(2.0, 60_000.0) if name.endswith("on") else Stream(1.0, 1500.0)

    found = verify(deployment, BIT, stream, blocks=2, seed=1)
    assert seen == {
        f"{block}-{word}": (on, on)
        for block in (0, 1)
        for word, on in (("on", True), ("off", False))
    }
    assert (found.ratio, found.verdict) == (2.0, "inconclusive")
    assert (found.size_on, found.size_off) == (60_000.0, 1500.0)
    assert all(features.read(node.ns, node.wire)[BIT] for node in deployment.nodes())


@pytest.mark.parametrize(
    ("name", "feature"),
    [
        ("flannel", "tx-udp_tnl-csum-segmentation"),
        ("cilium", BIT),
        ("evpn-vxlan", "tx-udp_tnl-csum-segmentation"),
    ],
)
def test_the_command(tmp_path: Path, name: str, feature: str) -> None:
    """Real netperf streams through a real tunnel, in a process of its own; the feature that is
    changed is the one that cuts.
    """
    program = "from cnibench.cli.main import main; main()"
    argv = [
        sys.executable,
        "-c",
        program,
        "offload",
        "--verify",
        "--cni",
        name,
        "--blocks",
        "1",
        "--duration",
        "1s",
        "--json",
    ]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["feature"] == feature
    assert told["wire"] == "veth"
    assert told["size_off"] <= 1514 < 10_000 < told["size_on"]
    assert min(*told["on"], *told["off"]) > 0
    assert list(tmp_path.iterdir()) == []
