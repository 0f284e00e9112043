"""``weave``, ``weave-sleeve``, ``weave-encrypted``: one Ethernet over all nodes, a bridge on each
and Weave's router between them.

Follows weaveworks/weave v2.8.1. net/bridge.go: the bridge ``weave``, on a fast datapath joined by a
veth pair with the Open vSwitch datapath ``datapath``, else by a veth pair to the device that the
router captures from. net/veth.go: checksum offload off on containers' devices. router/fastdp.go: a
VXLAN port (6784) on the datapath and, once a MAC's peer is known, a flow for it each way, the
tunnel key made of the peers' numbers; the kernel alone forwards then. router/sleeve.go: every frame
through a program (programs/weave_sleeve.c). Encrypted fast datapath: net/ipsec: ESP in transport
mode (AES-GCM) for the VXLAN packets between two peers. Containers' gateway is the bridge's own
address. The policy controller is not there (EXPECT_NPC=0).
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from cnibench.clusters.lab.attestation import probe
from cnibench.clusters.lab.builders.filtered import CLUSTER_CIDRS, Filtered
from cnibench.clusters.lab.daemons.processes import Daemons, program
from cnibench.clusters.lab.deployment import LabDeployment
from cnibench.clusters.lab.namespaces import features, links
from cnibench.clusters.lab.namespaces.places import LabNode, LabPod
from cnibench.clusters.lab.rules import weave
from cnibench.clusters.lab.rules.ruleset import Part
from cnibench.model.cell import Attestation

_BRIDGE = "weave"
_START = 5.0  # s
_DATAPATH, _VXLAN, _PORT = "datapath", "vxlan-6784", 6784
_LOCAL, _REMOTE = 1, 2  # numbers of the datapath's ports
_PROBE = 64 * 1024  # bytes
_AES_GCM_KEY = 32 + 4  # bytes: key and salt (RFC 4106)
_FIRST_SPI = 0x1000


class _Weave(Filtered):
    """The bridge and the Pods on it; subclasses make the router."""

    far_end: ClassVar[str]  # the other end of the veth pair at the bridge

    def build(self) -> None:
        for node in self.deployment.nodes():
            links.add(
                node.ns,
                _BRIDGE,
                "bridge",
                address=links.mac(3, node.number),
                mtu=self.deployment.mtu,
            )
            links.address(node.ns, _BRIDGE, f"{node.gateways[4]}/{_length()}")
            links.veth(
                node.ns,
                "vethwe-bridge",
                node.ns,
                self.far_end,
                mtu=self.deployment.mtu,
                mac=links.mac(6, node.number),
                peer_mac=links.mac(7, node.number),
            )
            links.set_link(node.ns, "vethwe-bridge", master=links.index(node.ns, _BRIDGE))
            self.router(node, self.deployment.b if node is self.deployment.a else self.deployment.a)
            self.changed(node)

    def router(self, here: LabNode, there: LabNode) -> None:
        """Joins ``far_end`` with the other node."""
        raise NotImplementedError

    def connect(self, pod: LabPod) -> Iterator[str]:
        node, own = pod.node, links.mac(2, pod.node.number, pod.number)
        pod.host_end = f"vethwepl{pod.number}"
        links.veth(
            node.ns,
            pod.host_end,
            pod.ns,
            pod.interface,
            mtu=self.deployment.mtu,
            mac=links.mac(1, node.number, pod.number),
            peer_mac=own,
        )
        links.set_link(node.ns, pod.host_end, master=links.index(node.ns, _BRIDGE))
        features.write(pod.ns, pod.interface, features.NO_CHECKSUM_OFFLOAD)
        yield "link"
        links.address(pod.ns, pod.interface, f"{pod.addresses[4]}/{_length()}")
        yield "address"
        links.route(pod.ns, "default", via=node.gateways[4], dev=pod.interface)
        self.known(pod)
        yield "routes"

    def known(self, pod: LabPod) -> None:
        """The router learns of a MAC: by itself in user space, by flows in the fast datapath."""

    def parts(self, node: LabNode, family: int) -> Sequence[Part]:
        return (self.kube_proxy(family), weave.rules(family, _BRIDGE, CLUSTER_CIDRS[family]))


class WeaveSleeve(_Weave):
    """The router forwards in user space."""

    name = "weave-sleeve"
    far_end = "vethwe-pcap"
    needs = ("bridge", "br_netfilter", "iptables")

    def __init__(self, deployment: LabDeployment, options: Any) -> None:
        super().__init__(deployment, options)
        self.daemons = Daemons(deployment.number)

    def router(self, here: LabNode, there: LabNode) -> None:
        names = {node.name: links.mac(3, node.number) for node in (here, there)}
        argv = [
            self.far_end,
            here.addresses[4],
            names[here.name],
            there.addresses[4],
            names[there.name],
        ]
        name = f"weave-sleeve-{here.name}"
        self.daemons.start(name, here.ns, [program("weave_sleeve"), *argv])
        self.daemons.wait(
            f"{name} captures", lambda: "ready" in self.daemons.last_words(name), _START
        )

    def alive(self) -> str:
        return self.daemons.alive()

    def remove(self) -> None:
        self.daemons.stop()


class Weave(_Weave):
    """The fast datapath: the kernel's Open vSwitch forwards by flows, into VXLAN."""

    name = "weave"
    far_end = "vethwe-datapath"
    needs: ClassVar[tuple[str, ...]] = (
        "bridge",
        "br_netfilter",
        "iptables",
        "openvswitch",
        "vxlan",
    )
    programs: ClassVar[Mapping[str, str]] = {"ovs-dpctl": "openvswitch-switch"}
    super_packets = False

    @property
    def tunnel(self) -> str:
        return _VXLAN

    def router(self, here: LabNode, there: LabNode) -> None:
        # The device with the key of each packet beside it (external) is what the kernel itself
        # makes of a VXLAN port (vport-vxlan.c).
        links.add(
            here.ns,
            _VXLAN,
            "vxlan",
            vxlan_collect_metadata=True,
            vxlan_port=_PORT,
            vxlan_learning=0,
            mtu=self.deployment.wire_mtu,
        )
        self._dpctl(here, "add-dp", _DATAPATH)
        self._dpctl(
            here,
            "add-if",
            _DATAPATH,
            f"{self.far_end},port_no={_LOCAL}",
            f"{_VXLAN},port_no={_REMOTE}",
        )
        everyone = "ff:ff:ff:ff:ff:ff"
        self._flow(here, f"in_port({_LOCAL}),{_to(everyone)}", self._tunnelled(here, there))
        key = f"tunnel(tun_id={_peers(there, here):#x},src={there.addresses[4]},dst={here.addresses[4]},ttl=0/0,flags(+key))"  # noqa: E501
        self._flow(here, f"{key},in_port({_REMOTE}),{_to(everyone)}", str(_LOCAL))

    def known(self, pod: LabPod) -> None:
        own, here = links.mac(2, pod.node.number, pod.number), pod.node
        there = next(node for node in self.deployment.nodes() if node is not here)
        self._flow(there, f"in_port({_LOCAL}),{_to(own)}", self._tunnelled(there, here))
        key = f"tunnel(tun_id={_peers(there, here):#x},src={there.addresses[4]},dst={here.addresses[4]},ttl=0/0,flags(+key))"  # noqa: E501
        self._flow(here, f"{key},in_port({_REMOTE}),{_to(own)}", str(_LOCAL))

    def _tunnelled(self, here: LabNode, there: LabNode) -> str:
        tunnel = f"tun_id={_peers(here, there):#x},src={here.addresses[4]},dst={there.addresses[4]},ttl=64,flags(df|key)"  # noqa: E501
        return f"set(tunnel({tunnel})),{_REMOTE}"

    def _flow(self, node: LabNode, match: str, actions: str) -> None:
        self._dpctl(node, "add-flow", _DATAPATH, match, actions)

    def _dpctl(self, node: LabNode, *words: str) -> str:
        return node.ns.run(["ovs-dpctl", *words]).stdout

    def remove(self) -> None:
        for node in self.deployment.nodes():  # a datapath goes with its namespace as well
            node.ns.run(["ovs-dpctl", "del-dp", _DATAPATH], check=False)

    def checks(self) -> Sequence[Attestation]:
        """The flows themselves count the probe's packets."""
        client, server = self.deployment.pair("inter")
        before = self._flowed()
        failure = probe.stream(client.ns, server.ns, server.addresses[4], 4, _PROBE)
        counted = self._flowed() - before
        observed = failure or f"{counted} packets by a's flows"
        least = _PROBE // self.deployment.mtu
        return (
            self.deployment.attestation(
                "ovs-forwards",
                f"the flows count at least {least}",
                observed,
                not failure and counted >= least,
            ),
        )

    def _flowed(self) -> int:
        said = self._dpctl(self.deployment.a, "dump-flows", _DATAPATH)
        return sum(int(found) for found in re.findall(r"packets:(\d+)", said))


class WeaveEncrypted(Weave):
    """The fast datapath with a password: ESP for its VXLAN packets, with a key for each
    direction.
    """

    name = "weave-encrypted"
    needs = (*Weave.needs, "esp")

    def router(self, here: LabNode, there: LabNode) -> None:
        super().router(here, there)
        if here is self.deployment.a:
            self._secure((here, there), (there, here))

    def _secure(self, *directions: tuple[LabNode, LabNode]) -> None:
        for number, (source, target) in enumerate(directions):
            pair = ["src", source.addresses[4], "dst", target.addresses[4]]
            key = f"0x{secrets.token_hex(_AES_GCM_KEY)}"
            state = [
                *pair,
                "proto",
                "esp",
                "spi",
                str(_FIRST_SPI + number),
                "mode",
                "transport",
                "aead",
                "rfc4106(gcm(aes))",
                key,
                "128",
            ]
            template = ["tmpl", *pair, "proto", "esp", "mode", "transport"]
            for node, way in ((source, "out"), (target, "in")):
                node.ns.run(["ip", "xfrm", "state", "add", *state])
                node.ns.run(
                    [
                        "ip",
                        "xfrm",
                        "policy",
                        "add",
                        *pair,
                        "proto",
                        "udp",
                        "dport",
                        str(_PORT),
                        "dir",
                        way,
                        *template,
                    ]
                )


def _to(mac: str) -> str:
    return f"eth(src=00:00:00:00:00:00/00:00:00:00:00:00,dst={mac})"


def _peers(source: LabNode, target: LabNode) -> int:
    """The tunnel's key: both peers' numbers, 12 bits each (tunnelIDFor of router/fastdp.go)."""
    return (source.number + 1) << 12 | (target.number + 1)


def _length() -> str:
    return CLUSTER_CIDRS[4].partition("/")[2]


PROVIDER = (Weave, WeaveSleeve, WeaveEncrypted)
