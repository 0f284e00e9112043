"""Installing a profile's real CNI on a cluster, and uninstalling it.

What is installed is first written down (``record``), the UIDs of what was made after each group of objects: whatever ends the process,
the next one knows what there is to remove, and removes nothing else. What fails half way is removed again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from cnibench.clusters._kubernetes import belongings, deletion, manifests, plugins, record, remains, removal, saving, wait
from cnibench.clusters._kubernetes.access import Access, UnreachableError
from cnibench.clusters._kubernetes.belongings import Known
from cnibench.clusters._kubernetes.inventory import Identity, Inventory, Thing
from cnibench.clusters._kubernetes.manifests import LABEL, Object
from cnibench.clusters._kubernetes.objects import HOST
from cnibench.clusters._kubernetes.places import KubernetesNode, on_each
from cnibench.clusters._kubernetes.record import Record
from cnibench.clusters._kubernetes.rest import Rest
from cnibench.errors import ClusterError, CnibenchError
from cnibench.installation import Installation
from cnibench.profile import Profile

RECORD = record.NAME
TAINT = "cnibench.io/changing-the-network"  # keeps Pods away while one CNI goes and the next comes
_APPLYING = 120.0  # s
_LEAVING = 30.0  # s that Pods are given to leave a network
_FIRST = ("Namespace", "CustomResourceDefinition")

archives = manifests.archives
recorded = record.profile


@dataclass(frozen=True)
class Removal:
    """A removal that was planned: of what is recorded, or (``record`` None) of what somebody else installed."""

    name: str
    about: Installation
    known: Known
    variables: Mapping[str, str]
    record: Record | None = None


def install(
    access: Access, profile: Profile, settings: Mapping[str, str], variables: Mapping[str, str], nodes: Sequence[KubernetesNode] = ()
) -> None:
    """Applies all of it and returns; ``wait.ready`` waits. ``nodes`` are all nodes of the cluster.

    Raises UsageError for a --set that means nothing, ClusterError when something is installed already, when objects of others have the
    names of those that would be made, or when it cannot be installed; then nothing stays.
    """
    about = manifests.installation(profile)
    manifests.check(profile, settings)
    if about.host_network:
        return
    if there := recorded(access):
        raise ClusterError(f"an earlier run installed {there} on this cluster and did not remove it", "remove it: cnibench clean")
    objects = manifests.render(access, profile, settings, variables)
    secrets = _pull_secrets(access, objects, variables.get("pull_secret", ""), profile.name)
    with Rest(access) as rest:
        inventory = Inventory(rest)
        there_before = inventory.things()
        had = {one.identity for one in there_before}
        objects = _scoped(inventory, [*objects, *(item for item in secrets if inventory.identity(item) not in had)])
        objects = _without(inventory, objects, had, profile.name)
        copied = plugins.missing(nodes, about.plugins)
        note = Record(
            profile.name, about, {inventory.identity(item): "" for item in objects},
            {key: variables[key] for key in ("pod_cidr", "pod_cidr_ipv6") if variables.get(key)}, copied,
            frozenset(one.uid for one in there_before), deletion.marks(rest),
        )  # fmt: skip
        note.create(rest)
        try:
            on_each([node for node in nodes if node.host], lambda node: removal.remember(node, about))
            note.remembered = True
            note.note(rest)
            plugins.copy(nodes, copied)
            for step in about.steps:
                if step.reference:
                    plugins.configure(access, nodes, step.reference, settings)
            for group in _groups(objects):
                try:
                    _apply(inventory, note, group)
                finally:
                    note.note(rest)
                wait.established(access, [item for item in group if item["kind"] == "CustomResourceDefinition"])
            admit(access)
            return
        except CnibenchError as failure:
            error = failure
    try:
        uninstall(access, profile, settings, variables, nodes)
    except CnibenchError as second:
        raise ClusterError(
            f"{profile.name} could not be installed: {error.message}; and not all of it be removed: {second.message}", second.remedy
        ) from None
    raise type(error)(f"{profile.name} could not be installed, and was removed again: {error.message}", error.remedy) from None


def _apply(inventory: Inventory, note: Record, objects: Sequence[Object]) -> None:
    for item in objects:
        meta = item["metadata"]
        made = inventory.rest.apply(inventory.kind(item).path(meta.get("namespace", ""), meta["name"]), item)
        note.applied[inventory.identity(item)] = made["metadata"]["uid"]


def _scoped(inventory: Inventory, objects: Sequence[Object]) -> list[Object]:
    """As the API server has them: objects of its own kinds without a namespace are in ``default``, those of no namespace have none."""
    found = []
    for item in objects:
        known = inventory.kinds.get((item["apiVersion"].rpartition("/")[0], item["kind"]))
        meta = dict(item["metadata"])
        if known and known.namespaced:
            meta.setdefault("namespace", "default")
        elif known:
            meta.pop("namespace", None)
        found.append({**item, "metadata": meta})
    return found


def _without(inventory: Inventory, objects: Sequence[Object], had: Collection[Identity], profile: str) -> list[Object]:
    """Without the namespaces that are there already, which stay as they are. Raises ClusterError when other objects are."""
    present = [item for item in objects if inventory.identity(item) in had]
    names = [str(Thing(inventory.kind(item), *inventory.identity(item)[2:], "")) for item in present if item["kind"] != "Namespace"]
    if names:
        more = f" and {len(names) - 5} more" if len(names) > 5 else ""
        raise ClusterError(
            f"{profile} would overwrite what others made: {', '.join(names[:5])}{more}",
            "another installation of it, or what is left of one? remove these first, or measure what is there: --cni current",
        )
    return [item for item in objects if item not in present]


def dry_run(access: Access, objects: Iterable[Object]) -> None:
    """Has the API server check objects as if they were applied. Raises ClusterError with its words."""
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
    access.kubectl("apply", "--server-side", "--force-conflicts", "--dry-run=server", "-f", "-", timeout=_APPLYING, input=text)


def images(access: Access, profile: Profile, settings: Mapping[str, str], variables: Mapping[str, str]) -> list[str]:
    """The images that the installation's own objects name (an operator may start others)."""
    if manifests.installation(profile).host_network:
        return []
    return manifests.images(manifests.render(access, profile, settings, variables))


def policies(access: Access, profile: Profile, namespace: str) -> None:
    """Applies the policies that a profile with ``policy: enforced`` has, in our namespace alone."""
    if profile.kubernetes is None or profile.kubernetes.policy != "enforced":
        return
    objects = manifests.own("policies.yaml")
    for item in objects:
        item["metadata"]["namespace"] = namespace
    access.apply(*objects)


def planned(
    access: Access, profile: Profile | None = None, settings: Mapping[str, str] | None = None, variables: Mapping[str, str] | None = None
) -> Removal | None:
    """What is to be removed: what is recorded; else the CNI of this profile, which somebody else installed, by the UIDs that its objects
    have now: those that its profile renders, and those of the helm release that made them. None when there is neither.

    Raises ClusterError, and what rendering raises.
    """
    with Rest(access) as rest:
        note = record.read(rest)
        if note is not None:
            return Removal(
                note.profile,
                note.about,
                Known(note.applied, note.profile, note.about.managers, note.before, note.about.bookkeeping),
                note.variables,
                note,
            )
        if profile is None or (about := manifests.installation(profile)).host_network:
            return None
        inventory = Inventory(rest)
        objects = _scoped(inventory, manifests.render(access, profile, settings or {}, variables or {}))
        things = inventory.things()
    wanted = {inventory.identity(item): number for number, item in enumerate(objects)}
    found = sorted((one for one in things if one.identity in wanted), key=lambda one: wanted[one.identity])
    releases = {one.release for one in found if one.release and one.kind.kind == "DaemonSet"}
    found += [one for one in things if one not in found and (one.release in releases or _notes(one) in releases)]
    return Removal(
        profile.name,
        about,
        Known({one.identity: one.uid for one in found}, "", about.managers, bookkeeping=about.bookkeeping),
        variables or {},
    )


def _notes(one: Thing) -> str:
    """The release NAMESPACE/NAME that a Secret is helm's own record of, '' for all else."""
    labels = dict(one.labels)
    return f"{one.namespace}/{labels.get('name')}" if one.kind.kind == "Secret" and labels.get("owner") == "helm" else "-"


def preview(access: Access, planned: Removal) -> list[str]:
    """The objects that would be deleted now, one a line. Raises BlockedError when it would take along those of others."""
    with Rest(access) as rest:
        inventory = Inventory(rest)
        found = belongings.find(planned.known, inventory.things())
    belongings.check(found, planned.name, inventory.unseen)
    return found.lines()


def uninstall(
    access: Access,
    profile: Profile | None,
    settings: Mapping[str, str],
    variables: Mapping[str, str],
    nodes: Sequence[KubernetesNode] = (),
    *,
    plan: Removal | None = None,
    saved: Path | None = None,
    say: Callable[[str], None] | None = None,
) -> None:
    """Removes what ``install`` made, from the API and from all nodes; or what ``plan`` says.

    Manifests of all that goes are written to the folder ``saved`` first, and ``say`` is told where they are. Pods of the cluster's
    own that had the CNI's network are recreated. Raises BlockedError, and then nothing was removed, when others have objects in
    what would go; ClusterError naming what could not be removed.
    """
    plan = plan or planned(access, profile, settings, variables)
    if plan is None:
        return
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

    with Rest(access) as rest:
        inventory = Inventory(rest)
        found = belongings.find(plan.known, inventory.things())
        belongings.check(found, plan.name, inventory.unseen)
        if saved is not None:
            paths = saving.save(rest, found, saved, plan.name)
            if say is not None:
                say(f"{plan.name} is removed from all {len(nodes)} nodes; {saving.told(paths)}")
        step("Pods", lambda: evict(access))
        _await_teardown(access, nodes)
        deletion.delete(inventory, plan.known, found, step)
        before = plan.record.marks if plan.record else {}
        step("nodes' metadata", lambda: deletion.clean_nodes(rest, plan.about, before))
        _clean_nodes(plan, [cidr for cidr in (known.get("pod_cidr", ""), known.get("pod_cidr_ipv6", "")) if cidr], nodes, step)
        step("Pods", lambda: admit(access))
        if failed:
            told = "; ".join(f"{what}: {error.message}" for what, error in failed)
            raise ClusterError(
                f"not all of {plan.name} could be removed: {told}", next((one.remedy for _, one in failed if one.remedy), "")
            )
        if plan.record:
            plan.record.remove(rest)
            on_each([node for node in nodes if node.host], removal.forget)


def _clean_nodes(
    plan: Removal, cidrs: Sequence[str], nodes: Sequence[KubernetesNode], step: Callable[[str, Callable[[], None]], None]
) -> None:
    """Twice: a plugin that the runtime called just before its configuration went may write its files again (Cilium's deleteQueue)."""

    def clean(node: KubernetesNode) -> None:
        if plan.record is not None and not plan.record.remembered:
            return  # nothing was begun
        copied = plan.record.copied.get(node.facts.name, ()) if plan.record else ()
        known = plan.record is not None and node.facts.name in plan.record.marks  # else it is new, or the CNI is not ours
        had, sysctls = removal.before(node) if known else (None, None)
        for last in (False, True):
            removal.clean(node, plan.about, cidrs, copied, had, sysctls)
            if not last:
                removal.end_plugins(node)

    with ThreadPoolExecutor(max_workers=8) as pool:
        jobs = {node: pool.submit(clean, node) for node in nodes}
    for node, job in jobs.items():
        step(f"node {node.facts.name}", job.result)


def give_up(access: Access, nodes: Sequence[KubernetesNode]) -> None:
    """Forgets an installation without removing it: the CNI is the cluster's own from now on. Raises ClusterError."""
    with Rest(access) as rest:
        if note := record.read(rest):
            note.remove(rest)
    on_each([node for node in nodes if node.host], removal.forget)


def evict(access: Access) -> None:
    """Takes every Pod off the Pod network while the CNI can undo its part; controllers make new ones once ``admit`` lets them."""
    names = [item["metadata"]["name"] for item in access.get("nodes")["items"]]
    access.kubectl("taint", "nodes", *names, f"{TAINT}=:NoSchedule", "--overwrite")
    by_namespace: dict[str, list[str]] = {}
    for pod in access.get("pods", "--all-namespaces")["items"]:
        meta, spec = pod["metadata"], pod["spec"]
        if not spec.get("hostNetwork") and spec.get("nodeName") and meta.get("ownerReferences"):
            by_namespace.setdefault(meta["namespace"], []).append(meta["name"])
    for namespace, pods in by_namespace.items():
        for force in (["--grace-period=2"], ["--grace-period=0", "--force"]):  # without a CNI, no sandbox ever ends properly
            options = ("--ignore-not-found", *force, f"--timeout={_LEAVING:.0f}s")
            done = access.kubectl("delete", "pods", "-n", namespace, *pods, *options, timeout=_LEAVING + 10, check=False)
            if not done.returncode:
                break
        else:
            raise access.error(done)


def _await_teardown(access: Access, nodes: Sequence[KubernetesNode]) -> None:
    """Waits, not for ever, until the runtime has taken the evicted Pods off the network: the API forgets a Pod before that is done.

    The runtime keeps one network namespace for each Pod that is not on its node's network (containerd's ``/run/netns/cni-*``).
    """
    deadline = time.monotonic() + _LEAVING
    waiting = [node for node in nodes if node.host]
    while waiting and time.monotonic() < deadline:
        pods = [item["spec"] for item in access.get("pods", "--all-namespaces")["items"]]
        staying = [spec.get("nodeName") for spec in pods if not spec.get("hostNetwork")]
        counts = zip(waiting, on_each(waiting, _networks), strict=True)
        waiting = [node for node, count in counts if count > staying.count(node.facts.name)]
        if waiting:
            time.sleep(0.3)


def _networks(node: KubernetesNode) -> int:
    script = f"ls {HOST}/run/netns 2>/dev/null | grep -c ^cni-"
    return int(node.run(["sh", "-c", script], timeout=remains.QUICK, check=False).stdout.strip() or 0)


def admit(access: Access) -> None:
    """Takes the taint of ``evict`` away."""
    tainted = [
        item["metadata"]["name"]
        for item in access.get("nodes")["items"]
        if any(taint["key"] == TAINT for taint in item["spec"].get("taints") or ())
    ]
    if tainted:
        access.kubectl("taint", "nodes", *tainted, f"{TAINT}:NoSchedule-")


def _groups(objects: Sequence[Object]) -> list[list[Object]]:
    """Namespaces, then definitions, then the rest: an object of a defined kind can be applied when its definition is established."""
    first = [[item for item in objects if item["kind"] == kind] for kind in _FIRST]
    return [group for group in (*first, [item for item in objects if item["kind"] not in _FIRST]) if group]


def _pull_secrets(access: Access, objects: Sequence[Object], name: str, profile: str) -> list[Object]:
    """The secret NAMESPACE/NAME that a registry asks for, once more in each namespace whose Pods name it."""
    namespace, slash, plain = name.partition("/")
    if not slash:
        return []
    secret = access.get("secret", plain, "-n", namespace)
    wanted = {str(item["metadata"].get("namespace", "")) for item in objects if manifests.images([item])} - {"", namespace}
    return [
        {"apiVersion": "v1", "kind": "Secret", "type": secret["type"], "data": secret["data"],
         "metadata": {"name": plain, "namespace": one, "labels": {LABEL: profile}}}
        for one in sorted(wanted)
    ]  # fmt: skip
