"""Datapaths with packet filters: what of iptables and ipset the node's programs want is loaded
whole, in one call of each tool.

Rules of Pods come from daemons that watch the API and write them for all Pods at once (Felix,
kube-router), so several Pods made in one ``batch`` are loaded once.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from cnibench.clusters.lab.builders.batched import Batched
from cnibench.clusters.lab.namespaces.places import LabNode, LabPod
from cnibench.clusters.lab.rules import entries, kubeproxy
from cnibench.clusters.lab.rules.ruleset import IpSet, Part, Pod, ipset_text, save_text
from cnibench.model.conditions import Policies
from cnibench.model.profile import Strict

if TYPE_CHECKING:
    from cnibench.clusters.lab.deployment import LabDeployment

NAMESPACE = "cnibench"
_LIMIT = 120.0  # seconds for one restore, of ten thousand Services


class FilterOptions(Strict):
    """``iptables``: which of the two programs of that name the node has; distributions have ``nft``
    since 2019.
    """

    iptables: Literal["nft", "legacy"] = "nft"


class Filtered(Batched):
    """A datapath whose nodes have packet filter rules."""

    Options: ClassVar[type[FilterOptions]] = FilterOptions
    needs: ClassVar[tuple[str, ...]] = ("iptables",)

    def __init__(self, deployment: LabDeployment, options: Any) -> None:
        super().__init__(deployment, options)
        self._members: dict[int, list[LabPod]] = {0: [], 1: []}
        self._stale: set[int] = set()
        self._asked: Policies | None = None
        self._denied: int | None = None

    def parts(self, node: LabNode, family: int) -> Sequence[Part]:
        """What each program writes on a node, in the order in which they start."""
        return ()

    def sets(self, node: LabNode, family: int) -> Sequence[IpSet]:
        """The IP sets that the parts name."""
        return ()

    def kube_proxy(self, node: LabNode, family: int) -> Part:
        """The kubelet's part, and what implements Services has in the tables of iptables."""
        return (*kubeproxy.kubelet(family), *self.deployment.services.part(node, family))

    def described(self, node: LabNode, family: int) -> tuple[Pod, ...]:
        """The node's Pods as the rules name them."""
        pods = (pod for pod in self._members[node.number] if family in pod.addresses)
        return tuple(Pod(pod.name, dict(pod.addresses), pod.host_end, NAMESPACE) for pod in pods)

    def text(self, node: LabNode, family: int) -> str:
        """What iptables-restore (4) or ip6tables-restore (6) reads for this node now."""
        verdict = "ACCEPT" if self.deployment.claim.policy == "none" else "RETURN"
        return save_text(
            (*self.parts(node, family), entries.rules(family, self._asked, self._denied, verdict))
        )

    def policies(self, asked: Policies | None) -> float:
        self._asked = asked
        return self._load_all()

    def policies_found(self) -> Mapping[str, int]:
        found = {}
        for node in self.deployment.nodes():
            for family in self.deployment.families:
                program = (
                    f"{'iptables' if family == 4 else 'ip6tables'}-{self.options.iptables}-save"
                )
                found[f"{node.name}, IPv{family}"] = entries.found(
                    node.ns.run([program, "-t", "filter"], timeout=_LIMIT).stdout
                )
        return found

    def policies_expected(self, asked: Policies | None) -> int:
        return entries.expected(asked)

    def deny(self, port: int | None) -> None:
        self._denied = port
        self._load_all()

    def _load_all(self) -> float:
        start = time.monotonic()
        for node in self.deployment.nodes():
            self.load(node)
        return time.monotonic() - start

    def load(self, node: LabNode) -> None:
        """Loads sets and rules of all families. Raises ClusterError with what the tool said."""
        self.load_sets(node)
        for family in self.deployment.families:
            program = (
                f"{'iptables' if family == 4 else 'ip6tables'}-{self.options.iptables}-restore"
            )
            node.ns.run([program], input=self.text(node, family), timeout=_LIMIT)

    def load_sets(self, node: LabNode) -> None:
        services = self.deployment.services
        sets = [
            item
            for family in self.deployment.families
            for item in (*services.sets(node, family), *self.sets(node, family))
        ]
        if sets:
            node.ns.run(["ipset", "restore", "-exist"], input=ipset_text(sets), timeout=_LIMIT)

    def joined(self, pod: LabPod) -> None:
        """Notes a Pod that is there now; its rules are loaded at once, or at the end of the
        batch.
        """
        self._members[pod.node.number].append(pod)
        self.changed(pod.node)

    def left(self, pod: LabPod) -> None:
        """Forgets a Pod; its rules go."""
        if pod in self._members[pod.node.number]:
            self._members[pod.node.number].remove(pod)
            self.changed(pod.node)

    def changed(self, node: LabNode) -> None:
        """The node's rules are to be loaded: at once, or at the end of the batch."""
        self._stale.add(node.number)
        self.settle()

    def _settle(self) -> None:
        stale, self._stale = self._stale, set()
        if not stale:
            return
        jobs = [
            partial(self.load if node.number in stale else self.load_sets, node)
            for node in self.deployment.nodes()
        ]  # peers are on both
        if self.options.iptables == "legacy":  # one at a time: they would meet at its lock
            for job in jobs:
                job()
            return
        with ThreadPoolExecutor() as pool:
            for done in [pool.submit(job) for job in jobs]:
                done.result()
