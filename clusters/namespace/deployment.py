"""The measured Pods in a namespace that somebody else made, without agents on their nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cnibench.clusters.existing.deployment import wire_mtu
from cnibench.clusters.kubernetes.api import objects, pods
from cnibench.clusters.kubernetes.nodes.places import KubernetesNode
from cnibench.clusters.kubernetes.pods.measured import MeasuredPods
from cnibench.errors import ClusterError, CnibenchError
from cnibench.model.cell import Attestation

_CREATING = 60.0  # s


class NamespaceDeployment(MeasuredPods):
    """Its nodes are seen as far as a Pod on each sees them. Names of Pods begin with ``prefix``,
    for there may be others.
    """

    def attest(self) -> list[Attestation]:
        """That Pods reach each other: nothing of the datapath can be looked at."""
        mtu = wire_mtu(self.options.mtu, {})
        wire = [self.attestation("wire-mtu", *mtu)] if mtu else []
        return [*wire, *self.reached()]

    def reset_state(self) -> None:
        """Nothing: these Pods may not change their network namespaces."""

    def alive(self) -> str:
        if self.broken:
            return self.broken
        try:
            ours = f"{objects.RUN}={self.making.run}"
            there = self.access.listed("pods", self.namespace, labels=ours, timeout=20)
        except CnibenchError as error:
            return error.message
        known = {item["metadata"]["name"]: item for item in there}
        for pod in self.pods():
            item: Mapping[str, Any] = known.get(pod.pod, {})
            if not item:
                return f"the Pod {pod.pod} is gone: somebody else has removed it"
            if not pods.is_ready(item):
                reason, said = pods.trouble(item)
                return f"the Pod {pod.pod} runs no more: {reason or 'not Ready'} {said}".strip()
        return ""

    def remove(self) -> None:
        self.disconnect()
        names = [pod.pod for pod in self.pods()]
        self._pods.clear()
        try:
            pods.remove(self.access, self.namespace, names)
        except CnibenchError as error:
            raise ClusterError(
                f"{self.label}: not all of its Pods could be removed: {error.message}",
                f"cnibench clean --cluster namespace -n {self.namespace}",
            ) from None

    def _create(self, made: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
        """Never changes a Pod of others that has the same name."""
        return self.access.create(*made, timeout=_CREATING)


def environment(nodes: Sequence[KubernetesNode]) -> dict[str, Any]:
    """What Pods see of the nodes that they run on, for env.json."""
    facts = {}
    for node in nodes:
        cpus = node.read_text("/proc/cpuinfo").splitlines()
        models = (line.partition(":")[2].strip() for line in cpus if line.startswith("model name"))
        facts[node.name] = {
            "kernelVersion": node.read_text("/proc/sys/kernel/osrelease").strip(),
            "cpu_model": next(models, ""),
        }
    return {
        "nodes": facts,
        "lacks": (
            "only the Pods of one namespace may be seen: no cycles per packet, no rules, no"
            " settings and devices of the nodes, no load of others, no recognition of the CNI"
        ),
    }
