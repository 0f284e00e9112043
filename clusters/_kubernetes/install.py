"""Installing a profile's real CNI on a cluster, and uninstalling it.

What is installed is first written to the ConfigMap kube-system/cnibench-installed, which goes last: whatever ends the process, the next one
knows what there is to remove. Everything is applied on the server's side; what fails half way is removed again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import yaml

from cnibench.clusters._kubernetes import deletion, manifests, plugins, remains, removal, wait
from cnibench.clusters._kubernetes.access import Access, UnreachableError
from cnibench.clusters._kubernetes.lease import OWNER
from cnibench.clusters._kubernetes.manifests import LABEL, Object
from cnibench.clusters._kubernetes.objects import HOST, RUN
from cnibench.clusters._kubernetes.places import KubernetesNode, on_each
from cnibench.errors import ClusterError, CnibenchError
from cnibench.installation import Installation
from cnibench.profile import Profile

RECORD = "cnibench-installed"
TAINT = "cnibench.io/changing-the-network"  # keeps Pods away while one CNI goes and the next comes
_APPLYING = 120.0  # s
_LEAVING = 30.0  # s that Pods are given to leave a network
_FIRST = ("Namespace", "CustomResourceDefinition")

archives = manifests.archives


def install(
    access: Access, profile: Profile, settings: Mapping[str, str], variables: Mapping[str, str], nodes: Sequence[KubernetesNode] = ()
) -> None:
    """Applies all of it and returns; ``wait.ready`` waits. ``nodes`` are all nodes of the cluster.

    Raises UsageError for a --set that means nothing, ClusterError when something is installed already or cannot be; then nothing stays.
    """
    about = manifests.installation(profile)
    manifests.check(profile, settings)
    if about.host_network:
        return
    if there := recorded(access):
        raise ClusterError(f"an earlier run installed {there} on this cluster and did not remove it", "remove it: cnibench clean")
    objects = manifests.render(access, profile, settings, variables)
    objects += _pull_secrets(access, objects, variables.get("pull_secret", ""))
    copied = plugins.missing(nodes, about.plugins)
    before = {node.facts.name: remains.sysctls(node) for node in nodes if node.host}
    access.apply(_record(profile, objects, variables, {"copied": copied, "sysctls": before}))
    try:
        plugins.copy(nodes, copied)
        for step in about.steps:
            if step.reference:
                plugins.configure(access, nodes, step.reference, settings)
        for group in _groups(objects):
            access.apply(*group, timeout=_APPLYING)
            wait.established(access, [item for item in group if item["kind"] == "CustomResourceDefinition"])
        admit(access)
    except CnibenchError as error:
        try:
            uninstall(access, profile, settings, variables, nodes)
        except CnibenchError as second:
            raise ClusterError(
                f"{profile.name} could not be installed: {error.message}; and not all of it be removed: {second.message}"
            ) from None
        raise type(error)(f"{profile.name} could not be installed, and was removed again: {error.message}", error.remedy) from None


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


def recorded(access: Access) -> str:
    """The profile that an earlier call installed and none removed; '' when there is none."""
    record = _read(access)
    return record.get("profile", "")


def save(access: Access, profile: Profile, folder: Path, settings: Mapping[str, str], variables: Mapping[str, str]) -> Path:
    """Writes the objects that a CNI of this profile has on the cluster to a file, as they are there; secrets are left out, and named.

    Raises ClusterError, InputError.
    """
    parts, left_out = [], []
    for item in _named(manifests.render(access, profile, settings, variables)):
        if item["kind"] == "Secret":
            left_out.append(f"{item['metadata'].get('namespace')}/{item['metadata']['name']}")
            continue
        done = access.kubectl("get", "-f", "-", "--ignore-not-found", "-o", "json", input=json.dumps(item), check=False)
        if not done.returncode and done.stdout.strip():
            parts.append(yaml.safe_dump(_plain(json.loads(done.stdout)), sort_keys=False))
    head = f"# {profile.title}, as it was before it was replaced; not here: {', '.join(left_out) or 'nothing'}\n"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{profile.name}.yaml"
    path.write_text(head + "---\n".join(parts))
    return path


def _plain(item: Object) -> Object:
    """Without what the API server writes, and refuses in an object that is made."""
    ours = {key: value for key, value in item["metadata"].items() if key in ("name", "namespace", "labels", "annotations")}
    return {key: ours if key == "metadata" else value for key, value in item.items() if key != "status"}


def uninstall(
    access: Access,
    profile: Profile | None,
    settings: Mapping[str, str],
    variables: Mapping[str, str],
    nodes: Sequence[KubernetesNode] = (),
) -> None:
    """Removes what ``install`` made, from the API and from all nodes; of what is recorded when ``profile`` is None.

    Without a record (somebody else installed it) the objects are those that the profile would install. Pods of the cluster's own that had
    the CNI's network are recreated. Raises ClusterError naming what could not be removed.
    """
    record = _read(access)
    if not record and profile is None:
        return
    about = Installation.model_validate_json(record["installation"]) if record else manifests.installation(profile) if profile else None
    if about is None or about.host_network:
        return
    known = {**json.loads(record.get("variables", "{}")), **variables}
    if record:
        objects = json.loads(record["objects"])
    else:
        assert profile is not None
        objects = _named(manifests.render(access, profile, settings, variables))
    failed: list[str] = []

    def step(what: str, action: Callable[[], None]) -> None:
        """One step's failure keeps no other from being tried, unless the cluster is gone."""
        try:
            action()
        except UnreachableError:
            raise
        except CnibenchError as error:
            failed.append(f"{what}: {error.message}")

    step("Pods", lambda: evict(access))
    _await_teardown(access, nodes)
    for name in about.delete_first:
        step(name, lambda name=name: deletion.delete(access, name))  # type: ignore[misc]
    step("objects", lambda: deletion.delete_objects(access, objects))
    for name in about.leaves.objects:
        step(name, lambda name=name: deletion.delete(access, name))  # type: ignore[misc]
    step(
        "webhooks",
        lambda: deletion.delete_matching(access, ("validatingwebhookconfiguration", "mutatingwebhookconfiguration"), about.leaves.webhooks),
    )
    step("definitions", lambda: deletion.delete_definitions(access, about.leaves.crds))
    step("nodes' metadata", lambda: deletion.clean_metadata(access, about))
    copied, before = json.loads(record.get("copied", "{}")), json.loads(record.get("sysctls", "{}"))
    cidrs = [cidr for cidr in (known.get("pod_cidr", ""), known.get("pod_cidr_ipv6", "")) if cidr]

    def clean(node: KubernetesNode) -> None:
        """Twice: a plugin that the runtime called just before its configuration went may write its files again (Cilium's deleteQueue)."""
        for last in (False, True):
            removal.clean(node, about, cidrs, copied.get(node.facts.name, ()), before.get(node.facts.name))
            if not last:
                removal.end_plugins(node)

    with ThreadPoolExecutor(max_workers=8) as pool:
        jobs = {node: pool.submit(clean, node) for node in nodes}
    for node, job in jobs.items():
        step(f"node {node.facts.name}", job.result)
    step("Pods", lambda: admit(access))
    if failed:
        raise ClusterError(
            f"not all of {record.get('profile') or (profile.name if profile else '')} could be removed: " + "; ".join(failed)
        )
    access.kubectl("delete", "configmap", RECORD, "-n", "kube-system", "--ignore-not-found")


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


def _pull_secrets(access: Access, objects: Sequence[Object], name: str) -> list[Object]:
    """The secret NAMESPACE/NAME that a registry asks for, once more in each namespace whose Pods name it."""
    namespace, slash, plain = name.partition("/")
    if not slash:
        return []
    secret = access.get("secret", plain, "-n", namespace)
    wanted = {str(item["metadata"].get("namespace", "")) for item in objects if manifests.images([item])} - {"", namespace}
    return [
        {"apiVersion": "v1", "kind": "Secret", "type": secret["type"], "data": secret["data"],
         "metadata": {"name": plain, "namespace": one, "labels": {LABEL: "pull-secret"}}}
        for one in sorted(wanted)
    ]  # fmt: skip


def _record(profile: Profile, objects: Sequence[Object], variables: Mapping[str, str], nodes: Mapping[str, Any]) -> Object:
    assert profile.kubernetes is not None
    kept = {key: variables[key] for key in ("pod_cidr", "pod_cidr_ipv6") if variables.get(key)}
    return {
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": RECORD, "namespace": "kube-system", "labels": {LABEL: profile.name}, **_owned(variables)},
        "data": {
            "profile": profile.name, "installation": profile.kubernetes.model_dump_json(), "objects": json.dumps(_named(objects)),
            "variables": json.dumps(kept), **{key: json.dumps(value) for key, value in nodes.items()},
        },
    }  # fmt: skip


def _owned(variables: Mapping[str, str]) -> dict[str, Any]:
    """Whose it is, in annotations: ``run`` and ``owner``."""
    known = {RUN: variables.get("run", ""), OWNER: variables.get("owner", "")}
    return {"annotations": {key: value for key, value in known.items() if value}}


def _named(objects: Sequence[Object]) -> list[Object]:
    """No more of each than what tells it from all others."""
    metadata = [{key: item["metadata"][key] for key in ("name", "namespace") if key in item["metadata"]} for item in objects]
    return [
        {"apiVersion": item["apiVersion"], "kind": item["kind"], "metadata": meta} for item, meta in zip(objects, metadata, strict=True)
    ]


def _read(access: Access) -> dict[str, str]:
    done = access.kubectl("get", "configmap", RECORD, "-n", "kube-system", "--ignore-not-found", "-o", "json")
    return dict(json.loads(done.stdout)["data"]) if done.stdout.strip() else {}
