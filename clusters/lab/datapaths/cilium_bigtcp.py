"""``cilium-bigtcp``: Cilium in kube-proxy's place with super-packets of up to 192 KiB.

Follows cilium/cilium v1.20.2 pkg/datapath/linux/bigtcp/bigtcp.go (the node's devices; at most what
all of them can segment) and pkg/datapath/connector/config.go (both ends of the Pods' veth pairs). A
veth pair passes up to 512 KiB, so the size here is the one that Cilium asks for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from cnibench.clusters.lab.attestation import capture, probe
from cnibench.clusters.lab.datapaths.ebpf import Ebpf
from cnibench.clusters.lab.namespaces import links, netlink
from cnibench.clusters.lab.namespaces.netns import Namespace
from cnibench.clusters.lab.namespaces.places import LabPod
from cnibench.model.cell import Attestation

_SIZE, _USUAL = 196608, 65536  # bytes of a super-packet: bigTCPMaxSize, and what others have
# if_link.h: IFLA_GRO_MAX_SIZE and IFLA_GSO_MAX_SIZE are those of IPv6, the others of IPv4
_KINDS = {6: (58, 41), 4: (64, 63)}
_STREAM = 4 << 20  # bytes: a stream's first packets are short
_TRIES = 3


class CiliumBigTcp(Ebpf):
    """The same programs, and larger sizes of the devices that Pods' packets cross."""

    name = "cilium-bigtcp"
    needs: ClassVar[tuple[str, ...]] = (*Ebpf.needs, "big-tcp")

    def build(self) -> None:
        super().build()
        for node in self.deployment.nodes():
            self._enlarge(node.ns, node.wire)

    def _pair(self, pod: LabPod) -> tuple[int, str, str]:
        made = super()._pair(pod)
        self._enlarge(pod.node.ns, pod.host_end)
        self._enlarge(pod.ns, pod.interface)
        return made

    def _enlarge(self, ns: Namespace, device: str) -> None:
        """IPv6 first: smaller sizes of it would take IPv4's along."""
        kinds = [
            kind
            for family in (6, 4)
            if family in self.deployment.families
            for kind in _KINDS[family]
        ]
        body = b"".join(netlink.attribute(kind, _SIZE) for kind in kinds)
        head = netlink.link(links.index(ns, device))
        netlink.ask(ns, f"{device} set", netlink.NEWLINK, netlink.CHANGE, head + body)

    def checks(self) -> Sequence[Attestation]:
        return [*super().checks(), *map(self._longer, self.deployment.families)]

    def _longer(self, family: int) -> Attestation:
        """A stream leaves its Pod in longer packets than without BIG TCP."""
        client, server = self.deployment.pair("intra")
        place = capture.Place(client.ns, client.interface, client.name)
        most, failure = 0, ""
        for _ in range(_TRIES):
            with capture.watching(place) as seen:
                failure = probe.stream(
                    client.ns, server.ns, server.addresses[family], family, _STREAM
                )
            most = max([most, *(packet.length for packet in seen.packets)])
            if failure or most > _USUAL:
                break
        return self.deployment.attestation(
            "super-packets",
            f"longer than {_USUAL} bytes",
            failure or f"up to {most} bytes",
            not failure and most > _USUAL,
            family,
        )


PROVIDER = CiliumBigTcp
