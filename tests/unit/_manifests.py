"""An API server that has the objects of manifests, as far as recognition asks it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from cnibench.clusters.kubernetes.api.access import DeniedError

GOLDEN = Path(__file__).parents[1] / "golden" / "cni_manifests"


def golden(*names: str) -> list[dict[str, Any]]:
    """The objects in these files, each of which says where it is from."""
    return [
        one
        for name in names
        for one in yaml.safe_load_all((GOLDEN / f"{name}.yaml").read_text())
        if one
    ]


class Cluster:
    """``denied`` are names KIND/NAMESPACE/NAME that may not be read, ``asked`` those that were."""

    def __init__(self, objects: Iterable[Mapping[str, Any]], denied: Collection[str] = ()) -> None:
        self.objects = {_name(one): one for one in objects}
        self.denied = denied
        self.asked: list[str] = []

    def find(self, kind: str, name: str, namespace: str = "") -> Mapping[str, Any] | None:
        where = [namespace] if namespace else []
        asked = "/".join([kind.partition(".")[0], *where, name])
        self.asked.append(asked)
        if asked in self.denied:
            raise DeniedError(f'{asked} is forbidden: User "x" cannot get it')
        return self.objects.get(asked)

    def listed(self, kind: str) -> list[Mapping[str, Any]]:
        return [
            one for one in self.objects.values() if one["kind"].lower() == kind.removesuffix("s")
        ]


def node(name: str, ready: str = "True", message: str = "") -> dict[str, Any]:
    condition = {"type": "Ready", "status": ready, "message": message}
    return {"kind": "Node", "metadata": {"name": name}, "status": {"conditions": [condition]}}


def _name(one: Mapping[str, Any]) -> str:
    meta = one["metadata"]
    where = [meta["namespace"]] if "namespace" in meta else []
    return "/".join([one["kind"].lower(), *where, meta["name"]])
