"""Installs, measures on and cleans a cluster that somebody else made."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from cnibench.clusters.existing.deployment import ExistingDeployment
from cnibench.clusters.existing.present import NO_CNI
from cnibench.clusters.existing.safeguards import (
    GIVEN,
    GuardedCluster,
    check_removable,
    saved_manifests,
)
from cnibench.clusters.kubernetes import install
from cnibench.clusters.kubernetes.api import resources
from cnibench.clusters.kubernetes.cni import recognise, subnets, wait
from cnibench.clusters.kubernetes.cni.image_digests import image_digests
from cnibench.clusters.kubernetes.deployment import KubernetesDeployment
from cnibench.clusters.kubernetes.nodes import agents, inspection, privileges, proxy_mode
from cnibench.clusters.kubernetes.nodes.environment import describe
from cnibench.clusters.kubernetes.nodes.places import ADMIT, UNSEEN, KubernetesNode
from cnibench.clusters.kubernetes.ownership import safety, state
from cnibench.clusters.kubernetes.ownership.namespace import Claim
from cnibench.clusters.kubernetes.pods import rate_limit
from cnibench.clusters.kubernetes.removal import cleaning
from cnibench.clusters.kubernetes.removal.cleaning import Survey
from cnibench.clusters.kubernetes.removal.selection import BlockedError
from cnibench.errors import CnibenchError, MissingError, NoSlicesError
from cnibench.model.profile import Profile, builtin
from cnibench.offload.nic import Nic
from cnibench.system.interrupt import uninterrupted
from cnibench.testbed.capabilities.nics import Nics
from cnibench.testbed.capabilities.node_inspection import NodeInspection, Nodes
from cnibench.testbed.capabilities.outages import Outage, Outages
from cnibench.testbed.capabilities.ownership import Leftover, Ownership
from cnibench.testbed.cluster_options import ClusterOptions

_READY = 300.0  # s: of a CNI; images may have to be fetched


class ExistingCluster(GuardedCluster, NodeInspection, Nics, Outages, Ownership):
    """Any cluster that a kubeconfig leads to."""

    def kernel_access_denied(self) -> str:
        """Asked before our namespace is there."""
        try:
            making = agents.plan("none", ClusterOptions())
            said = privileges.node_access_refused(self.access, making, self.chosen[0].name)
        except CnibenchError:
            return ""
        return f"{UNSEEN} ({said.splitlines()[-1][:200]})" if said else ""

    def require_room(self, profiles: int) -> None:
        """One profile is installed at a time. Slices need an agent that sees its node."""
        if denied := self.kernel_access_denied():
            raise NoSlicesError(denied, f"{ADMIT}, or use --method windows")

    def _start_agents(self, everywhere: bool, cleaning: bool = False) -> list[KubernetesNode]:
        """Our namespace and the agents: on the chosen nodes, or on all of them when a CNI is
        installed; the chosen ones first.
        """
        if self._making is None:
            tolerations = ({"operator": "Exists"},) if everywhere else self.wanted.tolerations
            making = agents.plan(
                state.new_name(),
                self.options.cluster,
                self.options.cluster.namespace or "",
                tolerations,
            )
            self._claim = Claim(self.access, making)
            self._making = making
            self.access.availability.patience = self.patience
            self.access.availability.notify = self.notify
            wanted = list(self.nodes) if cleaning else list(self.chosen)
            wanted += [node for node in self.nodes if everywhere and node not in wanted]
            self._making, self._agents = agents.start(self.access, making, wanted)
            self.wire = agents.wire(self._agents[0])
        return self._agents

    def nics(self, every: bool = False) -> tuple[list[Nic], list[int]]:
        return agents.nics(self._start_agents(everywhere=False), every)

    def compare_nodes(self) -> Nodes:
        return inspection.compared(self._start_agents(everywhere=False)[:2])

    def install(self, label: str, profile: Profile) -> ExistingDeployment:
        current = self._is_current(profile)
        if current and (
            deployment := next((one for one in self._deployments if one.label == label), None)
        ):
            if not (died := deployment.alive()):
                return deployment
            self.notify(f"{label}: {died}; its Pods are made again")
            self._deployments.remove(deployment)
            KubernetesDeployment.remove(deployment)  # its Pods are dead, and their names are wanted
        if current:
            self._check_ready()
        nodes = self._start_agents(everywhere=not current)
        assert self._making is not None
        assert self._claim is not None
        settings = {**self.options.settings.get("", {}), **self.options.settings.get(label, {})}
        run = self._making.run
        known = {
            **({} if current else subnets.variables(self.access, self.nodes, self.options.cluster)),
            **{key: settings[key] for key in GIVEN if key in settings},
            "run": run,
            "owner": state.owner(),
        }
        given = {key: value for key, value in settings.items() if key not in GIVEN}

        def uninstall() -> None:
            self._check_alone(profile.name, run)
            install.uninstall(self.access, profile, known, nodes, saved=self._saved())
            self._bare = True

        sources: dict[str, str] = {}
        if not current:
            subnets.need(known)
            self._remove_kept()
            self._make_room(nodes, known)
            sources = install.install(self.access, profile, given, known, nodes)
        try:
            if not current:
                wait.ready(self.access, profile, _READY)
                install.settled(profile, nodes)
                install.policies(self.access, profile, self._making.namespace)
            deployment = ExistingDeployment(
                label,
                profile,
                self.options,
                self.access,
                self._making,
                nodes[: len(self.chosen)],
                known,
            )
            deployment.proxy = proxy_mode.of(profile, nodes)
            deployment.claim = self._claim
            deployment.real_time = not self._strangers
            deployment.said = self.present.said if current else ""
            deployment.uninstall = None if current else uninstall
            if self.allowed.max_rate:
                deployment.each_pod = lambda pod: rate_limit.cap(pod, self.allowed.max_rate)
                for pod in deployment.pods():
                    deployment.each_pod(pod)
            self._facts = (
                describe(self.access, deployment.nodes())
                | deployment.pair_facts()
                | agents.offload(deployment.nodes())
            )
            self._installed[label] = sources | image_digests(self.access, profile)
        except BaseException:
            with uninterrupted():
                try:
                    if not current and not self._claim.lease.check():
                        uninstall()
                except CnibenchError as error:
                    self.notify(f"{label} is not removed: {error.in_full}")
            raise
        self._deployments.append(deployment)
        return deployment

    def _remove_kept(self) -> None:
        """What --keep left of the installation before this one, whose Pods lose their network with
        it: the last one of a run is kept. Raises ClusterError.
        """
        for deployment in [one for one in self._deployments if one.uninstall is not None]:
            self._deployments.remove(deployment)
            deployment.remove()

    def _make_room(self, nodes: Sequence[KubernetesNode], known: Mapping[str, str]) -> None:
        """Removes what an earlier run installed, and the cluster's own CNI (saved first) when that
        was allowed.

        Raises RefusedError, ClusterError.
        """
        if left := cleaning.record(self.access):
            assert self._making is not None
            own = left.run == self._making.run
            if own:  # an uninstallation that failed, tried once more
                self._check_alone(left.profile, left.run)
            else:
                self._left_cni(take=self._making.run)
            install.uninstall(
                self.access, None, known, nodes, saved=self._saved(), say=_say, runs=not own
            )
            self._bare = True
        if self._bare:
            return
        name, said, *_ = recognise.current(self.access)
        if said == NO_CNI:
            return
        strangers = safety.foreign(self.access.listed("pods"))
        safety.check_change(
            self.allowed, name or said, self.access.context, len(self.nodes), strangers
        )
        check_removable(name, said)
        assert self._making is not None
        self._check_unused(self._making.run)
        # Again: somebody may have changed it since ``preview`` showed it, perhaps hours ago.
        settings = self._settings_of_removed(name)
        plan = install.planned(self.access, builtin()[name], settings, known)
        install.uninstall(self.access, None, known, nodes, plan=plan, saved=self._saved(), say=_say)
        self._bare = True

    def environment(self) -> dict[str, Any]:
        facts: dict[str, Any] = {
            "wire_offload": "as the nodes' devices have it",
            **resources.fact(self.options.cluster.pod_resources),
            **self._facts,
        }
        if self._installed:
            facts["installed"] = dict(self._installed)
        return facts | ({"max_rate": self.allowed.max_rate} if self.allowed.max_rate else {})

    def leftovers(
        self, owners: Sequence[str] = (), notify: Callable[[str], None] = print
    ) -> list[Leftover]:
        if (self.allowed.install or self.allowed.replace) and (
            lacks := self.missing_rights(()).needed
        ):
            raise MissingError(lacks[0].lacks, lacks[0].remedy)
        found = Survey(self.access, self.allowed, owners, notify)

        def remove() -> None:
            """The agents that do it are ours, in a namespace of this command's own."""
            nodes = self._start_agents(everywhere=True, cleaning=True)
            try:
                assert self._making is not None
                found.take_record(self._making.run)
                known = {"run": self._making.run}
                install.uninstall(
                    self.access, None, known, nodes, saved=self._saved(), say=_say, runs=True
                )
            finally:
                self.__exit__(*sys.exc_info())

        cni = found.cni(len(self.nodes), remove)
        return [*([self._shown(cni)] if cni else []), *found.namespaces()]

    def _shown(self, cni: Leftover) -> Leftover:
        """With the objects that would be deleted and what is looked for on nodes; or kept because
        of objects of others that would go with them.
        """
        plan = None if cni.kept else install.planned(self.access)
        if plan is None:
            return cni
        try:
            objects = install.preview(self.access, plan)
        except BlockedError as error:
            return replace(cni, kept=error.message, remedy=error.remedy, refused=True)
        deleted = (
            f"deleted, after its manifests are saved below {saved_manifests()}:"
            f" {', '.join(objects) or 'no object'}"
        )
        return replace(cni, about=f"{cni.about}; {deleted}; {install.outlook(plan)}")

    def outages(self, suspect: bool = False) -> list[Outage]:
        return self._claim.outages(suspect, self._dead) if self._claim else []

    def _dead(self) -> str:
        return next((died for one in self._deployments if (died := one.alive())), "")

    def __exit__(self, *error: object) -> None:
        """Everything of ours, in any case; the first failure is reported when nothing worse has
        happened.
        """
        failures: list[CnibenchError] = []
        for deployment in self._deployments if not self.options.keep else ():
            try:
                deployment.remove()
            except CnibenchError as failure:
                failures.append(failure)
        for deployment in self._deployments:
            deployment.disconnect()
        for node in self._agents:
            node.gateway.close()
        self._deployments.clear()
        claim, self._claim, self._making, self._agents = self._claim, None, None, []
        if claim is not None:
            try:
                if self.options.keep:
                    claim.release()
                else:
                    claim.remove()
            except CnibenchError as failure:
                failures.append(failure)
        self.access.availability.patience = 0.0
        self.access.close()
        if failures and error and error[0] is None:
            raise failures[0]


def _say(words: str) -> None:
    print(words, file=sys.stderr)
