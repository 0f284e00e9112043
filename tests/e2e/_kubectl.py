"""What kubectl says and does on a cluster: a second opinion, and the hand of somebody else."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from cnibench.clusters.kubernetes.api.access import Access
from cnibench.system import process as programs
from cnibench.system.process import Done


def kubectl(
    access: Access, *words: str, timeout: float = 30.0, input: str | None = None, check: bool = True
) -> Done:
    argv = ["kubectl", "--context", access.context, "--kubeconfig", str(access.kubeconfig), *words]
    return programs.run(argv, timeout=timeout, input=input, check=check)


def got(access: Access, *words: str) -> dict[str, Any]:
    """What ``kubectl get`` says."""
    return dict(json.loads(kubectl(access, "get", *words, "-o", "json").stdout))


def uids(access: Access, *what: str) -> dict[str, str]:
    """Name to UID of each object that ``kubectl get`` lists."""
    return {
        item["metadata"]["name"]: item["metadata"]["uid"] for item in got(access, *what)["items"]
    }


def applied(access: Access, *objects: Mapping[str, Any]) -> None:
    """Somebody else, whose field manager is kubectl, makes or changes these."""
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
    kubectl(access, "apply", "--server-side", "--force-conflicts", "-f", "-", input=text)
