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
    """Custom resource definitions with all their objects, whose finalizers nobody answers any more."""
    if not patterns:
        return

    def left() -> list[Object]:
        items = access.get("customresourcedefinitions")["items"]
        return [item for item in items if any(fnmatchcase(item["metadata"]["name"], pattern) for pattern in patterns)]

    names = [item["metadata"]["name"] for item in left()]
    if not names:
        return
    access.kubectl("delete", "customresourcedefinition", *names, "--wait=false", "--ignore-not-found", timeout=GOING)
    deadline = time.monotonic() + GOING
    freed: set[str] = set()
    while remaining := left():
        for item in remaining:
            if item["metadata"]["name"] not in freed and time.monotonic() > deadline - GOING + 5:
                freed.add(item["metadata"]["name"])
                _free(access, item["metadata"]["name"])
        if time.monotonic() > deadline:
            names = [item["metadata"]["name"] for item in remaining]
            raise LimitError(f"custom resource definitions are still there after {GOING:.0f} s: {', '.join(names)}")
        time.sleep(0.5)


def _free(access: Access, definition: str) -> None:
    """Takes the finalizers of a definition's objects away."""
    for item in access.get(definition, "--all-namespaces")["items"]:
        if item["metadata"].get("finalizers"):
            where = ["-n", item["metadata"]["namespace"]] if item["metadata"].get("namespace") else []
            access.kubectl(
                "patch", definition, item["metadata"]["name"], *where, "--type=merge", "-p", '{"metadata":{"finalizers":null}}', check=False
            )


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
