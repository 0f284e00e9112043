"""Uninstalling a CNI: planned by what is recorded or rendered, shown, saved, and carried out on the
API and on all nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from cnibench.clusters.kubernetes.api.access import Access, UnreachableError
from cnibench.clusters.kubernetes.api.rest import Rest
from cnibench.clusters.kubernetes.cni import manifests
from cnibench.clusters.kubernetes.nodes.places import ADMIT, UNSEEN, KubernetesNode, on_each
from cnibench.clusters.kubernetes.removal import (
    backup,
    deletion,
    eviction,
    node_backup,
    node_objects,
    record,
    selection,
)
from cnibench.clusters.kubernetes.removal import nodes as removal
from cnibench.clusters.kubernetes.removal import releases as helm
from cnibench.clusters.kubernetes.removal.inventory import Inventory, Thing
from cnibench.clusters.kubernetes.removal.node_cleaning import Cleaning, Found, end_plugins
from cnibench.clusters.kubernetes.removal.nodes import UntouchedError
from cnibench.clusters.kubernetes.removal.record import Marks, Record
from cnibench.clusters.kubernetes.removal.selection import Known
from cnibench.errors import ClusterError, CnibenchError
from cnibench.model.installation import Installation
from cnibench.model.profile import Profile


@dataclass(frozen=True)
class Removal:
    """A removal that was planned: of what is recorded, or (``record`` None) of what somebody else
    installed.
    """

    name: str
    about: Installation
    known: Known
    variables: Mapping[str, str]
    record: Record | None = None

    @property
    def marks(self) -> Marks:
        """What the Node objects had before; nothing where nobody knows."""
        return self.record.marks if self.record else {}


def planned(
    access: Access,
    profile: Profile | None = None,
    settings: Mapping[str, str] | None = None,
    variables: Mapping[str, str] | None = None,
) -> Removal | None:
    """What is to be removed: what is recorded; else the CNI of this profile, which somebody else
    installed, by the UIDs that its objects have now: those that its profile renders, and those of
    the helm release that made them. None when there is neither.

    Raises BlockedError for a release that has objects of other charts, ClusterError, and what
    rendering raises.
    """
    rest = Rest(access)
    note = record.read(rest)
    if note is not None:
        return Removal(
            note.profile,
            note.about,
            Known(
                note.applied, note.profile, note.about.managers, note.before, note.about.bookkeeping
            ),
            note.variables,
            note,
        )
    if profile is None or (about := manifests.installation(profile)).host_network:
        return None
    inventory = Inventory(rest)
    things = inventory.things()
    rendered = manifests.render(access, profile, settings or {}, variables or {})
    objects = inventory.scoped(rendered.objects)
    wanted = {inventory.identity(item): number for number, item in enumerate(objects)}
    found = sorted(
        (one for one in things if one.identity in wanted), key=lambda one: wanted[one.identity]
    )
    releases = {one.release for one in found if one.release and one.kind.kind == "DaemonSet"}
    charts = {step.chart.name for step in about.steps if step.chart}
    for name in sorted(releases):
        own = [one for one in things if one.release == name]
        uids = {one.uid for one in own}
        # A ControllerRevision has the annotations of its DaemonSet, which helm did write.
        others = [one for one in own if one.identity not in wanted and not one.owners & uids]
        if others:
            helm.check(access, name, charts, others)
    found += [
        one
        for one in things
        if one not in found and (one.release in releases or _notes(one) in releases)
    ]
    return Removal(
        profile.name,
        about,
        Known(
            {one.identity: one.uid for one in found},
            "",
            about.managers,
            bookkeeping=about.bookkeeping,
        ),
        variables or {},
    )


def _notes(one: Thing) -> str:
    """The release NAMESPACE/NAME that a Secret is helm's own record of, - for all else."""
    labels = dict(one.labels)
    return (
        f"{one.namespace}/{labels.get('name')}"
        if one.kind.kind == "Secret" and labels.get("owner") == "helm"
        else "-"
    )


def outlook(planned: Removal) -> str:
    """What would be removed from nodes, by the names that are looked for there."""
    return node_backup.outlook(planned.about, planned.record is not None)


def preview(access: Access, planned: Removal) -> list[str]:
    """The objects that would be deleted now, and what would be removed from Node objects, one a
    line. Raises BlockedError when it would take along objects of others.
    """
    rest = Rest(access)
    inventory = Inventory(rest)
    found = selection.find(planned.known, inventory.things())
    selection.check(found, planned.name, inventory.unseen)
    return [*found.lines(), *node_objects.lines(rest, planned.about, planned.marks)]


def uninstall(
    access: Access,
    profile: Profile | None,
    variables: Mapping[str, str],
    nodes: Sequence[KubernetesNode] = (),
    *,
    plan: Removal | None = None,
    saved: Path | None = None,
    say: Callable[[str], None] | None = None,
    runs: bool = False,
) -> None:
    """Removes what ``install`` recorded, from the API and from all nodes; or what ``plan`` says.
    The record must be of the run that ``variables`` name, if they name one.

    Manifests of all that goes, the list of what is found on the nodes and the files that can be put
    back there are written to the folder ``saved`` first; ``say`` reports where they are and what
    goes. Pods of the cluster's own that had the CNI's network are recreated; those of ``runs`` are
    deleted, which the caller has found to use it no more.
    Raises BlockedError, and then nothing was removed, when others have objects in what would go;
    ClusterError naming what could not be removed.
    """
    plan = plan or planned(access)
    if plan is None:
        if profile is None or manifests.installation(profile).host_network:
            return
        raise ClusterError(
            f"somebody else has deleted the record of what was installed of {profile.name}:"
            " nothing is removed by name alone",
            "it is the cluster's own now: --allow-replace of another run removes it as such",
        )
    run = variables.get("run")
    if plan.record is not None and run is not None and plan.record.run != run:
        raise ClusterError(
            f"the {plan.name} on this cluster was installed by another run"
            f" ({plan.record.run or 'without a name'}): this one removes nothing",
            "cnibench clean --cluster existing --dry-run says whose it is",
        )
    known = {**plan.variables, **variables}
    failed: list[tuple[str, CnibenchError]] = []

    def step(what: str, action: Callable[[], None]) -> None:
        """One step's failure keeps no other from being tried, unless the cluster is gone."""
        try:
            action()
        except UnreachableError:
            raise
        except CnibenchError as error:
            failed.append((what, error))

    rest = Rest(access)
    inventory = Inventory(rest)
    found = selection.find(plan.known, inventory.things())
    selection.check(found, plan.name, inventory.unseen)
    cidrs = [cidr for cidr in (known.get("pod_cidr", ""), known.get("pod_cidr_ipv6", "")) if cidr]
    if saved is not None:
        paths = backup.save(rest, found, saved, plan.name)
        name = paths[0].stem
        on_nodes = node_backup.save(_found_on(plan, cidrs, nodes), saved, name)
        on_nodes += node_backup.save_commands(
            node_objects.restoring(rest, plan.about, plan.marks), saved, name
        )
        for words in (
            f"{plan.name} is removed from all {len(nodes)} nodes; {backup.restore_hint(paths)}",
            f"deleted of {plan.name}: {', '.join(found.lines()) or 'no object'}",
            *on_nodes,
        ):
            if say is not None:
                say(words)
    step("Pods", lambda: eviction.evict(access, runs))
    eviction.await_teardown(access, nodes)
    gone = deletion.delete(inventory, plan.known, found, step)
    # Programs that an operator started, or that are still there, end with their namespace.
    ended = not found.made and not failed
    if not ended:
        gone()
    step("nodes' metadata", lambda: node_objects.clean(rest, plan.about, plan.marks))
    _clean_nodes(plan, cidrs, nodes, step)
    if ended:
        gone()
    step("Pods", lambda: eviction.admit(access))
    if failed:
        details = "; ".join(f"{what}: {error.message}" for what, error in failed)
        raise ClusterError(
            f"not all of {plan.name} could be removed: {details}",
            next((one.remedy for _, one in failed if one.remedy), ""),
        )
    if plan.record:
        plan.record.remove(rest)
        on_each([node for node in nodes if node.host], removal.forget)


def _cleaning(plan: Removal, cidrs: Sequence[str], node: KubernetesNode) -> Cleaning | None:
    """None when nothing was begun. Raises UntouchedError, ClusterError."""
    if plan.record is not None and not plan.record.remembered:
        return None
    if not node.host:
        raise UntouchedError(
            f"node {node.name}: nothing can be removed from it, for {UNSEEN}", ADMIT
        )
    if plan.record is None or node.facts.name not in plan.record.marks:
        # It is new, or the CNI is not ours.
        copied = plan.record.copied.get(node.facts.name, ()) if plan.record else ()
        return Cleaning(node, plan.about, cidrs, copied)
    had, sysctls = removal.before(node)
    return Cleaning(
        node, plan.about, cidrs, plan.record.copied.get(node.facts.name, ()), had, sysctls
    )


def _found_on(
    plan: Removal, cidrs: Sequence[str], nodes: Sequence[KubernetesNode]
) -> dict[str, Found]:
    """By the nodes' names. Raises ClusterError."""

    def look(node: KubernetesNode) -> Found:
        try:
            cleaning = _cleaning(plan, cidrs, node)
        except UntouchedError as error:  # ``_clean_nodes`` meets it again, and reports it
            return Found([f"nothing, for {error.message}"])
        return cleaning.look() if cleaning else Found([])

    return dict(zip([node.facts.name for node in nodes], on_each(nodes, look), strict=True))


def _clean_nodes(
    plan: Removal,
    cidrs: Sequence[str],
    nodes: Sequence[KubernetesNode],
    step: Callable[[str, Callable[[], None]], None],
) -> None:
    """Twice: a plugin that the runtime called just before its configuration went may write its
    files again (Cilium's deleteQueue).
    """

    def clean(node: KubernetesNode) -> None:
        if cleaning := _cleaning(plan, cidrs, node):
            cleaning.clean()
            end_plugins(node)
            cleaning.clean()

    with ThreadPoolExecutor(max_workers=8) as pool:
        jobs = {node: pool.submit(clean, node) for node in nodes}
    for node, job in jobs.items():
        step(f"node {node.facts.name}", job.result)


def give_up(access: Access, nodes: Sequence[KubernetesNode]) -> None:
    """Forgets an installation without removing it: the CNI is the cluster's own from now on. Raises
    ClusterError.
    """
    rest = Rest(access)
    if note := record.read(rest):
        note.remove(rest)
    on_each([node for node in nodes if node.host], removal.forget)
