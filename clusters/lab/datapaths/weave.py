"""``weave``, ``weave-sleeve``, ``weave-encrypted``: one Ethernet over all nodes, a bridge on each
and Weave's router between them.

Follows weaveworks/weave v2.8.1. net/bridge.go: the bridge ``weave``, on a fast datapath joined by a
veth pair with the Open vSwitch datapath ``datapath``, else by a veth pair to the device that the
router captures from. net/veth.go: a Pod's port is in hairpin mode (plugin/net/cni.go); checksum
offload stays on in Pods of a fast datapath (bridgedFastdpImpl.IsFastdp is true) and is off without
one, there on the bridge as well (bridgeImpl.init). net/arp.go: neighbours age fast in Pods and on
the bridge. router/fastdp.go: a VXLAN port (6784) on the datapath and, once a MAC's peer is known, a
flow for it each way, the tunnel key made of the peers' numbers; the kernel alone forwards then.
router/sleeve.go: every frame through a program (programs/weave_sleeve.c). Encrypted fast datapath:
net/ipsec: ESP in transport mode (AES-GCM) for the VXLAN packets between two peers, selected by a
mark. Containers' gateway is the bridge's own address. The policy controller is not there
(EXPECT_NPC=0).
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from cnibench.clusters.lab.attestation import probe
from cnibench.clusters.lab.builders import pod_veth
from cnibench.clusters.lab.builders.bridged import allow_hairpin
from cnibench.clusters.lab.builders.filtered import Filtered
from cnibench.clusters.lab.daemons.processes import Daemons, program
from cnibench.clusters.lab.deployment import LabDeployment
from cnibench.clusters.lab.namespaces import features, links
from cnibench.clusters.lab.namespaces.places import LabNode, LabPod
from cnibench.clusters.lab.rules import weave
from cnibench.clusters.lab.rules.ruleset import IpSet, Part, save_text
from cnibench.clusters.lab.rules.services import CLUSTER_CIDRS
from cnibench.model.cell import Attestation

_BRIDGE = "weave"
_START = 5.0  # s
_DATAPATH, _VXLAN, _PORT = "datapath", "vxlan-6784", 6784
_LOCAL, _REMOTE = 1, 2  # numbers of the datapath's ports
_PROBE = 64 * 1024  # bytes
_AES_GCM_KEY = 32 + 4  # bytes: key and salt (RFC 4106)
_FIRST_SPI = 0x1000
_VXLAN_MTU = 65485  # bytes: what vport-vxlan.c asks for (IP_MAX_MTU) less the tunnel's headers
_REPLAY_WINDOW = 256  # packets
_MARK = ("mark", "0x20000", "mask", "0x20000")
_RESTORE_LIMIT = 20.0  # s


class _Weave(Filtered):
    """The bridge and the Pods on it; subclasses make the router."""

    far_end: ClassVar[str]  # the other end of the veth pair at the bridge
    beside_kube_proxy = True
    fast: ClassVar[bool]  # is there a fast datapath (Bridge.IsFastdp)?

    def build(self) -> None:
        for node in self.deployment.nodes():
            links.add(
                node.ns,
                _BRIDGE,
                "bridge",
                address=links.mac(3, node.number),
                mtu=self.deployment.mtu,
            )
            node.ns.sysctl(_neighbours(_BRIDGE))
            if not self.fast:
                features.write(node.ns, _BRIDGE, features.NO_CHECKSUM_OFFLOAD)
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
        node = pod.node
        pod.host_end = f"vethwepl{pod.number}"
        pod_veth.make(pod, self.deployment.mtu)
        links.set_link(node.ns, pod.host_end, master=links.index(node.ns, _BRIDGE))
        allow_hairpin(node, pod.host_end)
        if not self.fast:
            features.write(pod.ns, pod.interface, features.NO_CHECKSUM_OFFLOAD)
        pod.ns.sysctl(_neighbours(pod.interface))
        own_rules = save_text((weave.pod(pod.interface, CLUSTER_CIDRS[4]),))
        restore = [f"iptables-{self.options.iptables}-restore"]
        pod.ns.run(restore, input=own_rules, timeout=_RESTORE_LIMIT)
        yield "link"
        links.address(pod.ns, pod.interface, f"{pod.addresses[4]}/{_length()}")
        yield "address"
        links.route(pod.ns, "default", via=node.gateways[4], dev=pod.interface)
        self.known(pod)
        yield "routes"

    def known(self, pod: LabPod) -> None:
        """The router learns of a MAC: by itself in user space, by flows in the fast datapath."""

    def parts(self, node: LabNode, family: int) -> Sequence[Part]:
        return (self.kube_proxy(node, family), weave.rules(family, _BRIDGE, CLUSTER_CIDRS[family]))

    def sets(self, node: LabNode, family: int) -> Sequence[IpSet]:
        return (weave.local_set(family, [node.subnets[family]]),)


class WeaveSleeve(_Weave):
    """The router forwards in user space."""

    name = "weave-sleeve"
    far_end = "vethwe-pcap"
    fast = False
    super_packets = False
    needs = ("bridge", "br_netfilter", "iptables", "ipset")

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
    fast = True
    needs: ClassVar[tuple[str, ...]] = (
        "bridge",
        "br_netfilter",
        "iptables",
        "ipset",
        "openvswitch",
        "vxlan",
    )
    programs: ClassVar[Mapping[str, str]] = {"ovs-dpctl": "openvswitch-switch"}

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
            mtu=_VXLAN_MTU,
        )
        self._dpctl(here, "add-dp", _DATAPATH)
        links.set_link(here.ns, _DATAPATH, mtu=self.deployment.mtu, state="up")
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
        """The flows themselves count the probe's bytes; its packets may be super-packets."""
        client, server = self.deployment.pair("inter")
        before = self._flowed()
        failure = probe.stream(client.ns, server.ns, server.addresses[4], 4, _PROBE)
        counted = self._flowed() - before
        observed = failure or f"{counted} B through a's flows"
        return (
            self.deployment.attestation(
                "ovs-forwards",
                f"the flows count at least {_PROBE} B",
                observed,
                not failure and counted >= _PROBE,
            ),
        )

    def _flowed(self) -> int:
        said = self._dpctl(self.deployment.a, "dump-flows", _DATAPATH)
        return sum(int(found) for found in re.findall(r"bytes:(\d+)", said))


class WeaveEncrypted(Weave):
    """The fast datapath with a password: ESP for its VXLAN packets, with a key for each
    direction.
    """

    name = "weave-encrypted"
    needs = (*Weave.needs, "esp", "iptables-ipsec")

    def router(self, here: LabNode, there: LabNode) -> None:
        super().router(here, there)
        if here is self.deployment.a:
            self._secure((here, there), (there, here))

    def parts(self, node: LabNode, family: int) -> Sequence[Part]:
        peer = self.deployment.b if node is self.deployment.a else self.deployment.a
        own = weave.encryption(
            node.addresses[4], peer.addresses[4], _PORT, _FIRST_SPI + peer.number
        )
        return (*super().parts(node, family), own)

    def _secure(self, *directions: tuple[LabNode, LabNode]) -> None:
        for source, target in directions:
            pair = ["src", source.addresses[4], "dst", target.addresses[4]]
            key = f"0x{secrets.token_hex(_AES_GCM_KEY)}"
            spi = ["spi", str(_FIRST_SPI + source.number)]
            state = [*pair, "proto", "esp", *spi, "mode", "transport"]
            state += ["replay-window", str(_REPLAY_WINDOW), "flag", "esn"]
            state += ["aead", "rfc4106(gcm(aes))", key, "128"]
            for node in (source, target):
                node.ns.run(["ip", "xfrm", "state", "add", *state])
            template = ["tmpl", *pair, "proto", "esp", *spi, "mode", "transport"]
            policy = [*pair, "proto", "udp", "dir", "out", *_MARK, *template]
            source.ns.run(["ip", "xfrm", "policy", "add", *policy])


def _neighbours(device: str) -> dict[str, object]:
    """How fast neighbours of a device age (configureARPCache of net/arp.go)."""
    own = f"net/ipv4/neigh/{device}"
    return {
        f"{own}/base_reachable_time": 5,  # s
        f"{own}/delay_first_probe_time": 2,  # s
        f"{own}/ucast_solicit": 1,
    }


def _to(mac: str) -> str:
    return f"eth(src=00:00:00:00:00:00/00:00:00:00:00:00,dst={mac})"


def _peers(source: LabNode, target: LabNode) -> int:
    """The tunnel's key: both peers' numbers, 12 bits each (tunnelIDFor of router/fastdp.go)."""
    return (target.number + 1) << 12 | (source.number + 1)


def _length() -> str:
    return CLUSTER_CIDRS[4].partition("/")[2]


PROVIDER = (Weave, WeaveSleeve, WeaveEncrypted)
