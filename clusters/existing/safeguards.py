"""What a run may do to a cluster that somebody else made: asked before anything is changed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from cnibench.clusters.existing.present import NO_CNI, PresentCluster
from cnibench.clusters.kubernetes import install
from cnibench.clusters.kubernetes.cni import subnets
from cnibench.clusters.kubernetes.nodes import agents
from cnibench.clusters.kubernetes.nodes.nodes import facts
from cnibench.clusters.kubernetes.ownership import discovery, namespace, safety, state
from cnibench.clusters.kubernetes.removal import cleaning
from cnibench.clusters.kubernetes.removal.cleaning import Survey
from cnibench.clusters.kubernetes.removal.selection import BlockedError
from cnibench.errors import ClusterError
from cnibench.model import conditions
from cnibench.model.cell import Cell
from cnibench.model.profile import CURRENT, Profile, builtin
from cnibench.model.units import plural
from cnibench.testbed.capabilities.consent import Consent
from cnibench.testbed.capabilities.ownership import Leftover

GIVEN = (
    "pod_cidr",
    "pod_cidr_ipv6",
    "service_cidr",
    "api_host",
    "api_port",
)  # settings that are about the cluster, not the CNI


class GuardedCluster(PresentCluster, Consent):
    """Refuses what was not allowed, and what would harm others."""

    _asked: Collection[str] = ()  # the CNIs of this run's profiles

    @cached_property
    def _expired(self) -> set[tuple[Any, ...]]:
        """Leases that nobody renews."""
        return set()

    def permit(self, cells: Sequence[Cell]) -> None:
        asked = [conditions.of(cell.params) for cell in cells]
        if not self.allowed.node_changes and any(
            one and one.offload and one.offload.wire != "default" for one in asked
        ):
            raise safety.RefusedError(
                "the condition offload.wire would change the NICs of nodes of the context"
                f" '{self.access.context}'",
                "--allow-node-changes allows it: the old values are saved on the node's disk first"
                " and restored afterwards, even if cnibench is killed",
            )
        services = max((one.services.count for one in asked if one and one.services), default=0)
        if services and not self.allowed.node_changes:
            raise safety.RefusedError(
                f"services.count would add {plural(services, 'Service')} to the rules of all nodes"
                f" of the context '{self.access.context}'",
                "--allow-node-changes allows it: they are deleted after each cell, and 'cnibench"
                " clean' deletes what a killed run left",
            )

    def preview(
        self, profiles: Mapping[str, Profile], seconds: float, volume: float
    ) -> Sequence[str]:
        """Raises RefusedError for what was not allowed, UsageError when there are no two nodes."""
        self._asked = {profile.cni for profile in profiles.values()}
        chosen = self.chosen
        names = [node.name for node in chosen]
        safety.check_load(self.allowed, self._strangers, names)
        installed = [label for label, profile in profiles.items() if not self._is_current(profile)]
        changes, removed = "nothing outside our own namespace is changed", list[str]()
        if installed:
            present = "" if self.present.said == NO_CNI else self.present.name or self.present.said
            if left := self._left_cni():
                present = left.what
            else:
                safety.check_change(
                    self.allowed, present, self.access.context, len(self.nodes), self._strangers
                )
                self._check_unused()
                if present:
                    check_removable(self.present.name, self.present.said)
            changes = (
                f"{', '.join(installed)} installed on all {len(self.nodes)} nodes, one after the"
                " other"
                + (
                    f"; {present} is removed first" + ("" if left else ", its manifests are saved")
                    if present
                    else ""
                )
            )
            removed = self._preview_removal()
        if given := self.options.cluster.namespace:
            namespace.check_free(self.access, given)
        resolved = {CURRENT.name, *self._resolved}
        return [
            *(
                f"{label}: {profile.title}"
                for label, profile in profiles.items()
                if profile.name in resolved
            ),
            *safety.lines(
                self.access.context, names, self._strangers, self.allowed, seconds, volume, changes
            ),
            *removed,
            *(f"{one.lacks}; {one.remedy}" for one in self._lacking.useful),
        ]

    def _preview_removal(self) -> list[str]:
        """What would be deleted before anything is installed: what an earlier run left, or the
        cluster's own CNI.

        Raises RefusedError when objects of others would go with it.
        """
        name = self.present.name
        variables = subnets.variables(self.access, self.nodes, self.options.cluster)
        plan = install.planned(
            self.access,
            builtin()[name] if name else None,
            self._settings_of_removed(name),
            variables,
        )
        if plan is None:
            return []
        try:
            found = install.preview(self.access, plan)
        except BlockedError as error:
            raise safety.RefusedError(error.message, error.remedy) from None
        return [
            f"deleted of {plan.name}, after its manifests are saved below {saved_manifests()}:"
            f" {', '.join(found) or 'no object'}",
            install.outlook(plan),
        ]

    def _settings_of_removed(self, name: str) -> dict[str, str]:
        """What --set says of the CNI that is there and goes: under its profile's name or
        ``current``, and for all profiles where one of this run's is of the same CNI.
        """
        given = self.options.settings
        same = bool(name) and builtin()[name].cni in self._asked
        shared = given.get("", {}) if same else {}
        about = {**shared, **given.get(name, {}), **given.get(CURRENT.name, {})}
        return {key: value for key, value in about.items() if key not in GIVEN}

    @cached_property
    def _strangers(self) -> list[tuple[str, str]]:
        return safety.foreign(self.access.listed("pods"))

    def _check_ready(self) -> None:
        """Raises ClusterError when a chosen node has gone meanwhile: its Pods would be waited for
        in vain.
        """
        for index, known in enumerate(self.chosen):
            now = facts(self.access.get("nodes", known.name))
            if not now.ready:
                raise ClusterError(
                    f"node {agents.letter(index)} is not Ready: {now.reason}",
                    "kubectl describe node says more",
                )

    def _check_alone(self, profile: str, run: str) -> None:
        """Raises RefusedError when Pods of others have come since ``run`` installed its CNI, or
        another run has begun to use it: they would lose their network.
        """
        where = f"on the cluster of the context '{self.access.context}'"
        if strangers := safety.foreign(self.access.listed("pods")):
            raise safety.RefusedError(
                f"{safety.some([name for _, name in strangers])} started {where} during the run:"
                f" {profile} is not removed, because they would lose their network",
                "delete these Pods, then: cnibench clean --cluster existing --allow-install",
            )
        if users := discovery.users(self.access, self.notify, run, self._expired):
            raise safety.RefusedError(
                f"the run {users[0].run} of {users[0].owner} began {where} during this one:"
                f" {profile} is not removed, because that run would lose its network",
                "when that run has ended: cnibench clean --cluster existing --allow-install",
            )

    def _check_unused(self, run: str = "") -> None:
        """Raises RefusedError when a run uses the cluster, other than ``run``."""
        if users := discovery.users(self.access, self.notify, run, self._expired):
            raise safety.RefusedError(
                f"the run {users[0].run} of {users[0].owner} uses the cluster of the context"
                f" '{self.access.context}': no CNI is changed under it",
                "wait for its end",
            )

    def _left_cni(self, take: str = "") -> Leftover | None:
        """The CNI that an earlier run left, which may be removed; None when there is none.
        ``take``: it is that run's from now on.

        Raises RefusedError when it may not be removed, ClusterError.
        """
        if cleaning.record(self.access) is None:
            return None
        found = Survey(self.access, self.allowed, (), self.notify, run=take)
        left = found.cni(len(self.nodes), lambda: None)
        if left and left.kept:
            raise safety.RefusedError(
                f"{left.what} is left of a run of {left.owner}, and stays: {left.kept}", left.remedy
            )
        if left and take:
            found.take_record(take)
        return left

    def _saved(self) -> Path:
        """Where manifests of what we remove are kept: one folder for each run."""
        assert self._making is not None
        return saved_manifests() / self._making.run


def check_removable(name: str, said: str) -> None:
    """Raises ClusterError for a CNI that is not recognised, or that only others install."""
    about = builtin()[name].kubernetes if name else None
    if about is None or about.installed_by:
        raise ClusterError(
            f"{said}: cnibench does not know how to remove it",
            "remove it with the tool that installed it, then use --allow-install",
        )


def saved_manifests() -> Path:
    return state.folder() / "saved"
