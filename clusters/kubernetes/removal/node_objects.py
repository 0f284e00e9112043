"""The annotations, labels and taints that a CNI's programs leave on the Node objects: removed, with
the commands that put them back.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cnibench.clusters.kubernetes.api.operations import Object
from cnibench.clusters.kubernetes.api.rest import Rest
from cnibench.clusters.kubernetes.removal.record import Marks
from cnibench.errors import ClusterError
from cnibench.model.installation import Installation

_TRIES = 5  # to change nodes, which kubelets change as well


@dataclass(frozen=True)
class _Change:
    """What goes from one Node object: annotations and labels by key, and taints; ``kept`` are the
    taints that stay.
    """

    meta: Object
    annotations: Object
    labels: Object
    taints: Sequence[Object]
    kept: Sequence[Object]


def marks(rest: Rest) -> Marks:
    """The keys of annotations, labels and taints that each node has. Raises ClusterError."""
    return {
        node["metadata"]["name"]: {
            "annotations": sorted(node["metadata"].get("annotations") or {}),
            "labels": sorted(node["metadata"].get("labels") or {}),
            "taints": sorted({item["key"] for item in node["spec"].get("taints") or ()}),
        }
        for node in _nodes(rest)
    }


def lines(rest: Rest, about: Installation, before: Marks) -> list[str]:
    """What ``clean`` would remove now, for the user to read. Raises ClusterError."""
    return [
        f"{kind} {key} of Node {change.meta['name']}"
        for change in _changes(rest, about, before)
        for kind, keys in (
            ("annotation", change.annotations),
            ("label", change.labels),
            ("taint", map(_taint, change.taints)),
        )
        for key in keys
    ]


def restoring(rest: Rest, about: Installation, before: Marks) -> list[str]:
    """The kubectl commands that put back what ``clean`` would remove now, quoted for a shell.
    Raises ClusterError.
    """
    return [
        shlex.join(("kubectl", verb, "node", change.meta["name"], *words))
        for change in _changes(rest, about, before)
        for verb, words in (
            ("annotate", [f"{key}={value}" for key, value in change.annotations.items()]),
            ("label", [f"{key}={value}" for key, value in change.labels.items()]),
            ("taint", [_taint(one) for one in change.taints]),
        )
        if words
    ]


def clean(rest: Rest, about: Installation, before: Marks) -> None:
    """Removes from the Node objects the annotations and labels that the CNI's programs wrote, and
    its taints, if they were not there before. Raises ClusterError.
    """
    for _ in range(_TRIES):
        removed = [_remove(rest, change) for change in _changes(rest, about, before)]
        if all(removed):
            return
    raise ClusterError(
        "the Node objects keep changing: their taints stay", "kubectl describe nodes"
    )


def _changes(rest: Rest, about: Installation, before: Marks) -> Iterator[_Change]:
    for node in _nodes(rest):
        meta, had = node["metadata"], before.get(node["metadata"]["name"], {})
        own: dict[str, Object] = {
            what: {
                key: value
                for key, value in sorted((meta.get(what) or {}).items())
                if key in _written(meta, what, about.managers) and key not in had.get(what, ())
            }
            for what in ("annotations", "labels")
        }
        taints = node["spec"].get("taints") or []
        going = [
            item
            for item in taints
            if item["key"] in about.leaves.taints and item["key"] not in had.get("taints", ())
        ]
        if going or any(own.values()):
            kept = [item for item in taints if item not in going]
            yield _Change(meta, own["annotations"], own["labels"], going, kept)


def _remove(rest: Rest, change: _Change) -> bool:
    """False when somebody has changed the node meanwhile, as kubelets do."""
    metadata: Object = {"uid": change.meta["uid"]}
    for what, own in (("annotations", change.annotations), ("labels", change.labels)):
        if own:
            metadata[what] = dict.fromkeys(own)
    body: Object = {"metadata": metadata}
    if change.taints:
        body |= {"spec": {"taints": list(change.kept)}}
        # A list is replaced: nobody else's change may get lost.
        metadata["resourceVersion"] = change.meta["resourceVersion"]
    return rest.patch(f"/api/v1/nodes/{change.meta['name']}", body)


def _taint(item: Object) -> str:
    """As kubectl taint takes it."""
    value = f"={item['value']}" if item.get("value") else ""
    return f"{item['key']}{value}:{item['effect']}"


def _written(meta: Object, what: str, managers: Sequence[str]) -> set[str]:
    """The keys that only these write."""
    found: dict[bool, set[str]] = {True: set(), False: set()}
    for one in meta.get("managedFields") or ():
        keys = one.get("fieldsV1", {}).get("f:metadata", {}).get(f"f:{what}", {})
        found[one.get("manager") in managers] |= {
            key.removeprefix("f:") for key in keys if key.startswith("f:")
        }
    return found[True] - found[False]


def _nodes(rest: Rest) -> list[Object]:
    return list((rest.get("/api/v1/nodes") or {}).get("items") or ())
