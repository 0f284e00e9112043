"""``evpn``: bridges joined by VXLAN, with BGP EVPN (RFC 7432, RFC 8365) as the control plane, as in
makowski2018.

On each node FRR's bgpd and zebra, and a route server in a namespace of its own that both peer with.
A container's MAC and IP are put into the node's bridge and neighbour table; FRR finds them there
and announces a route type 2, and the other node's FRR makes the VXLAN device's forwarding entry and
the neighbour from it: this module writes none. Flooding goes where routes type 3 say. Each tenant
is a VNI with a bridge of its own, so that tenants may have overlapping addresses.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from pydantic import Field

from cnibench.clusters.lab.builders import pod_veth
from cnibench.clusters.lab.builders.batched import Batched
from cnibench.clusters.lab.daemons import frr
from cnibench.clusters.lab.daemons.processes import Daemons
from cnibench.clusters.lab.deployment import LabDeployment
from cnibench.clusters.lab.namespaces import links, sysctls
from cnibench.clusters.lab.namespaces.netns import Namespace
from cnibench.clusters.lab.namespaces.places import LabNode, LabPod
from cnibench.clusters.lab.rules.services import CLUSTER_CIDRS
from cnibench.model.cell import Attestation
from cnibench.model.profile import Strict

_FIRST_VNI, _PORT = 10100, 4789
_NTF_MASTER, _STATIC = 0x04, 0x40  # NUD_NOARP: an entry of the bridge that does not age


class EvpnOptions(Strict):
    """``tenants``: how many segments there are; Pods are in the first. ``converge``: seconds that
    BGP is given for a session or a route.
    """

    tenants: int = Field(default=1, ge=1, le=16)
    converge: float = Field(default=30.0, gt=0, le=600)


class Evpn(Batched):
    """Bridges, VXLAN devices and FRR."""

    name = "evpn"
    Options = EvpnOptions
    needs = ("bridge", "vxlan")
    programs = frr.PROGRAMS

    def __init__(self, deployment: LabDeployment, options: Any) -> None:
        super().__init__(deployment, options)
        self.daemons = Daemons(deployment.number)
        self.routers: dict[str, frr.Router] = {}  # by the node's name; the route server is 'rs'
        self._server: Namespace | None = None
        self._awaited: list[tuple[LabPod, int]] = []

    @property
    def tunnel(self) -> str:
        return _device(0)

    def build(self) -> None:
        vnis = [_FIRST_VNI + tenant for tenant in range(self.options.tenants)]
        server = self._server = Namespace(f"s{self.deployment.number}-rs")
        server.sysctl(sysctls.node())
        for node in self.deployment.nodes():
            for tenant in range(self.options.tenants):
                self._segment(node, tenant)
            here, there = _session(node)
            links.veth(
                node.ns,
                "rs",
                server,
                f"to-{node.name}",
                mac=links.mac(8, node.number),
                peer_mac=links.mac(8, 2, node.number),
            )
            links.address(node.ns, "rs", f"{here}/30")
            links.address(server, f"to-{node.name}", f"{there}/30")
            # bgpd passes on only routes whose next hop it can reach
            links.route(server, f"{node.addresses[4]}/32", via=here, dev=f"to-{node.name}")
        peers = {_session(node)[0]: frr.node_as(node.number) for node in self.deployment.nodes()}
        self.routers["rs"] = frr.Router(
            self.daemons, "rs", server, frr.server_config("192.168.101.254", peers)
        )
        for node in self.deployment.nodes():
            config = frr.node_config(node.number, node.addresses[4], _session(node)[1], vnis)
            self.routers[node.name] = frr.Router(self.daemons, node.name, node.ns, config)
        remedy = "see what bgpd says above; --set converge=SECONDS gives it more time"
        self.daemons.wait(
            "BGP sessions with the route server", self._established, self.options.converge, remedy
        )

    def _established(self) -> bool:
        sessions = self.routers["rs"].established()
        return len(sessions) == 2 and all(sessions.values())

    def _segment(self, node: LabNode, tenant: int) -> None:
        bridge, device = _bridge(tenant), _device(tenant)
        links.add(
            node.ns,
            bridge,
            "bridge",
            address=links.mac(3, tenant, node.number),
            mtu=self.deployment.mtu,
        )
        links.add(
            node.ns,
            device,
            "vxlan",
            vxlan_id=_FIRST_VNI + tenant,
            vxlan_local=node.addresses[4],
            vxlan_port=_PORT,
            vxlan_learning=0,
            address=links.mac(4, tenant, node.number),
            mtu=self.deployment.mtu,
        )
        links.set_link(node.ns, device, master=links.index(node.ns, bridge))
        node.ns.run(
            ["bridge", "link", "set", "dev", device, "neigh_suppress", "on", "learning", "off"]
        )

    def connect(self, pod: LabPod) -> Iterator[str]:
        yield from self.attach(pod, 0)

    def attach(self, pod: LabPod, tenant: int) -> Iterator[str]:
        """A Pod into a tenant's segment; its address may be another tenant's as well."""
        node, bridge = pod.node, _bridge(tenant)
        pod.host_end = f"t{tenant}-{pod.number}"
        _, own, _ = pod_veth.make(pod, self.deployment.mtu, tenant)
        links.set_link(node.ns, pod.host_end, master=links.index(node.ns, bridge))
        yield "link"
        for family, address in pod.addresses.items():
            links.address(
                pod.ns, pod.interface, f"{address}/{CLUSTER_CIDRS[family].partition('/')[2]}"
            )
        yield "address"
        # in place of one that the bridge has learnt by itself, from a packet of the Pod's first
        # moments
        node.ns.ipr.fdb(
            "replace",
            ifindex=links.index(node.ns, pod.host_end),
            lladdr=own,
            state=_STATIC,
            flags=_NTF_MASTER,
        )
        for address in pod.addresses.values():
            links.neighbour(node.ns, bridge, address, own)
        self._awaited.append((pod, tenant))
        self.settle()
        yield "routes"

    def _settle(self) -> None:
        """Until each new Pod is known on the other node, by BGP."""
        awaited, self._awaited = self._awaited, []
        groups: dict[tuple[LabNode, int], list[LabPod]] = {}
        for pod, tenant in awaited:
            there = next(node for node in self.deployment.nodes() if node is not pod.node)
            groups.setdefault((there, tenant), []).append(pod)
        for (there, tenant), pods in groups.items():
            what = f"routes type 2 of {len(pods)} Pods to node {there.name}"
            self.daemons.wait(what, partial(_known, there, tenant, pods), self.options.converge)

    def disconnect(self, pod: LabPod) -> None:
        tenant = int(pod.host_end[1:].partition("-")[0])
        for address in pod.addresses.values():
            pod.node.ns.ipr.neigh(
                "del", ifindex=links.index(pod.node.ns, _bridge(tenant)), dst=address
            )

    def alive(self) -> str:
        return self.daemons.alive()

    def remove(self) -> None:
        self.daemons.stop()
        if self._server:
            self._server.remove()
            self._server = None

    def checks(self) -> Sequence[Attestation]:
        """The receiving side's forwarding entry is FRR's (externally learnt), and the route that it
        was made from is shown.
        """
        a, _ = self.deployment.nodes()
        _, server = self.deployment.pair("inter")
        mac = links.mac(2, server.node.number, server.number, 0)
        entry = learnt(a, 0).get(mac, "")
        end = server.node.addresses[4]
        expected = f"a's {_device(0)} sends {mac} to {end}, externally learnt"
        found = [
            self.deployment.attestation(
                "fdb-from-bgp", expected, f"to {entry}" if entry else "no such entry", entry == end
            )
        ]
        routes = [item for item in self.routers["a"].routes("macip") if mac in item["route"]]
        for family in self.deployment.families:
            own = [item for item in routes if f"[{server.addresses[family]}]" in item["route"]]
            words = (
                "; ".join(
                    f"RD {item['rd']} {item['route']} next hop {item['next_hop']}" for item in own
                )
                or "no such route"
            )
            passed = any(item["next_hop"] == end and item["valid"] for item in own)
            text = f"route type 2 for {mac} and {server.addresses[family]}, next hop {end}"
            found.append(
                self.deployment.attestation("evpn-route-type-2", text, words, passed, family)
            )
        return found


def learnt(node: LabNode, tenant: int) -> dict[str, str]:
    """MAC to tunnel end, of the entries of the VXLAN device that a routing daemon made
    (NTF_EXT_LEARNED).
    """
    said = node.ns.run(["bridge", "-j", "fdb", "show", "dev", _device(tenant)]).stdout
    return {
        item["mac"]: item["dst"]
        for item in json.loads(said)
        if "dst" in item and "extern_learn" in item.get("flags", ())
    }


def _known(node: LabNode, tenant: int, pods: Sequence[LabPod]) -> bool:
    """Has the node MACs and addresses of all these Pods from BGP?"""
    if (
        not {links.mac(2, pod.node.number, pod.number, tenant) for pod in pods}
        <= learnt(node, tenant).keys()
    ):
        return False
    said = node.ns.run(["ip", "-j", "neigh", "show", "dev", _bridge(tenant)]).stdout
    found = {item["dst"] for item in json.loads(said) if "extern_learn" in item}
    return {address for pod in pods for address in pod.addresses.values()} <= found


def _bridge(tenant: int) -> str:
    return f"br{_FIRST_VNI + tenant}"


def _device(tenant: int) -> str:
    return f"vxlan{_FIRST_VNI + tenant}"


def _session(node: LabNode) -> tuple[str, str]:
    """The addresses of a node's link with the route server: the node's, the server's."""
    return f"192.168.101.{4 * node.number + 2}", f"192.168.101.{4 * node.number + 1}"


PROVIDER = Evpn
