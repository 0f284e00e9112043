"""``swarm``: Docker Swarm's overlay network: on each node a namespace per network, with a bridge
and a VXLAN device in it.

Follows docker/libnetwork fa125a3512ee drivers/overlay: ov_network.go (sandbox, bridge br0 with the
gateway, VNI 4097 and up), ov_utils.go (createVxlan: port 4789, learning, proxy, L2 and L3 misses
reported; made in the node's namespace, so that its socket stays there), joinleave.go (veth pairs,
MACs 02:42 and the address), peerdb.go (for each peer a permanent neighbour and a forwarding entry,
spread by Serf's gossip in Docker, written here). The second device of each container, on
docker_gwbridge, is left out: no measured packet uses it.
``filter`` puts the rules of makowski2018 into that namespace, where the bridged packets meet them.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import field_validator

from cnibench.clusters.lab.attestation import probe
from cnibench.clusters.lab.builders.base import Datapath
from cnibench.clusters.lab.deployment import LabDeployment
from cnibench.clusters.lab.namespaces import links, sysctls
from cnibench.clusters.lab.namespaces.netns import Namespace
from cnibench.clusters.lab.namespaces.places import LabNode, LabPod
from cnibench.clusters.lab.rules import swarm
from cnibench.clusters.lab.rules.services import CLUSTER_CIDRS
from cnibench.model.cell import Attestation
from cnibench.model.profile import Strict

_BRIDGE, _VXLAN = "br0", "vxlan1"
_VNI, _PORT = 4097, 4789
_GATEWAY = "10.244.255.254"  # of no node's subnet
_DENIED_PORT = 9  # discard
_DENIAL = 0.25  # s
_PROBE = 64 * 1024  # bytes
_OPEN = (
    "80",
    "443",
    "5201:5299",
    "8080",
    "10000:65000",
)  # HTTP, iperf3, and the ports that programs get from the kernel


class SwarmOptions(Strict):
    """``filter``: rules in the network's namespace; ``ports``: those that they open."""

    filter: bool = False
    ports: tuple[str, ...] = _OPEN

    @field_validator("ports")
    @classmethod
    def _make_a_filter(cls, ports: tuple[str, ...]) -> tuple[str, ...]:
        swarm.text(ports)
        return ports


class Swarm(Datapath):
    """One overlay network over both nodes."""

    name = "swarm"
    Options = SwarmOptions
    needs = ("bridge", "vxlan", "br_netfilter", "iptables")

    def __init__(self, deployment: LabDeployment, options: Any) -> None:
        super().__init__(deployment, options)
        self.networks: dict[str, Namespace] = {}  # by the node's name

    def namespaces(self) -> Mapping[str, Namespace]:
        return {f"network of {name}": ns for name, ns in self.networks.items()}

    def build(self) -> None:
        for node in self.deployment.nodes():
            network = self.networks[node.name] = Namespace(
                f"s{self.deployment.number}-{node.name}-net"
            )
            network.sysctl(sysctls.node())
            links.add(
                network,
                _BRIDGE,
                "bridge",
                address=links.mac(3, node.number),
                mtu=self.deployment.mtu,
            )
            links.address(network, _BRIDGE, f"{_GATEWAY}/{_length()}")
            links.add(
                node.ns,
                _VXLAN,
                "vxlan",
                up=False,
                vxlan_id=_VNI,
                vxlan_port=_PORT,
                vxlan_learning=1,
                vxlan_proxy=1,
                vxlan_l2miss=1,
                vxlan_l3miss=1,
                address=links.mac(4, node.number),
                mtu=self.deployment.mtu,
            )
            node.ns.ipr.link("set", index=links.index(node.ns, _VXLAN), net_ns_fd=network.fd)
            del node.ns.links[_VXLAN]
            links.set_link(network, _VXLAN, master=links.index(network, _BRIDGE), state="up")
            if self.options.filter:
                network.run(["iptables-restore"], input=swarm.text(self.options.ports))

    def connect(self, pod: LabPod) -> Iterator[str]:
        network, address = self.networks[pod.node.name], pod.addresses[4]
        node_end = f"veth{pod.number}"
        links.veth(
            network,
            node_end,
            pod.ns,
            pod.interface,
            mtu=self.deployment.mtu,
            mac=links.mac(1, pod.node.number, pod.number),
            peer_mac=_mac(address),
        )
        links.set_link(network, node_end, master=links.index(network, _BRIDGE))
        yield "link"
        links.address(pod.ns, pod.interface, f"{address}/{_length()}")
        yield "address"
        there = next(node for node in self.deployment.nodes() if node is not pod.node)
        self._peer(there, pod)
        yield "routes"

    def _peer(self, node: LabNode, pod: LabPod) -> None:
        """What a node knows of a container on another one."""
        network, mac = self.networks[node.name], _mac(pod.addresses[4])
        links.neighbour(network, _VXLAN, pod.addresses[4], mac)
        links.fdb(network, _VXLAN, mac, pod.node.addresses[4])

    def disconnect(self, pod: LabPod) -> None:
        there = next(node for node in self.deployment.nodes() if node is not pod.node)
        network, mac = self.networks[there.name], _mac(pod.addresses[4])
        device = links.index(network, _VXLAN)
        network.ipr.neigh("del", ifindex=device, dst=pod.addresses[4])
        network.ipr.fdb("del", ifindex=device, lladdr=mac, dst=pod.node.addresses[4])
        # at once: what goes with a namespace goes some time later
        links.delete(self.networks[pod.node.name], f"veth{pod.number}")

    def remove(self) -> None:
        while self.networks:
            self.networks.popitem()[1].remove()

    def checks(self) -> Sequence[Attestation]:
        found = [self._tunnelled()]
        if self.options.filter:
            found += self._filtered()
        return found

    def _tunnelled(self) -> Attestation:
        """The VXLAN device is in the network's namespace and counts the probe; the node itself has
        neither device nor bridge.
        """
        client, server = self.deployment.pair("inter")
        ends = [self.networks[node.name] for node in self.deployment.nodes()]
        before = [links.statistics(ns, _VXLAN) for ns in ends]
        failure = probe.stream(client.ns, server.ns, server.addresses[4], 4, _PROBE)
        after = [links.statistics(ns, _VXLAN) for ns in ends]
        sent, got = (
            after[0]["tx_bytes"] - before[0]["tx_bytes"],
            after[1]["rx_bytes"] - before[1]["rx_bytes"],
        )
        on_node = [
            name
            for name in (_VXLAN, _BRIDGE)
            if f"{name}:" in self.deployment.a.read_text("/proc/net/dev")
        ]
        return self.deployment.attestation(
            "network-namespace",
            f"{_VXLAN} in the network's own namespace counts at least {_PROBE} B",
            failure
            or f"{sent} B out of a's, {got} B into b's"
            + "".join(f"; {name} is on the node" for name in on_node),
            not failure and min(sent, got) >= _PROBE and not on_node,
        )

    def _filtered(self) -> Iterator[Attestation]:
        """A port that the rules do not open is closed while others are open; the rules that see it
        are those of the namespace.
        """
        client, server = self.deployment.pair("inter")
        network = self.networks["a"]
        before = _passed(network)
        failure = probe.stream(client.ns, server.ns, server.addresses[4], 4, _PROBE)
        counted = _passed(network) - before
        observed = failure or f"{counted} packets at FORWARD of the namespace"
        # the connection's opening and its data are four packets at least, whatever their size
        yield self.deployment.attestation(
            "filter-in-namespace",
            "its rules count the probe's packets",
            observed,
            not failure and counted >= 4,
        )
        with probe.attempt(client.ns, server.ns, server.addresses[4], 4, _DENIED_PORT) as (
            _,
            listener,
        ):
            through = probe.reached(listener, _DENIAL)
        expected = f"TCP port {_DENIED_PORT}, which the filter does not open, is closed"
        yield self.deployment.attestation(
            "denied-port", expected, "open" if through else "closed", not through
        )


def _length() -> str:
    return CLUSTER_CIDRS[4].partition("/")[2]


def _mac(address: str) -> str:
    """Docker's MAC for an IPv4 address (netutils.GenerateMACFromIP)."""
    return "02:42:" + ipaddress.IPv4Address(address).packed.hex(":")


def _passed(network: Namespace) -> int:
    """Packets that the rules of FORWARD have let through so far."""
    text = network.run(["iptables-save", "-c", "-t", "filter"]).stdout
    return sum(
        int(line[1:].partition(":")[0]) for line in text.splitlines() if "] -A FORWARD " in line
    )


PROVIDER = Swarm
