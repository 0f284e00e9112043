"""An API server that has the objects of manifests, as far as recognition asks it."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from cnibench.clusters.kubernetes.api.access import ClusterError, DeniedError
from cnibench.system.process import Done

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

    def kubectl(self, *argv: str, check: bool = True, **_: object) -> Done:
        assert argv[0] == "get"
        where = [argv[argv.index("-n") + 1]] if "-n" in argv else []
        name = "/".join([argv[1].partition(".")[0], *where, argv[2]])
        self.asked.append(name)
        if name in self.denied:
            said = f'Error from server (Forbidden): {name} is forbidden: User "x" cannot get it'
            return Done(argv, 1, "", said, 0.0)
        found = self.objects.get(name)
        return Done(argv, 0, json.dumps(found) if found else "", "", 0.0)

    def get(self, what: str, *_: str) -> dict[str, Any]:
        kind = what.removesuffix("s")
        return {"items": [one for one in self.objects.values() if one["kind"].lower() == kind]}

    def error(self, done: Done) -> ClusterError:
        return DeniedError(done.stderr)


def node(name: str, ready: str = "True", message: str = "") -> dict[str, Any]:
    condition = {"type": "Ready", "status": ready, "message": message}
    return {"kind": "Node", "metadata": {"name": name}, "status": {"conditions": [condition]}}


def _name(one: Mapping[str, Any]) -> str:
    meta = one["metadata"]
    where = [meta["namespace"]] if "namespace" in meta else []
    return "/".join([one["kind"].lower(), *where, meta["name"]])
