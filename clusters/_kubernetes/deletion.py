"""Deleting a CNI's objects from the API, also those that finalizers keep which nobody answers any more."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from fnmatch import fnmatchcase

from cnibench.clusters._kubernetes.access import Access
from cnibench.clusters._kubernetes.manifests import Object
from cnibench.errors import LimitError
from cnibench.installation import Installation

GOING = 90.0  # s that objects are given to be gone
_FREEING = 5.0  # s between two looks at what keeps a definition


def delete_objects(access: Access, objects: Sequence[Object]) -> None:
    """The last applied first; definitions are for ``delete_definitions``, which knows what keeps them. Raises ClusterError, LimitError."""
    which = [item for item in reversed(objects) if item["kind"] != "CustomResourceDefinition"]
    if which:
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": which})
        options = ("--ignore-not-found", "--cascade=foreground", f"--timeout={GOING:.0f}s")
        access.kubectl("delete", "-f", "-", *options, timeout=GOING + 10, input=text)


def delete(access: Access, name: str) -> None:
    """RESOURCE/NAME or RESOURCE/NAMESPACE/NAME, and its absence waited for; what finalizers keep too long loses them."""
    resource, *rest = name.split("/")
    where = ["-n", rest[0]] if len(rest) == 2 else []
    done = access.kubectl(
        "delete", resource, rest[-1], *where, "--ignore-not-found", f"--timeout={GOING:.0f}s", timeout=GOING + 10, check=False
    )
    if not done.returncode or "the server doesn't have a resource type" in done.stderr:
        return
    if "timed out" not in done.stderr:
        raise access.error(done)
    access.kubectl("patch", resource, rest[-1], *where, "--type=merge", "-p", '{"metadata":{"finalizers":null}}', check=False)
    access.kubectl("delete", resource, rest[-1], *where, "--ignore-not-found", "--timeout=30s", timeout=40)


def delete_matching(access: Access, resources: Sequence[str], patterns: Sequence[str]) -> None:
    if not patterns:
        return
    for resource in resources:
        names = [item["metadata"]["name"] for item in access.get(resource)["items"]]
        gone = [name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns)]
        if gone:
            access.kubectl("delete", resource, *gone, "--ignore-not-found", timeout=GOING)


def delete_definitions(access: Access, patterns: Sequence[str]) -> None:
    """Custom resource definitions with all their objects, whose finalizers nobody answers any more. Raises ClusterError, LimitError."""
    if not patterns:
        return

    def left() -> list[Object]:
        items = access.get("customresourcedefinitions")["items"]
        return [item for item in items if any(fnmatchcase(item["metadata"]["name"], pattern) for pattern in patterns)]

    begun = freed = time.monotonic()
    while remaining := left():
        again = [item["metadata"]["name"] for item in remaining if not item["metadata"].get("deletionTimestamp")]
        if again:  # also one that somebody made after the others went
            access.kubectl("delete", "customresourcedefinition", *again, "--wait=false", "--ignore-not-found", timeout=GOING)
        if time.monotonic() > begun + GOING:
            raise LimitError(f"custom resource definitions are still there after {GOING:.0f} s: {'; '.join(map(_standing, remaining))}")
        if time.monotonic() > freed + _FREEING:
            freed = time.monotonic()
            for item in remaining:
                _free(access, item["metadata"]["name"], also_itself=freed > begun + GOING / 3)
        time.sleep(0.5)


def _standing(definition: Object) -> str:
    """Its name, with what the API server says of its end."""
    said = [item.get("message", "") for item in definition.get("status", {}).get("conditions") or () if item["type"] == "Terminating"]
    return f"{definition['metadata']['name']} ({', '.join(said) or 'not called ending'})"


def _free(access: Access, definition: str, *, also_itself: bool) -> None:
    """Takes the finalizers of a definition's objects away, and its own when it has no objects: the API server may take minutes over it."""
    done = access.kubectl("get", definition, "--all-namespaces", "-o", "json", check=False)
    if done.returncode:
        return  # it went meanwhile, or is asked again
    items = json.loads(done.stdout)["items"]
    unfinished = ("--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    for item in items:
        if item["metadata"].get("finalizers"):
            where = ["-n", item["metadata"]["namespace"]] if item["metadata"].get("namespace") else []
            access.kubectl("patch", definition, item["metadata"]["name"], *where, *unfinished, check=False)
    if also_itself and not items:
        access.kubectl("patch", "customresourcedefinition", definition, *unfinished, check=False)


def clean_metadata(access: Access, about: Installation) -> None:
    """Annotations, labels and taints of nodes."""
    leaves = about.leaves
    for node in access.get("nodes")["items"]:
        meta, name = node["metadata"], node["metadata"]["name"]
        annotations = [key for key in meta.get("annotations") or {} if _matches(key, leaves.annotations)]
        labels = [key for key in meta.get("labels") or {} if _matches(key, leaves.labels)]
        taints = [item for item in node["spec"].get("taints") or () if _matches(item["key"], leaves.taints)]
        if annotations:
            access.kubectl("annotate", "node", name, *(f"{key}-" for key in annotations))
        if labels:
            access.kubectl("label", "node", name, *(f"{key}-" for key in labels))
        if taints:
            access.kubectl("taint", "node", name, *(f"{item['key']}:{item['effect']}-" for item in taints))


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
