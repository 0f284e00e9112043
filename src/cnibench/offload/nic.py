"""A network device as its driver describes it, wherever the description came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from cnibench.system.ethtool import Feature

Source = Literal["netlink", "ioctl", "ethtool", "none"]

# Drivers of devices without hardware of their own: what they promise, another layer of
# software (or a host's NIC, which
# nobody here can ask) keeps.
VIRTUAL_DRIVERS = frozenset(
    {
        "veth",
        "virtio_net",
        "tun",
        "bridge",
        "bonding",
        "team",
        "dummy",
        "loopback",
        "ifb",
        "vxlan",
        "geneve",
        "ipip",
        "macvlan",
        "ipvlan",
        "802.1Q VLAN Support",
        "openvswitch",
        "vmxnet3",
        "hv_netvsc",
        "xen_netfront",
        "vif",
        "netkit",
        "wireguard",
    }
)
_HYPERVISED = frozenset({"virtio_net", "vmxnet3", "hv_netvsc", "xen_netfront", "vif"})


@dataclass(frozen=True)
class Nic:
    """One device of one node. ``features`` by the kernel's names; empty with ``problem`` when the
    driver answers nothing.

    ``ports``: (tunnel type, UDP port) pairs that the device knows; None when it does not say.
    ``queues``: receive queues, 0 unknown.
    ``udp_hash``: what spreads UDP over the queues (``sdfn`` as ``ethtool -N rx-flow-hash`` has it),
    '' unknown. ``hardware``: there is a device behind it (/sys/class/net/NAME/device).
    """

    node: str
    name: str
    driver: str = ""
    version: str = ""
    firmware: str = ""
    bus: str = ""
    hardware: bool = False
    features: Mapping[str, Feature] = field(default_factory=dict)
    source: Source = "none"
    problem: str = ""
    ports: tuple[tuple[str, int], ...] | None = None
    queues: int = 0
    udp_hash: str = ""
    underlay: bool = False  # the node reaches other nodes through it

    @property
    def virtual(self) -> str:
        """Why this is no NIC whose promises hold in hardware; '' for one whose do."""
        if self.driver in _HYPERVISED:
            return f"{self.driver} is a virtual machine's device"
        if self.driver in VIRTUAL_DRIVERS or not self.hardware:
            return f"{self.driver or self.name} is a software device"
        return ""

    def on(self, name: str) -> bool:
        """Is that feature on? A name that this kernel does not know counts as off."""
        found = self.features.get(name)
        return found is not None and found.on
