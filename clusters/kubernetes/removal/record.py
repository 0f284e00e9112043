"""The word on the cluster of what is installed: a ConfigMap that is there before anything else and
goes last.

Whatever ends the process, the next one reads there what was applied (kind, name, UID), and what was
on the cluster before.
"""

from __future__ import annotations

import base64
import ipaddress
import json
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

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
_UNPACKED = 64 << 20  # bytes

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
    """None when nothing is recorded. Raises ClusterError for a record that is not one of this
    version: whoever can write ConfigMaps must not choose what is deleted.
    """
    item = rest.get(_PATH)
    if item is None:
        return None
    data: dict[str, Any] = item.get("data") or {}
    try:
        packed = _unpacked(item["binaryData"]["before"])
        owned = item["metadata"].get("annotations") or {}
        stored = _Stored.model_validate(
            {
                "profile": data["profile"],
                "applied": json.loads(data["applied"]),
                "variables": json.loads(data["variables"]),
                "copied": json.loads(data["copied"]),
                "remembered": json.loads(data["remembered"]),
                **packed,
            },
            strict=True,
        )
        return Record(
            stored.profile,
            Installation.model_validate_json(data["installation"]),
            {(api, kind, space, name): uid for api, kind, space, name, uid in stored.applied},
            stored.variables,
            stored.copied,
            frozenset(stored.before),
            stored.marks,
            stored.remembered,
            owner=str(owned.get(OWNER, "")),
            run=str(owned.get(RUN, "")),
            uid=item["metadata"]["uid"],
        )
    except (KeyError, TypeError, ValueError, RecursionError, zlib.error) as error:
        raise ClusterError(
            f"the ConfigMap kube-system/{NAME} is not one that this version of cnibench wrote"
            f" ({_reason(error)})",
            "remove with the version that installed it: cnibench clean",
        ) from None


def _reason(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        where = ".".join(str(part)[:40] for part in first["loc"])
        return f"{where}: {first['msg']}"[:200]
    return type(error).__name__


_Word = Annotated[str, Field(pattern=r"^[!-~]{1,317}$")]  # of a name or key: PREFIX/NAME at most
_Uid = Annotated[str, Field(pattern=r"^[!-~]{0,317}$")]
_Plain = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,252}$")]
_Node = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]{0,252}$")]
_Variable = Annotated[str, Field(pattern=r"^pod_cidr(_ipv6)?$")]
_Mark = Annotated[str, Field(pattern=r"^(annotations|labels|taints)$")]
_NOT_OF_A_CNI = frozenset({"Node", "PersistentVolume", "PersistentVolumeClaim"})  # kinds


class _Stored(BaseModel):
    """The data of the ConfigMap. The sizes are bounded by that of a ConfigMap and ``_unpacked``."""

    model_config = ConfigDict(extra="forbid")

    profile: _Plain
    applied: list[Annotated[list[_Uid], Field(min_length=5, max_length=5)]]
    variables: dict[_Variable, str]
    copied: dict[_Node, list[_Plain]]
    remembered: bool
    before: list[_Word]
    marks: dict[_Node, dict[_Mark, list[_Word]]]

    @model_validator(mode="after")
    def _of_a_cni(self) -> _Stored:
        for _, kind, _, name, _ in self.applied:
            if kind in _NOT_OF_A_CNI or not kind or not name:
                raise ValueError(f"no CNI is installed by a {kind} '{name}'")
        for cidr in self.variables.values():
            ipaddress.ip_network(cidr, strict=False)
        return self


def profile(access: Access) -> str:
    """The profile that is recorded, '' for none; one request, no more."""
    found = access.find("configmaps", NAME, "kube-system") or {}
    return str((found.get("data") or {}).get("profile", ""))


def _packed(value: Any) -> str:
    return base64.b64encode(zlib.compress(json.dumps(value).encode(), 9)).decode()


def _unpacked(text: str) -> dict[str, Any]:
    unpacking = zlib.decompressobj()
    data = unpacking.decompress(base64.b64decode(text), _UNPACKED)
    if not unpacking.eof:
        raise ValueError("it is cut off, or larger than any that was written")
    value = json.loads(data)
    if not isinstance(value, dict):
        raise TypeError("expected an object")
    return value
