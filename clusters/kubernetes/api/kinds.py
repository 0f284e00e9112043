"""Kinds of objects: by which names people call them, and where an API server has them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

# One answer for all groups (apidiscovery.k8s.io; v2beta1 before Kubernetes 1.30).
ALL = ",".join(
    f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
    for version in ("v2", "v2beta1")
)


def group(api: str) -> str:
    """Of group/version; '' is the core group."""
    return api.rpartition("/")[0]


@dataclass(frozen=True)
class Kind:
    """A kind of object as the API server serves it; ``api`` is group/version."""

    api: str
    kind: str
    plural: str
    namespaced: bool

    @property
    def group(self) -> str:
        return group(self.api)

    @property
    def resource(self) -> str:
        """PLURAL.GROUP, as kubectl takes it and definitions are named."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str = "", name: str = "") -> str:
        root = f"/apis/{self.api}" if "/" in self.api else f"/api/{self.api}"
        where = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        return f"{root}{where}/{self.plural}" + (f"/{name}" if name else "")


def _of(api: str, namespaced: bool, *names: str) -> Iterator[Kind]:
    for name in names:
        plural = name.lower()
        plural = plural[:-1] + "ies" if plural.endswith("y") else plural + "s"
        yield Kind(api, name, plural, namespaced)


# What every API server has in this version: nothing is asked about these. All of v1 is among them,
# of which there is no discovery in one answer with the other groups.
BUILT_IN = (
    *_of("v1", True, "Pod", "Service", "ConfigMap", "Secret", "Event", "ServiceAccount"),
    *_of("v1", True, "LimitRange", "PersistentVolumeClaim", "PodTemplate", "ResourceQuota"),
    *_of("v1", True, "ReplicationController"),
    Kind("v1", "Endpoints", "endpoints", True),
    *_of("v1", False, "Namespace", "Node", "PersistentVolume"),
    *_of("apps/v1", True, "DaemonSet", "Deployment", "StatefulSet", "ReplicaSet"),
    *_of("rbac.authorization.k8s.io/v1", True, "Role", "RoleBinding"),
    *_of("rbac.authorization.k8s.io/v1", False, "ClusterRole", "ClusterRoleBinding"),
    *_of("networking.k8s.io/v1", True, "NetworkPolicy"),
    *_of("coordination.k8s.io/v1", True, "Lease"),
    *_of("discovery.k8s.io/v1", True, "EndpointSlice"),
    *_of("apiextensions.k8s.io/v1", False, "CustomResourceDefinition"),
)


def named(found: Iterable[Kind], name: str) -> Kind | None:
    """The one that is called so: the kind in any case, singular or plural, or that with .GROUP."""
    wanted, _, of = name.lower().partition(".")
    for kind in found:
        if wanted in (kind.plural, kind.kind.lower()) and of in ("", kind.group):
            return kind
    return None


def made_of(found: Iterable[Kind], item: Mapping[str, Any]) -> Kind | None:
    """That of an object, in the object's own version."""
    for kind in found:
        if kind.kind == item["kind"] and kind.group == group(item["apiVersion"]):
            return Kind(item["apiVersion"], kind.kind, kind.plural, kind.namespaced)
    return None


def discovered(body: Mapping[str, Any]) -> list[Kind]:
    """All in an APIGroupDiscoveryList, each in the version that the server prefers."""
    found: dict[tuple[str, str], Kind] = {}
    for one in body.get("items") or ():
        name = one.get("metadata", {}).get("name", "")
        for version in one.get("versions") or ():
            api = f"{name}/{version['version']}" if name else version["version"]
            for item in version.get("resources") or ():
                made = (item.get("responseKind") or {}).get("kind")
                if made:
                    kind = Kind(api, made, item["resource"], item.get("scope") == "Namespaced")
                    found.setdefault((name, made), kind)
    return list(found.values())
