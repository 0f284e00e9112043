"""``ila-ebpf``: identifier-locator addressing by eBPF, for kernels without ILA routes (ila.py): as
its authors showed it later.

Two programs at tc of the wire's device (bpf/ila.c) translate, in the checksum mode adj-transport.
There is no control plane: the mappings are written here.
"""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Sequence

from cnibench.clusters.lab.datapaths.ila.kernel import (
    SIR_PREFIX,
    Addressed,
    locator_address,
    sir_address,
)
from cnibench.clusters.lab.ebpf import tc as ebpf_tc
from cnibench.clusters.lab.ebpf.programs import Loaded, read_object
from cnibench.clusters.lab.namespaces import links
from cnibench.clusters.lab.namespaces.places import LabNode, LabPod
from cnibench.model.cell import Attestation

_COUNT_OUT, _COUNT_IN = 0, 1


class IlaEbpf(Addressed):
    """Two programs on each node's wire."""

    name = "ila-ebpf"
    needs = ("tc-bpf",)

    def build(self) -> None:
        super().build()
        self._loaded: dict[str, Loaded] = {}
        a, b = self.deployment.nodes()
        for here, there in ((a, b), (b, a)):
            links.route(here.ns, SIR_PREFIX, via=there.addresses[6], dev=here.wire)
            loaded = self._loaded[here.name] = Loaded(read_object("ila"), {})
            ebpf_tc.attach(here.ns, here.wire, "egress", "ila_out", loaded.programs["ila_out"])
            ebpf_tc.attach(here.ns, here.wire, "ingress", "ila_in", loaded.programs["ila_in"])

    def announce(self, there: LabNode, pod: LabPod) -> bool:
        known = self._loaded[there.name].maps["ila_to_locator"]
        sir = _packed(sir_address(pod))
        if known.lookup(sir) is not None:
            return False
        known.update(sir, _packed(locator_address(pod, pod.node))[:8])
        return True

    def deliver(self, pod: LabPod) -> None:
        located = _packed(locator_address(pod, pod.node))
        self._loaded[pod.node.name].maps["ila_to_sir"].update(
            located, _packed(sir_address(pod))[:8]
        )

    def withdraw(self, there: LabNode, pod: LabPod) -> None:
        self._loaded[there.name].maps["ila_to_locator"].delete(_packed(sir_address(pod)))
        self._loaded[pod.node.name].maps["ila_to_sir"].delete(
            _packed(locator_address(pod, pod.node))
        )

    def remove(self) -> None:
        for loaded in getattr(self, "_loaded", {}).values():
            loaded.close()

    def translated(self, node: LabNode) -> tuple[int, int]:
        """Packets (a super-packet is one) that the node's programs have rewritten: out, in."""
        counts = self._loaded[node.name].maps["ila_counts"]
        out, back = (
            sum(struct.unpack("=Q", value)[0] for value in counts.per_cpu(struct.pack("=I", n)))
            for n in (_COUNT_OUT, _COUNT_IN)
        )
        return out, back

    def checks(self) -> Sequence[Attestation]:
        before = [self.translated(node) for node in self.deployment.nodes()]
        found = list(super().checks())
        after = [self.translated(node) for node in self.deployment.nodes()]
        out, back = after[0][0] - before[0][0], after[1][1] - before[1][1]
        observed = f"{out} out of a, {back} into b"
        found.append(
            self.deployment.attestation(
                "ebpf-translates",
                "the programs rewrite the probe's packets",
                observed,
                min(out, back) >= 4,
                6,
            )
        )
        return found


def _packed(address: str) -> bytes:
    return ipaddress.IPv6Address(address).packed
