"""A cluster that somebody else made: measured as it is, or with profiles installed one after the
other where that is allowed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from cnibench.clusters.kubernetes.api import tools
from cnibench.clusters.kubernetes.api.access import Access
from cnibench.clusters.kubernetes.api.objects import Making
from cnibench.clusters.kubernetes.cni import (
    install,
    recognise,
    subnets,
    suitability,
    unsupported,
    wait,
)
from cnibench.clusters.kubernetes.deployment import KubernetesDeployment
from cnibench.clusters.kubernetes.nodes import agents, inspection
from cnibench.clusters.kubernetes.nodes.environment import describe
from cnibench.clusters.kubernetes.nodes.nodes import Facts, Wanted, choose, facts, more, toleration
from cnibench.clusters.kubernetes.nodes.places import KubernetesNode
from cnibench.clusters.kubernetes.ownership import cleaning, discovery, namespace, safety, state
from cnibench.clusters.kubernetes.ownership.cleaning import Survey
from cnibench.clusters.kubernetes.ownership.namespace import PATIENCE, Claim
from cnibench.clusters.kubernetes.pods import paths, pods, rate_limit
from cnibench.clusters.kubernetes.removal.selection import BlockedError
from cnibench.errors import ClusterError, CnibenchError, InputError, UsageError
from cnibench.model import conditions
from cnibench.model.cell import Attestation, Cell
from cnibench.model.profile import CURRENT, Profile, builtin
from cnibench.model.units import seconds
from cnibench.offload.nic import Nic
from cnibench.testbed.capabilities.cell_limits import CellLimits
from cnibench.testbed.capabilities.consent import Consent
from cnibench.testbed.capabilities.nics import Nics
from cnibench.testbed.capabilities.node_inspection import NodeInspection, Nodes
from cnibench.testbed.capabilities.outages import Outage, Outages
from cnibench.testbed.capabilities.ownership import Leftover, Ownership
from cnibench.testbed.capabilities.recognition import Recognition
from cnibench.testbed.cluster import Cluster, Options, Problem, Wire

_READY = 300.0  # s: of a CNI; images may have to be fetched
_SECONDS = 60.0  # s that installing, attesting and removing one takes, for plans
_SECONDS_CURRENT = 15.0  # s: agents and Pods only
NO_CNI = "no CNI"


class ExistingDeployment(KubernetesDeployment):
    """``said`` is what was seen of a CNI that is not recognised, '' for others."""

    said = ""
    uninstall: Any = None
    claim: Claim

    def attest(self) -> list[Attestation]:
        """The nodes' MTU first: it is whose cluster it is who has set it, and samples would claim
        another.
        """
        told = wire_mtu(self.options.mtu, {node.name: _mtu(node) for node in self.nodes()})
        wire = [self.attestation("wire-mtu", *told)] if told else []
        if not all(one.passed for one in wire):
            return wire
        if self.profile.kubernetes is None:
            return [
                *wire,
                self.attestation("recognised", "nothing", self.said or "an unknown CNI", True),
                *self.reached(),
            ]
        return [*wire, *super().attest()]

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


class ExistingCluster(
    Cluster, CellLimits, Consent, NodeInspection, Nics, Outages, Ownership, Recognition
):
    """Any cluster that a kubeconfig leads to."""

    kind: ClassVar[str] = "existing"
    deploys: ClassVar[type] = ExistingDeployment
    manages_nodes: ClassVar[bool] = False
    testbed: str = "cluster"
    most_pairs: ClassVar[int] = 50
    paths: ClassVar[tuple[str, ...]] = paths.ALL
    pod_seconds: ClassVar[float] = pods.EACH
    conntrack_bypass: ClassVar[bool] = False

    def __init__(self, options: Options) -> None:
        """Raises UsageError for wrong options; the cluster is not talked to yet."""
        super().__init__(options)
        extra = options.extra
        self.allowed = safety.Allowed.of(extra)
        self.patience = seconds(str(extra.get("patience") or PATIENCE))
        self.wanted = Wanted(
            client=str(extra.get("client_node") or ""),
            server=str(extra.get("server_node") or ""),
            client_selector=str(extra.get("client_selector") or ""),
            server_selector=str(extra.get("server_selector") or ""),
            tolerations=tuple(toleration(item) for item in extra.get("toleration", ())),
        )
        self._claim: Claim | None = None
        self._making: Making | None = None
        self._agents: list[KubernetesNode] = []
        self._deployments: list[ExistingDeployment] = []
        self._facts: dict[str, Any] = {}
        self.wire: Wire = "nic"
        # we have removed what was there; the nodes' kubelets say so only some seconds later
        self._bare = False

    @cached_property
    def access(self) -> Access:
        """Raises InputError, UsageError."""
        given = self.options.extra.get("kubeconfig")
        return Access(
            Path(str(given)) if given else None, str(self.options.extra.get("context") or "")
        )

    @cached_property
    def nodes(self) -> list[Facts]:
        """All nodes. Raises UnreachableError, DeniedError."""
        return [facts(item) for item in self.access.get("nodes")["items"]]

    @cached_property
    def chosen(self) -> list[Facts]:
        """The client's node, the server's, those of further pairs."""
        return more(
            self.nodes,
            choose(self.nodes, self.wanted, self.options.ip),
            self.wanted,
            self.options.ip,
            self.options.pairs,
        )

    @cached_property
    def _strangers(self) -> list[tuple[str, str]]:
        return safety.foreign(self.access.get("pods", "-A")["items"])

    @cached_property
    def present(self) -> tuple[str, str]:
        """(the profile that runs there or '', in words)."""
        return recognise.current(self.access)

    @cached_property
    def _left(self) -> cleaning.Record | None:
        """What an earlier run had left on the cluster when this one began."""
        return cleaning.record(self.access)

    def missing(self) -> list[Problem]:
        problems = tools.problems("kubectl")
        if problems:
            return problems
        try:
            self.access.kubectl("get", "--raw", "/version", timeout=15)
        except (InputError, UsageError):  # nothing is missing: what was given is wrong
            raise
        except CnibenchError as error:
            problems.append(
                Problem(
                    "", error.message, error.remedy or "name another with --kubeconfig or --context"
                )
            )
        return problems

    def check(self, profile: Profile, options: Options | None = None) -> list[Problem]:
        if profile.cni == CURRENT.cni:
            return []
        return suitability.problems(profile, options or self.options)

    def refuses(self, profile: Profile, cell: Cell) -> str:
        return unsupported.refusal(profile, cell)

    def seconds(self, profile: Profile) -> float:
        return _SECONDS_CURRENT if self._is_current(profile) else _SECONDS

    def resolve(self, profiles: Mapping[str, Profile]) -> Mapping[str, Profile]:
        """``current`` becomes the profile that is recognised. Raises ClusterError where there is no
        CNI at all.
        """
        if all(profile.name != CURRENT.name for profile in profiles.values()):
            return profiles
        name, said = self.present
        if not name and said == NO_CNI:
            raise ClusterError(
                "no CNI runs on this cluster",
                "install one first, or name a profile and --allow-install",
            )
        found = (
            builtin()[name]
            if name
            else CURRENT.model_copy(update={"title": f"not recognised: {said}"})
        )
        return {
            label: found if profile.name == CURRENT.name else profile
            for label, profile in profiles.items()
        }

    def _is_current(self, profile: Profile) -> bool:
        """Is it measured as it stands there? Every profile that is not to be installed is."""
        anew = self.allowed.replace or (self.allowed.install and self._left is not None)
        return profile.cni == CURRENT.cni or (profile.name == self.present[0] and not anew)

    def kernel_access_denied(self) -> str:
        """Asked of the namespace ``default``: what Pod Security's labels say there does not count,
        for ours has its own.
        """
        try:
            said = agents.refused(
                self.access, agents.plan("none", {}, namespace="default"), self.chosen[0].name
            )
        except CnibenchError:
            return ""
        return (
            f"privileged Pods are refused here ({said.splitlines()[-1][:200]})"
            if said and "violates PodSecurity" not in said
            else ""
        )

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

    def preview(
        self, profiles: Mapping[str, Profile], seconds: float, volume: float
    ) -> Sequence[str]:
        """Raises RefusedError for what was not allowed, UsageError when there are no two nodes."""
        chosen = self.chosen
        names = [node.name for node in chosen]
        safety.check_load(self.allowed, self._strangers, names)
        installed = [label for label, profile in profiles.items() if not self._is_current(profile)]
        changes, removed = "nothing outside our own namespace is changed", list[str]()
        if installed:
            present = "" if self.present[1] == NO_CNI else self.present[0] or self.present[1]
            if left := self._left_cni():
                present = left.what
            else:
                safety.check_change(
                    self.allowed, present, self.access.context, len(self.nodes), self._strangers
                )
                self._check_unused()
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
        if given := str(self.options.extra.get("namespace") or ""):
            namespace.check_free(self.access, given)
        return [
            *safety.lines(
                self.access.context, names, self._strangers, self.allowed, seconds, volume, changes
            ),
            *removed,
        ]

    def _preview_removal(self) -> list[str]:
        """What would be deleted before anything is installed: what an earlier run left, or the
        cluster's own CNI.

        Raises RefusedError when objects of others would go with it.
        """
        name = self.present[0]
        variables = subnets.variables(self.access, self.nodes, self.options.extra)
        plan = install.planned(
            self.access,
            builtin()[name] if name else None,
            self.options.settings.get("", {}),
            variables,
        )
        if plan is None:
            return []
        try:
            found = install.preview(self.access, plan)
        except BlockedError as error:
            raise safety.RefusedError(error.message, error.remedy) from None
        return [
            f"deleted of {plan.name}, after its manifests are saved below {_saved()}:"
            f" {', '.join(found) or 'no object'}"
        ]

    # Making

    def _ground(self, everywhere: bool, cleaning: bool = False) -> list[KubernetesNode]:
        """Our namespace and the agents: on the chosen nodes, or on all of them when a CNI is
        installed; the chosen ones first.
        """
        if self._making is None:
            tolerations = ({"operator": "Exists"},) if everywhere else self.wanted.tolerations
            making = agents.plan(
                state.new_name(),
                self.options.extra,
                str(self.options.extra.get("namespace") or ""),
                tolerations,
            )
            self._claim = Claim(self.access, making)
            self._making = making
            self.access.availability.patience = self.patience
            self.access.availability.tell = self.tell
            wanted = list(self.nodes) if cleaning else list(self.chosen)
            wanted += [node for node in self.nodes if everywhere and node not in wanted]
            self._making, self._agents = agents.start(self.access, making, wanted)
            self.wire = agents.wire(self._agents[0])
        return self._agents

    def nics(self, every: bool = False) -> tuple[list[Nic], list[int]]:
        return agents.nics(self._ground(everywhere=False), every)

    def compare_nodes(self) -> Nodes:
        return inspection.compared(self._ground(everywhere=False)[:2])

    def install(self, label: str, profile: Profile) -> ExistingDeployment:
        current = self._is_current(profile)
        if current and (
            deployment := next((one for one in self._deployments if one.label == label), None)
        ):
            if not deployment.alive():
                return deployment
            self._deployments.remove(deployment)
            KubernetesDeployment.remove(deployment)  # its Pods are dead, and their names are wanted
        if current:
            self._check_ready()
        nodes = self._ground(everywhere=not current)
        assert self._making is not None
        assert self._claim is not None
        settings = {**self.options.settings.get("", {}), **self.options.settings.get(label, {})}
        known = {
            **subnets.variables(self.access, self.nodes, self.options.extra),
            **{key: settings[key] for key in _GIVEN if key in settings},
            "run": self._making.run,
            "owner": state.owner(),
        }
        given = {key: value for key, value in settings.items() if key not in _GIVEN}

        def uninstall() -> None:
            self._check_alone(profile.name)
            install.uninstall(self.access, profile, known, nodes, saved=self._saved())
            self._bare = True

        if not current:
            subnets.need(known)
            self._make_room(nodes, known)
            install.install(self.access, profile, given, known, nodes)
        try:
            if not current:
                wait.ready(self.access, profile, _READY)
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
            deployment.claim = self._claim
            deployment.said = "" if profile.kubernetes else self.present[1]
            deployment.uninstall = None if current else uninstall
            if self.allowed.max_rate:
                deployment.each_pod = lambda pod: rate_limit.cap(pod, self.allowed.max_rate)
                for pod in deployment.pods():
                    deployment.each_pod(pod)
            self._facts = (
                describe(self.access, deployment.nodes())
                | deployment.told()
                | agents.offload(deployment.nodes())
            )
        except BaseException:
            try:
                if not current and not self._claim.lease.check():
                    uninstall()
            except CnibenchError as error:
                self.tell(f"{label} is not removed: {error.message}")
            raise
        self._deployments.append(deployment)
        return deployment

    def _check_ready(self) -> None:
        """Raises ClusterError when a chosen node has gone meanwhile: its Pods would be waited for
        in vain.
        """
        for index, known in enumerate(self.chosen):
            now = facts(self.access.get("node", known.name))
            if not now.ready:
                raise ClusterError(
                    f"node {agents.letter(index)} is not Ready: {now.reason}",
                    "kubectl describe node says more",
                )

    def _make_room(self, nodes: Sequence[KubernetesNode], known: Mapping[str, str]) -> None:
        """Removes what an earlier run installed, and the cluster's own CNI (saved first) when that
        was allowed.

        Raises RefusedError, ClusterError.
        """
        if left := cleaning.record(self.access):
            assert self._making is not None
            if left.run == self._making.run:  # an uninstallation that failed, tried once more
                self._check_alone(left.profile)
            else:
                self._left_cni(take=self._making.run)
            install.uninstall(self.access, None, known, nodes, saved=self._saved(), say=_say)
            self._bare = True
        if self._bare:
            return
        name, said = recognise.current(self.access)
        if said == NO_CNI:
            return
        strangers = safety.foreign(self.access.get("pods", "-A")["items"])
        safety.check_change(
            self.allowed, name or said, self.access.context, len(self.nodes), strangers
        )
        if not name:
            raise ClusterError(
                f"{said}: cnibench does not know how to remove it",
                "remove it with the tool that installed it, then use --allow-install",
            )
        assert self._making is not None
        self._check_unused(self._making.run)
        # Anew: somebody may have changed it since ``preview`` showed it, perhaps hours ago.
        settings = self.options.settings.get("", {})
        plan = install.planned(self.access, builtin()[name], settings, known)
        install.uninstall(self.access, None, known, nodes, plan=plan, saved=self._saved(), say=_say)
        self._bare = True

    def _check_alone(self, profile: str) -> None:
        """Raises RefusedError when Pods of others have come since this run installed its CNI: they
        would be evicted, and without a network then.
        """
        if strangers := safety.foreign(self.access.get("pods", "-A")["items"]):
            raise safety.RefusedError(
                f"{safety.some([name for _, name in strangers])} started on the cluster of the"
                f" context '{self.access.context}' during the run: {profile} is not removed,"
                " because they would lose their network",
                "delete these Pods, then: cnibench clean --cluster existing --allow-install",
            )

    def _check_unused(self, run: str = "") -> None:
        """Raises RefusedError when a run uses the cluster, other than ``run``."""
        if users := discovery.users(self.access, self.tell, run):
            raise safety.RefusedError(
                f"the run {users[0].run} of {users[0].owner} uses the cluster of the context"
                f" '{self.access.context}': no CNI is changed under it",
                "wait for its end",
            )

    def _saved(self) -> Path:
        """Where manifests of what we remove are kept: one folder for each run."""
        assert self._making is not None
        return _saved() / self._making.run

    def environment(self) -> dict[str, Any]:
        facts = {"wire_offload": "as the nodes' devices have it", **self._facts}
        return facts | ({"max_rate": self.allowed.max_rate} if self.allowed.max_rate else {})

    def _left_cni(self, take: str = "") -> Leftover | None:
        """The CNI that an earlier run left, which may be removed; None when there is none.
        ``take``: it is that run's from now on.

        Raises RefusedError when it may not be removed, ClusterError.
        """
        if cleaning.record(self.access) is None:
            return None
        found = Survey(self.access, self.allowed, (), self.tell, run=take)
        left = found.cni(len(self.nodes), lambda: None)
        if left and left.kept:
            raise safety.RefusedError(
                f"{left.what} is left of a run of {left.owner}, and stays: {left.kept}", left.remedy
            )
        if left and take:
            found.take_record(take)
        return left

    def leftovers(
        self, owners: Sequence[str] = (), tell: Callable[[str], None] = print
    ) -> list[Leftover]:
        found = Survey(self.access, self.allowed, owners, tell)

        def remove() -> None:
            """The agents that do it are ours, in a namespace of this command's own."""
            nodes = self._ground(everywhere=True, cleaning=True)
            try:
                assert self._making is not None
                found.take_record(self._making.run)
                known = {"run": self._making.run}
                install.uninstall(self.access, None, known, nodes, saved=self._saved(), say=_say)
            finally:
                self.__exit__(*sys.exc_info())

        cni = found.cni(len(self.nodes), remove)
        return [*([self._shown(cni)] if cni else []), *found.namespaces()]

    def _shown(self, cni: Leftover) -> Leftover:
        """With the objects that would be deleted, or kept because of objects of others that would
        go with them.
        """
        plan = None if cni.kept else install.planned(self.access)
        if plan is None:
            return cni
        try:
            objects = install.preview(self.access, plan)
        except BlockedError as error:
            return replace(cni, kept=error.message, remedy=error.remedy, refused=True)
        deleted = (
            f"deleted, after its manifests are saved below {_saved()}:"
            f" {', '.join(objects) or 'no object'}"
        )
        return replace(cni, about=f"{cni.about}; {deleted}")

    def outages(self, suspect: bool = False) -> list[Outage]:
        return self._claim.outages(suspect, self._dead) if self._claim else []

    def _dead(self) -> str:
        return next((died for one in self._deployments if (died := one.alive())), "")

    def __exit__(self, *error: object) -> None:
        """Everything of ours, in any case; the first failure is told when nothing worse has
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
                    claim.lease.release()
                else:
                    claim.remove()
            except CnibenchError as failure:
                failures.append(failure)
        self.access.availability.patience = 0.0
        self.access.close()
        if failures and error and error[0] is None:
            raise failures[0]


def _saved() -> Path:
    return state.folder() / "saved"


def _say(words: str) -> None:
    print(words, file=sys.stderr)


_GIVEN = (
    "pod_cidr",
    "pod_cidr_ipv6",
    "service_cidr",
    "api_host",
    "api_port",
)  # settings that are about the cluster, not the CNI

PROVIDER = ExistingCluster
