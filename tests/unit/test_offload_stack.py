"""The NICs below bonds, bridges and VLANs: found in sysfs, judged and ranked in place of what lies
on top of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cnibench.model.profile import CURRENT, builtin
from cnibench.offload import facts, reading, stack, tunnel_support
from cnibench.offload.nic import Nic
from cnibench.system.ethtool import Feature
from tests.unit._local_cluster import HereNode
from tests.unit.test_offload_judge import BASE, FIXED, GOLDEN, ON, UDP, UDP_CSUM

# A VLAN on a bond of two NICs, a bridge with a NIC and Pods' veths, a veth, a NIC in no use.
DEVICES = {
    "eth0": [],
    "eth1": [],
    "eth2": [],
    "eth3": [],
    "bond0": ["eth0", "eth1"],
    "bond0.7": ["bond0"],
    "br0": ["eth2", "veth1", "veth2"],
    "veth1": [],
    "veth2": [],
    "veth9": [],
    "veth9.3": ["veth9"],
    "lo": [],
}
HARDWARE = {"eth0", "eth1", "eth2", "eth3"}


def sysfs(root: Path, devices: Mapping[str, list[str]]) -> Path:
    """A tree as /sys/class/net is."""
    folder = root / "net"
    folder.mkdir()
    (folder / "bonding_masters").write_text("bond0\n")
    for name in devices:
        (root / "devices" / name).mkdir(parents=True)
        (folder / name).symlink_to(root / "devices" / name)
        if name in HARDWARE:
            (root / "pci" / name).mkdir(parents=True)
            (folder / name / "device").symlink_to(root / "pci" / name)
    for name, lower in devices.items():
        for other in lower:
            (folder / name / f"lower_{other}").symlink_to(root / "devices" / other)
            (folder / other / f"upper_{name}").symlink_to(root / "devices" / name)
    return folder


def test_this_machine_and_a_node_are_read_alike(tmp_path: Path) -> None:
    folder = str(sysfs(tmp_path, DEVICES))
    known = stack.here(folder)
    assert known == stack.there(HereNode(), folder)
    assert known.hardware == HARDWARE
    assert known.lower == {name: frozenset(lower) for name, lower in DEVICES.items() if lower}
    nothing = str(tmp_path / "pci")
    assert stack.here(nothing) == stack.there(HereNode(), nothing) == stack.Stack()


@pytest.mark.parametrize(
    ("name", "below", "carrying"),
    [
        ("eth0", {"eth0"}, {"eth0"}),
        ("bond0", {"eth0", "eth1"}, {"eth0", "eth1"}),
        ("bond0.7", {"eth0", "eth1"}, {"eth0", "eth1"}),
        ("br0", {"eth2", "veth1", "veth2"}, {"eth2"}),
        ("veth9", {"veth9"}, {"veth9"}),
        ("veth9.3", {"veth9"}, {"veth9.3"}),
        ("never-seen", {"never-seen"}, {"never-seen"}),
    ],
)
def test_what_lies_on_top_is_followed_down(name: str, below: set[str], carrying: set[str]) -> None:
    known = stack.Stack(
        frozenset(HARDWARE), {name: frozenset(lower) for name, lower in DEVICES.items()}
    )
    assert known.below(name) == below
    assert known.carrying(name) == carrying


@given(
    st.dictionaries(st.sampled_from("abcd"), st.frozensets(st.sampled_from("abcd"))),
    st.frozensets(st.sampled_from("abcd")),
)
def test_any_tree_has_an_end(lower: dict[str, frozenset[str]], hardware: frozenset[str]) -> None:
    known = stack.Stack(hardware, lower)
    assert all(not lower.get(one) for one in known.below("a"))
    assert known.carrying("a")


def bonded(node: str, first: dict[str, Feature], second: dict[str, Feature]) -> list[Nic]:
    """A node with a bond, as its devices are read: the bond promises everything, its ports are the
    NICs.
    """
    known = stack.Stack(frozenset({"eth0", "eth1"}), {"bond0": frozenset({"eth0", "eth1"})})
    under = known.carrying("bond0")
    drivers = {
        "bond0": ("bonding", {UDP: ON, UDP_CSUM: ON}),
        "eth0": ("card", first),
        "eth1": ("card", second),
    }
    return [
        Nic(
            node,
            name,
            driver=driver,
            hardware=name in known.hardware,
            features={**BASE, **features},
            underlay=name in under,
        )
        for name, (driver, features) in drivers.items()
    ]


def places(nics: list[Nic]) -> dict[str, tuple[int, str]]:
    return {
        one.profile: (one.place, one.outcome)
        for one in facts.ranked(facts.judged(nics, []), builtin())
    }


def test_bonded_nodes_are_judged_and_ranked_by_their_nics() -> None:
    able, unable = {UDP: ON, UDP_CSUM: ON}, {UDP: ON, UDP_CSUM: FIXED}
    found = facts.judged([*bonded("a", able, able), *bonded("b", able, unable)], [])
    assert {(nic["node"], nic["name"]) for nic in found["nics"]} == {
        (node, name) for node in "ab" for name in ("eth0", "eth1")
    }
    assert (
        f"{tunnel_support.tunnel('vxlan-csum').title} differs between the nodes: a: offloaded, b:"
        " fixed-off/offloaded" in found["asymmetries"]
    )
    assert f"{UDP_CSUM} differs between the nodes: a: on, b: off/on" in found["asymmetries"]
    assert not any("no bare metal" in note for note in found["notes"])
    ranked = places([*bonded("a", able, able), *bonded("b", able, unable)])
    assert ranked["cilium"][1] == "offloaded"
    assert ranked["flannel"][1] == "fixed-off"
    assert ranked["flannel-host-gw"][0] < ranked["cilium"][0] < ranked["flannel"][0]
    shown = facts.judged(bonded("a", able, able), [], every=True)
    assert {nic["name"] for nic in shown["nics"]} == {"bond0", "eth0", "eth1"}
    assert not any(
        "no bare metal" in note for note in shown["notes"]
    )  # of the bond, which is no NIC


def test_hardware_whose_driver_tells_no_bus_is_hardware(tmp_path: Path) -> None:
    """Some drivers of NICs that are no PCI device leave ``bus-info`` empty."""
    golden = (
        (GOLDEN / "virtio_net.i.txt")
        .read_text()
        .replace("0000:00:03.0", "")
        .replace("virtio_net", "emac")
    )
    (tmp_path / "about").write_text(golden)
    program = tmp_path / "ethtool"
    program.write_text(
        f"#!/bin/sh\ncase $1 in -i) cat {tmp_path}/about ;; -k) cat {GOLDEN}/virtio_net.k.txt ;; *)"
        " exit 1 ;; esac\n"
    )
    program.chmod(0o755)

    class There(HereNode):
        def run(self, argv, **limits):  # type: ignore[no-untyped-def]
            return super().run(
                [str(program) if argv[0] == "ethtool" else argv[0], *argv[1:]], **limits
            )

    by_sysfs, unknown = (
        reading.there(There(), ["eth0"], "a", None, hardware)[0] for hardware in (("eth0",), ())
    )
    assert (by_sysfs.driver, by_sysfs.bus, by_sysfs.virtual) == ("emac", "", "")
    assert unknown.virtual


def test_only_what_can_be_had_is_named() -> None:
    lab, cluster = facts.obtainable(builtin(), lab=True), facts.obtainable(builtin(), lab=False)
    assert not {"xdp", "evpn-mpls", "kindnet"} & lab.keys()
    assert (
        not {"xdp", "evpn-mpls", "ila", "macvlan", "calico-bare-xsub", "flannel-off"}
        & cluster.keys()
    )
    assert "flannel" in lab.keys() & cluster.keys()


def test_a_tunnel_that_no_nic_is_judged_for_has_no_place() -> None:
    able = [
        Nic(
            "a",
            "eth0",
            driver="card",
            hardware=True,
            features={**BASE, UDP: ON, UDP_CSUM: ON},
            underlay=True,
        )
    ]
    ranked = places(able)
    assert "evpn-mpls" not in ranked
    assert "host" not in ranked
    assert facts.ranked(facts.judged(able, []), {"current": CURRENT}) == []
    assert ranked["flannel"][1] == "offloaded"
    assert ranked["flannel-off"][1] == "turned off by the profile"
    assert ranked["flannel"][0] < ranked["flannel-off"][0]
