"""A profile on a cluster that somebody else made, found there or installed by this run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cnibench.clusters.kubernetes.cni.attest import makes_claims
from cnibench.clusters.kubernetes.deployment import KubernetesDeployment
from cnibench.clusters.kubernetes.nodes.places import KubernetesNode
from cnibench.clusters.kubernetes.ownership.namespace import Claim
from cnibench.clusters.kubernetes.pods.controlled import PodsControlledOnNodes
from cnibench.errors import ClusterError, CnibenchError
from cnibench.model.cell import Attestation
from cnibench.model.profile import CURRENT
from cnibench.testbed.cluster import Options


class ExistingDeployment(KubernetesDeployment, PodsControlledOnNodes):
    """``said`` is what was seen of a CNI that was there already, '' for one that was installed."""

    said = ""
    uninstall: Any = None
    claim: Claim

    def attest(self) -> list[Attestation]:
        """The nodes' MTU first: it is whose cluster it is who has set it, and samples would claim
        another.
        """
        mtu = wire_mtu(self.options.mtu, {node.name: _mtu(node) for node in self.nodes()})
        wire = [self.attestation("wire-mtu", *mtu)] if mtu else []
        if not all(one.passed for one in wire):
            return wire
        unknown = self.profile.name == CURRENT.name
        expected = "nothing" if unknown else self.profile.name
        seen = (
            [self.attestation("recognised", expected, self.said or "an unknown CNI", True)]
            if unknown or self.said
            else []
        )
        if makes_claims(self.profile):
            checks = super().attest()
        elif all(node.host for node in self.nodes()):
            checks = self.with_kernel_state(self.reached)
        else:
            checks = self.reached()
        return [*wire, *seen, *checks]

    def remove(self) -> None:
        """One that was only looked at stays for the next block; it goes with the namespace."""
        if self.uninstall is None:
            return
        uninstall, self.uninstall = self.uninstall, None
        if lost := self.claim.lease.check():
            self.disconnect()
            raise ClusterError(
                f"{lost}: the CNI is not removed by this run",
                "cnibench clean --cluster existing --dry-run says what is left",
            )
        try:
            super().remove()
        finally:
            uninstall()


def wire_mtu(asked: int, found: Mapping[str, int]) -> tuple[str, str, bool] | None:
    """(expected, observed, passed) of the MTU that a run says its wire has, against that of each
    node's device, 0 where it cannot be seen.

    None when there is nothing to hold it to: the usual 1500, on nodes that may not be looked into.
    """
    seen = {name: mtu for name, mtu in found.items() if mtu}
    if not seen and asked == Options.mtu:
        return None
    observed = (
        ", ".join(f"{mtu} B on {name}" for name, mtu in seen.items())
        or "the nodes' devices cannot be seen"
    )
    return (
        f"{asked} B on each node's device (--mtu says which)",
        observed,
        bool(seen) and set(seen.values()) == {asked},
    )


def _mtu(node: KubernetesNode) -> int:
    """0 where it cannot be seen."""
    try:
        return int(node.read_text(f"/sys/class/net/{node.device}/mtu")) if node.device else 0
    except (CnibenchError, ValueError):
        return 0
