"""The wire between two machines: on each a macvlan device on the measured NIC, in place of the
lab's veth pair.

A macvlan hands every packet on as it is, super-packets and tunnels included; what the NIC does not
take whole is cut before the NIC (validate_xmit_skb in net/core/dev.c), as it is without a macvlan.
Only the two devices know each other's addresses: the neighbour entries are permanent, and neither
answers or sends ARP, so that nothing else on the network hears of them.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from cnibench.clusters.lab.namespaces import links
from cnibench.clusters.lab.namespaces.iproute import iproute
from cnibench.clusters.lab.namespaces.places import LabNode
from cnibench.errors import ClusterError
from cnibench.system import namespaces

MACHINE = "/mnt/machine"  # the machine's own network namespace, as a file of the tree
_PRIVATE = "private"  # macvlans of one NIC do not reach each other


@dataclass(frozen=True)
class Nic:
    """The measured device of this machine; ``run`` are six hex digits that tell the MAC addresses
    of one run from those of others on the same network.
    """

    device: str
    run: str

    def mac(self, number: int, node: int, reference: bool) -> str:
        """That of a node of a deployment on the wire. Locally administered."""
        one, two, three = (self.run[at : at + 2] for at in (0, 2, 4))
        return f"02:{one}:{two}:{three}:{number & 0x7F | reference << 7:02x}:{node + 1:02x}"


@contextmanager
def machine() -> Iterator[None]:
    """The calling thread in the machine's own network namespace."""
    fd = os.open(MACHINE, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with namespaces.inside(fd):
            yield
    finally:
        os.close(fd)


def join(own: LabNode, other: LabNode, nic: Nic, number: int, reference: bool, mtu: int) -> None:
    """``own`` gets its device on the NIC. ``other``, whose real half is on the other machine, gets
    one of the same name that leads nowhere. Raises ClusterError.
    """
    macs = {node.number: nic.mac(number, node.number, reference) for node in (own, other)}
    _macvlan(own, nic, macs[own.number], mtu)
    links.veth(
        other.ns, other.wire, other.ns, "nowhere", mtu=mtu, mac=macs[other.number], txqueuelen=1000
    )
    for node, peer in ((own, other), (other, own)):
        node.ns.sysctl({f"net/ipv4/conf/{node.wire}/arp_ignore": 8})
        if (holds := links.mtu(node.ns, node.wire)) != mtu:
            raise ClusterError(
                f"the MTU of the wire on node {node.name}: {mtu} was asked for, {holds}"
            )
        links.address(node.ns, node.wire, f"{node.addresses[4]}/24")
        links.neighbour(node.ns, node.wire, peer.addresses[4], macs[peer.number])


def _macvlan(node: LabNode, nic: Nic, mac: str, mtu: int) -> None:
    from pyroute2.netlink.exceptions import NetlinkError

    # Before Linux 6.15, the name must be free in the machine's namespace, too: most have an eth0
    # (__rtnl_newlink in net/core/rtnetlink.c).
    free = f"cb{mac.replace(':', '')}"
    with machine():
        ipr = iproute()()
        try:
            ipr.link(
                "add",
                ifname=free,
                kind="macvlan",
                macvlan_mode=_PRIVATE,
                link=socket.if_nametoindex(nic.device),
                address=mac,
                mtu=mtu,
                net_ns_fd=node.ns.fd,
            )
        except (NetlinkError, OSError) as error:
            raise ClusterError(
                f"no macvlan device on {nic.device}: {error.args[1] if error.args[1:] else error}",
                "the kernel needs CONFIG_MACVLAN (modprobe macvlan), and the device must be an"
                " Ethernet card that is no port of a bridge",
            ) from None
        finally:
            ipr.close()
    links.rename(node.ns, free, node.wire)
    links.set_link(node.ns, node.wire, state="up", txqueuelen=1000)
