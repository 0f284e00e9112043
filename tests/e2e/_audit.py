"""A kind cluster that writes down who asked its API server for what."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cnibench.clusters.kubernetes.rights.table import ANY, Right

_FOLDER = "/audit"  # in the node and in the API server's Pod
_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "Metadata", "userGroups": ["system:serviceaccounts:bench"]},
        {"level": "None"},
    ],
}


@dataclass(frozen=True, order=True)
class Request:
    """``resource`` as in the table of rights; ``status`` of HTTP."""

    resource: str
    verb: str
    name: str
    status: int


def audited(configuration: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """A kind configuration whose API server logs the requests of ServiceAccounts in ``bench``."""
    (folder / "policy.json").write_text(json.dumps(_POLICY))
    volume = {"name": "audit", "hostPath": _FOLDER, "mountPath": _FOLDER, "readOnly": False}
    options = {"audit-policy-file": f"{_FOLDER}/policy.json", "audit-log-path": f"{_FOLDER}/log"}
    patch = {
        "kind": "ClusterConfiguration",
        "apiServer": {"extraArgs": options, "extraVolumes": [volume]},
    }
    first, *others = configuration["nodes"]
    mount = {"hostPath": str(folder), "containerPath": _FOLDER}
    return {
        **configuration,
        "nodes": [{**first, "extraMounts": [mount]}, *others],
        "kubeadmConfigPatches": [*configuration["kubeadmConfigPatches"], json.dumps(patch)],
    }


def requests(folder: Path, account: str) -> set[Request]:
    """All that this ServiceAccount asked for."""
    found = set()
    for asked in each(folder, account):
        found.add(asked)
        if (asked.verb, asked.status) == ("patch", 201):  # an apply that made the object
            found.add(replace(asked, verb="create"))
    return found


def each(folder: Path, account: str) -> Iterator[Request]:
    """Every request of this ServiceAccount, however often. A watch, and a command in a Pod, are
    logged when they end.
    """
    events: dict[str, dict[str, Any]] = {}
    for line in (folder / "log").read_text().splitlines():
        event = json.loads(line)
        if event["user"]["username"] == f"system:serviceaccount:bench:{account}":
            events[event["auditID"]] = event
    return map(_request, events.values())


def _request(event: Mapping[str, Any]) -> Request:
    status = int(event.get("responseStatus", {}).get("code", 0))
    about = event.get("objectRef")
    if about is None:
        return Request(urlsplit(event["requestURI"]).path, event["verb"], "", status)
    group = f".{about['apiGroup']}" if about.get("apiGroup") else ""
    below = f"/{about['subresource']}" if about.get("subresource") else ""
    return Request(
        about["resource"] + group + below, event["verb"], str(about.get("name", "")), status
    )


def rights_of(asked: Request, table: list[Right]) -> Iterator[tuple[Right, str]]:
    """The rights that allow a request, each with the verb; none where the table lacks it."""
    for one in table:
        fits = one.resource == asked.resource or (
            asked.resource.startswith(one.resource[:-1])
            if one.resource.startswith("/") and one.resource.endswith("*")
            else one.resource == ANY and not asked.resource.startswith("/")
        )
        if fits and asked.verb in one.verbs and (not one.names or asked.name in one.names):
            yield one, asked.verb
