"""Our namespaces on clusters of others: whose they are, and the removal of those that nobody owns any more."""

from __future__ import annotations

from collections.abc import Mapping

from cnibench.clusters._kubernetes import objects, state
from cnibench.clusters._kubernetes.access import Access
from cnibench.errors import ClusterError, LimitError, UsageError

GONE = 120.0  # s: a namespace with all that is in it


def check_free(access: Access, name: str) -> None:
    """Raises UsageError when a namespace of that name is there: ours are made, never taken over."""
    done = access.kubectl("get", "namespace", name, "--ignore-not-found", "-o", "name")
    if done.stdout.strip():
        raise UsageError(f"the namespace '{name}' exists already", "name one that does not, or leave -n out; 'cnibench clean' removes ours")


def remove(access: Access, name: str, limit: float = GONE) -> None:
    """One of ours, with all that is in it; waits until it is gone. Raises ClusterError, LimitError."""
    access.kubectl("delete", "pods", "--all", "-n", name, "--ignore-not-found", "--force", "--grace-period=0", "--wait=false", check=False)
    try:
        access.kubectl("delete", "namespace", name, "--ignore-not-found", f"--timeout={limit:.0f}s", timeout=limit + 10)
    except LimitError:
        raise ClusterError(f"the namespace {name} did not go within {limit:.0f} s", f"kubectl get all -n {name}") from None


def abandoned(access: Access) -> list[str]:
    """Namespaces with our label that no running cnibench of this machine owns."""
    items = access.get("namespaces", "-l", f"{objects.OURS}={objects.NAME}")["items"]
    return sorted(item["metadata"]["name"] for item in items if not _owned(item))


def _owned(item: Mapping[str, object]) -> bool:
    meta = item["metadata"]
    assert isinstance(meta, dict)
    return state.in_use(str(meta.get("labels", {}).get(objects.RUN, "")))
