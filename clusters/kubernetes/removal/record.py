"""The word on the cluster of what is installed: a ConfigMap that is there before anything else and
goes last.

Whatever ends the process, the next one reads there what was applied (kind, name, UID), and what was
on the cluster before.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from pydantic import ValidationError

from cnibench.clusters.kubernetes.api.access import Access
from cnibench.clusters.kubernetes.api.objects import RUN
from cnibench.clusters.kubernetes.api.rest import Rest
from cnibench.clusters.kubernetes.cni.manifests import LABEL
from cnibench.clusters.kubernetes.ownership.lease import OWNER
from cnibench.clusters.kubernetes.removal.inventory import Identity
from cnibench.errors import ClusterError
from cnibench.model.installation import Installation

NAME = "cnibench-installed"
_FOLDER = "/api/v1/namespaces/kube-system/configmaps"
_PATH = f"{_FOLDER}/{NAME}"
_LARGEST = 900_000  # bytes: the API server takes 1 MiB

Marks = Mapping[str, Mapping[str, Sequence[str]]]  # node: annotations, labels, taints: keys


@dataclass
class Record:
    """What is known of one installation; ``copied`` maps nodes to the plugins that we put there,
    ``marks`` is what the nodes had.

    ``remembered``: each of those keeps on its disk what it had, and nothing was done to any before
    that. ``owner`` and ``run`` say whose it is.
    """

    profile: str
    about: Installation
    applied: dict[Identity, str]
    variables: Mapping[str, str] = field(default_factory=dict)
    copied: Mapping[str, Sequence[str]] = field(default_factory=dict)
    before: Collection[str] = frozenset()
    marks: Marks = field(default_factory=dict)
    remembered: bool = False
    owner: str = ""
    run: str = ""
    uid: str = ""

    def create(self, rest: Rest) -> None:
        """Raises ClusterError when there is one already, or when the cluster has more objects than
        one can note.
        """
        packed = _packed({"before": sorted(self.before), "marks": self.marks})
        owned = {key: value for key, value in ((RUN, self.run), (OWNER, self.owner)) if value}
        item = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": NAME,
                "namespace": "kube-system",
                "labels": {LABEL: self.profile},
                "annotations": owned,
            },
            "data": {
                "profile": self.profile,
                "installation": self.about.model_dump_json(),
                "variables": json.dumps(self.variables),
                "copied": json.dumps(self.copied),
                **self._changing(),
            },
            "binaryData": {"before": packed},
        }
        if len(json.dumps(item)) > _LARGEST:
            raise ClusterError(
                f"what is on this cluster ({len(self.before)} objects) does not fit into the record"
                " of it",
                "install CNIs on a cluster that runs nothing but itself",
            )
        self.uid = str(rest.create(_FOLDER, item)["metadata"]["uid"])

    def note(self, rest: Rest) -> None:
        """Writes what came since. Raises ClusterError, also when this record is gone: then the
        cluster is somebody else's.
        """
        if not rest.patch(_PATH, {"metadata": {"uid": self.uid}, "data": self._changing()}):
            raise ClusterError(
                f"somebody else has deleted the ConfigMap kube-system/{NAME}, by which this run"
                " knows what it installed",
                "cnibench clean --cluster existing --dry-run says what is left",
            )

    def remove(self, rest: Rest) -> None:
        rest.delete(_PATH, self.uid)

    def _changing(self) -> dict[str, str]:
        applied = [[*identity, uid] for identity, uid in self.applied.items()]
        return {"applied": json.dumps(applied), "remembered": json.dumps(self.remembered)}


def read(rest: Rest) -> Record | None:
    """None when nothing is recorded. Raises ClusterError for a record that this version does not
    understand.
    """
    item = rest.get(_PATH)
    if item is None:
        return None
    data: dict[str, Any] = item.get("data") or {}
    try:
        packed = _unpacked(item["binaryData"]["before"])
        owned = item["metadata"].get("annotations") or {}
        if PurePosixPath(data["profile"]).name != data["profile"]:
            raise ValueError("files are named after the profile")
        applied = {
            (api, kind, namespace, name): uid
            for api, kind, namespace, name, uid in json.loads(data["applied"])
        }
        return Record(
            data["profile"],
            Installation.model_validate_json(data["installation"]),
            applied,
            json.loads(data["variables"]),
            json.loads(data["copied"]),
            frozenset(packed["before"]),
            packed["marks"],
            json.loads(data["remembered"]),
            owner=str(owned.get(OWNER, "")),
            run=str(owned.get(RUN, "")),
            uid=item["metadata"]["uid"],
        )
    except (KeyError, TypeError, ValueError, ValidationError, zlib.error) as error:
        raise ClusterError(
            f"the ConfigMap kube-system/{NAME} is not one that this version of cnibench wrote"
            f" ({type(error).__name__})",
            "remove with the version that installed it: cnibench clean",
        ) from None


def profile(access: Access) -> str:
    """The profile that is recorded, '' for none; one kubectl, no more."""
    found = access.kubectl(
        "get", "configmap", NAME, "-n", "kube-system", "--ignore-not-found", "-o", "json"
    ).stdout
    return str(json.loads(found).get("data", {}).get("profile", "")) if found.strip() else ""


def _packed(value: Any) -> str:
    return base64.b64encode(zlib.compress(json.dumps(value).encode(), 9)).decode()


def _unpacked(text: str) -> dict[str, Any]:
    value = json.loads(zlib.decompress(base64.b64decode(text)))
    if not isinstance(value, dict):
        raise TypeError("expected an object")
    return value
