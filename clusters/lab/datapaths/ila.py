"""``ila-ebpf``: identifier-locator addressing: no encapsulation, half of each IPv6 destination address is rewritten on the way.

A container's address is the SIR prefix, which all of them share, and a 64-bit identifier of its own; between hosts the host's locator
stands in place of the SIR prefix (draft-herbert-intarea-ila; makowski2018, section on ILA). Two programs at tc of the wire's device
(bpf/ila.c) do it, in the checksum mode that the study used, adj-transport, as its authors showed later for eBPF. There is no control
plane: the mappings are written here. Sources keep their SIR address.

All containers share one space of identifiers: a second one with an address that is mapped already is refused.
"""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterator, Sequence

from cnibench.cell import Attestation
from cnibench.clusters.lab import ebpf_tc, links, probe, tap
from cnibench.clusters.lab.datapaths.veth import Veth
from cnibench.clusters.lab.ebpf_object import Loaded, read_object
from cnibench.clusters.lab.places import LabNode, LabPod
from cnibench.errors import ClusterError

SIR = "fd00:10:244:ffff"
_SIR_PREFIX = f"{SIR}::/64"
_LUID = 0x2000  # the identifier's upper 16 bits: type 1, a locally unique one, not checksum-neutral
_PROBE = 64 * 1024  # bytes
_COUNT_OUT, _COUNT_IN = 0, 1


def sir_address(pod: LabPod) -> str:
    """The address that a container has and that others know."""
    return str(ipaddress.IPv6Address(f"{SIR}:{_LUID:x}:0:{pod.node.number}:{pod.number + 2:x}"))


def locator_address(pod: LabPod, node: LabNode) -> str:
    """What stands for a container on ``node`` between hosts: the locator is the node's own /64."""
    locator = ipaddress.IPv6Network(node.subnets[6]).network_address.packed[:8]
    return str(ipaddress.IPv6Address(locator + ipaddress.IPv6Address(sir_address(pod)).packed[8:]))


class IlaEbpf(Veth):
    """Routed veth pairs, and two programs on each node's wire."""

    name = "ila-ebpf"
    needs = ("tc-bpf",)

    def build(self) -> None:
        if self.stand.families != (6,):
            raise ClusterError(f"{self.profile.name} is for IPv6 alone", "use --ip 6")
        a, b = self.stand.nodes()
        self._loaded: dict[str, Loaded] = {}
        for here, there in ((a, b), (b, a)):
            for prefix in (there.subnets[6], _SIR_PREFIX):
                links.route(here.ns, prefix, via=there.addresses[6], dev=here.wire)
            loaded = self._loaded[here.name] = Loaded(read_object("ila"), {})
            ebpf_tc.attach(here.ns, here.wire, "egress", "ila_out", loaded.programs["ila_out"])
            ebpf_tc.attach(here.ns, here.wire, "ingress", "ila_in", loaded.programs["ila_in"])

    def connect(self, pod: LabPod) -> Iterator[str]:
        pod.addresses = {6: sir_address(pod)}
        here = pod.node
        there = next(node for node in self.stand.nodes() if node is not here)
        if self.mapped(there, pod):
            raise ClusterError(
                f"{pod.addresses[6]} is mapped to the node {here.name} already: identifiers are of all tenants together",
                "give each container an address of its own, or use evpn-vxlan for tenants with overlapping addresses",
            )
        yield from super().connect(pod)
        self.map(here, there, pod)
        yield "mapping"

    def on_wire(self, pod: LabPod, family: int) -> str:
        # Connections are begun on the first node: there the source is as it is, the destination carries its node's locator.
        return pod.addresses[6] if pod.node is self.stand.a else locator_address(pod, pod.node)

    def _located(self) -> Attestation:
        """Between nodes the destination carries the locator, in every packet."""
        client, server = self.stand.pair("inter")
        with tap.watching(self.stand.a) as seen:
            failure = probe.stream(client.ns, server.ns, server.addresses[6], 6, _PROBE)
        targets = sorted({packet.target for packet in seen.packets if packet.source == client.addresses[6]})
        expected = locator_address(server, server.node)
        observed = failure or ", ".join(targets) or "nothing"
        words = f"for {server.addresses[6]} the wire carries {expected} alone"
        return self.stand.attestation("locator-on-wire", words, observed, not failure and targets == [expected], 6)

    def mapped(self, there: LabNode, pod: LabPod) -> bool:
        return self._loaded[there.name].maps["ila_to_locator"].lookup(_packed(sir_address(pod))) is not None

    def map(self, here: LabNode, there: LabNode, pod: LabPod) -> None:
        sir, located = _packed(sir_address(pod)), _packed(locator_address(pod, here))
        self._loaded[there.name].maps["ila_to_locator"].update(sir, located[:8])
        self._loaded[here.name].maps["ila_to_sir"].update(located, sir[:8])

    def disconnect(self, pod: LabPod) -> None:
        here = pod.node
        there = next(node for node in self.stand.nodes() if node is not here)
        self._loaded[there.name].maps["ila_to_locator"].delete(_packed(sir_address(pod)))
        self._loaded[here.name].maps["ila_to_sir"].delete(_packed(locator_address(pod, here)))

    def remove(self) -> None:
        for loaded in getattr(self, "_loaded", {}).values():
            loaded.close()

    def translated(self, node: LabNode) -> tuple[int, int]:
        """Packets (a super-packet is one) that the node's programs have rewritten: out, in."""
        counts = self._loaded[node.name].maps["ila_counts"]
        out, back = (sum(struct.unpack("=Q", value)[0] for value in counts.per_cpu(struct.pack("=I", n))) for n in (_COUNT_OUT, _COUNT_IN))
        return out, back

    def checks(self) -> Sequence[Attestation]:
        before = [self.translated(node) for node in self.stand.nodes()]
        found = [self._located()]
        after = [self.translated(node) for node in self.stand.nodes()]
        out, back = after[0][0] - before[0][0], after[1][1] - before[1][1]
        observed = f"{out} out of a, {back} into b"
        found.append(
            self.stand.attestation("ebpf-translates", "the programs rewrite the probe's packets", observed, min(out, back) >= 4, 6)
        )
        return found


def _packed(address: str) -> bytes:
    return ipaddress.IPv6Address(address).packed


PROVIDER = IlaEbpf
