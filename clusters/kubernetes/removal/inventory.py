"""All objects that a cluster has, by their metadata: what each is, its UID, who wrote it and what
owns it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from cnibench.clusters.kubernetes.api import objects
from cnibench.clusters.kubernetes.api.kinds import Kind, group
from cnibench.clusters.kubernetes.api.rest import Rest
from cnibench.clusters.kubernetes.cni.manifests import LABEL
from cnibench.clusters.kubernetes.cni.pod_specs import Object
from cnibench.errors import ClusterError

DEFINITION = "CustomResourceDefinition"
_FLEETING = ("events",)  # nobody owns what the cluster says of itself
_RELEASE = ("meta.helm.sh/release-namespace", "meta.helm.sh/release-name")
_AT_ONCE = 8  # requests

_T = TypeVar("_T")
Identity = tuple[str, str, str, str]  # API group, kind, namespace ('' for none), name


@dataclass(frozen=True)
class Thing:
    """One object. ``managers`` wrote its fields, those of its status aside; ``owners`` are UIDs.

    ``release`` is NAMESPACE/NAME of the helm release that it is of, '' for none.
    """

    kind: Kind
    namespace: str
    name: str
    uid: str
    managers: frozenset[str] = frozenset()
    owners: frozenset[str] = frozenset()
    labels: tuple[tuple[str, str], ...] = ()
    release: str = ""

    @property
    def identity(self) -> Identity:
        return self.kind.group, self.kind.kind, self.namespace, self.name

    @property
    def path(self) -> str:
        return self.kind.path(self.namespace, self.name)

    @property
    def profile(self) -> str:
        """The profile that we made it for, by its label; '' for none."""
        return dict(self.labels).get(LABEL, "")

    @property
    def of_a_run(self) -> bool:
        return dict(self.labels).get(objects.OURS) == objects.NAME

    def __str__(self) -> str:
        return f"{self.kind.kind} {self.namespace + '/' if self.namespace else ''}{self.name}"


def thing(kind: Kind, metadata: Mapping[str, Any]) -> Thing:
    """Out of an object's metadata."""
    writers = (
        one for one in metadata.get("managedFields") or () if one.get("subresource") != "status"
    )
    annotations = metadata.get("annotations") or {}
    return Thing(
        kind,
        str(metadata.get("namespace") or ""),
        str(metadata["name"]),
        str(metadata["uid"]),
        managers=frozenset(str(one.get("manager", "")) for one in writers),
        owners=frozenset(str(one["uid"]) for one in metadata.get("ownerReferences") or ()),
        labels=tuple(sorted((metadata.get("labels") or {}).items())),
        release=(
            "/".join(str(annotations[key]) for key in _RELEASE)
            if all(key in annotations for key in _RELEASE)
            else ""
        ),
    )


class Inventory:
    """What the API server serves, and what is there; asked again by each call of ``things``."""

    def __init__(self, rest: Rest) -> None:
        self.rest = rest
        self.kinds: dict[tuple[str, str], Kind] = {}
        self.unseen: list[Kind] = []  # could not be listed the last time

    def _look(self) -> None:
        """Every group's kinds, each in the version that the API server prefers. A group whose own
        server is down has none.
        """
        versions = ["v1"]
        for one in (self.rest.get("/apis") or {}).get("groups", ()):
            preferred = one["preferredVersion"]["groupVersion"]
            versions += [
                preferred,
                *(
                    item["groupVersion"]
                    for item in one["versions"]
                    if item["groupVersion"] != preferred
                ),
            ]
        self.kinds = {}
        for api, served in zip(versions, _together(self.rest.kinds, versions), strict=True):
            for item in served:
                if (
                    "/" not in item["name"]
                    and {"list", "delete"} <= set(item["verbs"])
                    and item["name"] not in _FLEETING
                ):
                    self.kinds.setdefault(
                        (group(api), item["kind"]),
                        Kind(api, item["kind"], item["name"], item["namespaced"]),
                    )

    def kind(self, item: Mapping[str, Any]) -> Kind:
        """Of an object, in its own version. Raises ClusterError when the API server does not know
        it.
        """
        key = (group(item["apiVersion"]), item["kind"])
        if key not in self.kinds:
            self._look()  # its definition may be new
        if key not in self.kinds:
            raise ClusterError(
                f"the API server knows no {item['kind']} of {item['apiVersion']}",
                "is the profile for this Kubernetes?",
            )
        known = self.kinds[key]
        return Kind(item["apiVersion"], known.kind, known.plural, known.namespaced)

    def identity(self, item: Mapping[str, Any]) -> Identity:
        """Of an object that may be of a kind which is not known yet."""
        meta = item["metadata"]
        return (
            group(item["apiVersion"]),
            item["kind"],
            str(meta.get("namespace") or ""),
            str(meta["name"]),
        )

    def scoped(self, objects: Sequence[Object]) -> list[Object]:
        """As the API server has them: objects of its own kinds without a namespace are in
        ``default``, those of no namespace have none.
        """
        found = []
        for item in objects:
            known = self.kinds.get((group(item["apiVersion"]), item["kind"]))
            meta = dict(item["metadata"])
            if known and known.namespaced:
                meta.setdefault("namespace", "default")
            elif known:
                meta.pop("namespace", None)
            found.append({**item, "metadata": meta})
        return found

    def things(self) -> list[Thing]:
        """All that is there; each object once, although several groups may serve it. Raises
        ClusterError.
        """
        self._look()
        found: dict[str, Thing] = {}
        self.unseen = []
        paths = [kind.path() for kind in self.kinds.values()]
        lists = _together(self.rest.metadata, paths)
        for kind, listed in zip(self.kinds.values(), lists, strict=True):
            if listed is None:
                self.unseen.append(kind)
            for item in listed or ():
                if item["metadata"].get("uid"):
                    found.setdefault(item["metadata"]["uid"], thing(kind, item["metadata"]))
        return list(found.values())


def _together(ask: Callable[[str], _T], paths: Sequence[str]) -> Iterator[_T]:
    """The answer to each of these, in their order: there are a hundred, and the way to the API
    server may be long.
    """
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        yield from pool.map(ask, paths)


def defined_by(definition: Thing, things: Sequence[Thing]) -> list[Thing]:
    """The objects of a custom resource definition, whose name is PLURAL.GROUP."""
    return [one for one in things if one.kind.resource == definition.name]
