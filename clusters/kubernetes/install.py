"""Installing a profile's real CNI on a cluster.

What is installed is first written down (``record``), the UIDs of what was made after each group of
objects: whatever ends the process, the next one knows what there is to remove, and removes nothing
else. What fails half way is removed again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from cnibench.clusters.kubernetes.api.access import Access
from cnibench.clusters.kubernetes.api.rest import Rest
from cnibench.clusters.kubernetes.cni import manifests, plugins, pod_specs, wait
from cnibench.clusters.kubernetes.cni.manifests import LABEL
from cnibench.clusters.kubernetes.cni.pod_specs import Object
from cnibench.clusters.kubernetes.nodes.places import KubernetesNode, on_each
from cnibench.clusters.kubernetes.pods import policy_objects
from cnibench.clusters.kubernetes.removal import eviction, node_objects, record, selection
from cnibench.clusters.kubernetes.removal import nodes as removal
from cnibench.clusters.kubernetes.removal.inventory import Identity, Inventory, Thing, thing
from cnibench.clusters.kubernetes.removal.record import Record
from cnibench.clusters.kubernetes.removal.uninstallation import (
    Removal,
    give_up,
    outlook,
    planned,
    preview,
    uninstall,
)
from cnibench.errors import ClusterError, CnibenchError
from cnibench.model.profile import Profile
from cnibench.system.interrupt import cleaning_up, uninterrupted

RECORD = record.NAME
_APPLYING = 120.0  # s
_FIRST = ("Namespace", "CustomResourceDefinition")

archives = manifests.archives
recorded = record.profile

__all__ = [
    "RECORD",
    "Removal",
    "archives",
    "dry_run",
    "give_up",
    "images",
    "install",
    "outlook",
    "planned",
    "policies",
    "preview",
    "recorded",
    "settled",
    "uninstall",
]


def install(
    access: Access,
    profile: Profile,
    settings: Mapping[str, str],
    variables: Mapping[str, str],
    nodes: Sequence[KubernetesNode] = (),
) -> dict[str, str]:
    """Applies all of it and returns the SHA-256 of each chart and manifest; ``wait.ready`` waits.
    ``nodes`` are all nodes of the cluster.

    Raises UsageError for a --set that means nothing, ClusterError when something is installed
    already, when objects of others have the names of those that would be made, or when it cannot be
    installed; then nothing stays.
    """
    about = manifests.installation(profile)
    manifests.check(profile, settings)
    if about.host_network:
        return {}
    if there := recorded(access):
        raise ClusterError(
            f"an earlier run installed {there} on this cluster and did not remove it",
            "remove it: cnibench clean",
        )
    rendered = manifests.render(access, profile, settings, variables)
    objects = rendered.objects
    secrets = _pull_secrets(access, objects, variables.get("pull_secret", ""), profile.name)
    rest = Rest(access)
    inventory = Inventory(rest)
    there_before = inventory.things()
    had = {one.identity for one in there_before}
    objects = inventory.scoped(
        [*objects, *(item for item in secrets if inventory.identity(item) not in had)]
    )
    objects = _without(inventory, objects, had, profile.name)
    copied = plugins.missing(nodes, about.plugins)
    note = Record(
        profile.name,
        about,
        {inventory.identity(item): "" for item in objects},
        {key: variables[key] for key in ("pod_cidr", "pod_cidr_ipv6") if variables.get(key)},
        copied,
        frozenset(one.uid for one in there_before),
        node_objects.marks(rest),
        owner=variables.get("owner", ""),
        run=variables.get("run", ""),
    )
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
            note.note(rest)  # who slept until somebody took the cluster over applies nothing more
            try:
                _apply(inventory, note, group)
            finally:
                note.note(rest)
            wait.established(
                access, [item for item in group if item["kind"] == "CustomResourceDefinition"]
            )
        eviction.admit(access)
        return rendered.sources
    except CnibenchError as failure:
        error = failure
    except BaseException as end:  # Ctrl-C, for instance
        with cleaning_up(end):
            uninstall(access, profile, variables, nodes)
        raise
    try:
        with uninterrupted():
            uninstall(access, profile, variables, nodes)
    except CnibenchError as second:
        raise ClusterError(
            f"{profile.name} could not be installed: {error.message}; and not all of it be removed:"
            f" {second.message}",
            second.remedy,
        ) from None
    raise type(error)(
        f"{profile.name} could not be installed, and was removed again: {error.message}",
        error.remedy,
    ) from None


def settled(profile: Profile, nodes: Sequence[KubernetesNode]) -> None:
    """To be called when the CNI is ready: what changes on the nodes from now on is not its
    installation. Raises ClusterError.
    """
    if manifests.installation(profile).host_network:  # nothing was installed
        return
    on_each([node for node in nodes if node.host], removal.remember_settings)


def _apply(inventory: Inventory, note: Record, objects: Sequence[Object]) -> None:
    for item in objects:
        meta = item["metadata"]
        kind = inventory.kind(item)
        path = kind.path(meta.get("namespace", ""), meta["name"])
        if there := inventory.rest.get(path):  # its programs may be quicker than we are
            other = thing(kind, there["metadata"])
            if not selection.is_own(note.about.managers, other):
                raise ClusterError(
                    f"{note.profile} would overwrite objects that others created in the meantime:"
                    f" {other}",
                    "another installation of it? measure what is there: --cni current",
                )
        made = inventory.rest.apply(path, item)
        note.applied[inventory.identity(item)] = made["metadata"]["uid"]


def _without(
    inventory: Inventory, objects: Sequence[Object], had: Collection[Identity], profile: str
) -> list[Object]:
    """Without the namespaces that are there already, which stay as they are. Raises ClusterError
    when other objects are.
    """
    present = [item for item in objects if inventory.identity(item) in had]
    names = [
        str(Thing(inventory.kind(item), *inventory.identity(item)[2:], ""))
        for item in present
        if item["kind"] != "Namespace"
    ]
    if names:
        more = f" and {len(names) - 5} more" if len(names) > 5 else ""
        raise ClusterError(
            f"{profile} would overwrite what others made: {', '.join(names[:5])}{more}",
            "another installation of it, or what is left of one? remove these first, or measure"
            " what is there: --cni current",
        )
    return [item for item in objects if item not in present]


def dry_run(access: Access, objects: Iterable[Object]) -> None:
    """Has the API server check objects as if they were applied. Raises ClusterError with its
    words.
    """
    access.apply(*objects, dry_run=True, timeout=_APPLYING)


def images(
    access: Access, profile: Profile, settings: Mapping[str, str], variables: Mapping[str, str]
) -> list[str]:
    """The images that the installation's own objects name (an operator may start others)."""
    if manifests.installation(profile).host_network:
        return []
    return pod_specs.images(manifests.render(access, profile, settings, variables).objects)


def policies(access: Access, profile: Profile, namespace: str) -> None:
    """Applies the policies that a profile with ``policy: enforced`` has, in our namespace alone."""
    if profile.kubernetes is None or profile.kubernetes.policy != "enforced":
        return
    access.apply(*policy_objects.pairs(namespace))


def _groups(objects: Sequence[Object]) -> list[list[Object]]:
    """Namespaces, then definitions, then the rest: an object of a defined kind can be applied when
    its definition is established.
    """
    first = [[item for item in objects if item["kind"] == kind] for kind in _FIRST]
    return [
        group
        for group in (*first, [item for item in objects if item["kind"] not in _FIRST])
        if group
    ]


def _pull_secrets(
    access: Access, objects: Sequence[Object], name: str, profile: str
) -> list[Object]:
    """The secret NAMESPACE/NAME that a registry asks for, once more in each namespace whose Pods
    name it.
    """
    namespace, slash, plain = name.partition("/")
    if not slash:
        return []
    secret = access.get("secrets", plain, namespace)
    wanted = {
        str(item["metadata"].get("namespace", "")) for item in objects if pod_specs.images([item])
    } - {"", namespace}
    return [
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": secret["type"],
            "data": secret["data"],
            "metadata": {"name": plain, "namespace": one, "labels": {LABEL: profile}},
        }
        for one in sorted(wanted)
    ]
