"""Whose run is in a namespace that somebody else made: one at a time, as its Lease says."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cnibench.clusters.kubernetes.api import objects
from cnibench.clusters.kubernetes.api.access import Access
from cnibench.clusters.kubernetes.ownership import discovery, lease, state
from cnibench.clusters.kubernetes.ownership.discovery import Space
from cnibench.clusters.kubernetes.ownership.lease import Lease
from cnibench.clusters.kubernetes.ownership.namespace import path
from cnibench.errors import ClusterError, UsageError
from cnibench.testbed.capabilities.ownership import Leftover

_GOING = 60.0  # s that Pods are given to be gone


def uid(access: Access, namespace: str) -> str:
    """The namespace's. Raises UsageError when there is none, ClusterError."""
    answer = access.call("GET", path(namespace))
    if answer.status == 404:
        raise UsageError(
            f"there is no namespace '{namespace}'",
            "--cluster namespace measures in one that exists: kubectl create namespace",
        )
    if not answer.ok:
        raise access.refusal(answer, f"the namespace {namespace} cannot be read")
    if (answer.body["metadata"].get("labels") or {}).get(objects.OURS) == objects.NAME:
        raise UsageError(
            f"the namespace '{namespace}' is one that a run of --cluster existing made",
            "name another one; 'cnibench clean --cluster existing' removes those that are left",
        )
    return str(answer.body["metadata"]["uid"])


def free(access: Access, namespace: str) -> str:
    """The UID of a namespace that no run uses. Raises UsageError, ClusterError."""
    known = uid(access, namespace)
    if there := _space(access, namespace):
        raise UsageError(
            f"a run of {there.owner} uses the namespace {namespace}, or was killed, or kept its"
            " Pods",
            f"wait for its end, or: cnibench clean --cluster namespace -n {namespace}",
        )
    return known


def claimed(access: Access, namespace: str, run: str) -> Lease:
    """The Lease of a new run. Raises UsageError when another run has one, ClusterError."""
    return Lease(access, namespace, free(access, namespace), state.owner(), run)


def given_up(access: Access, namespace: str, held: Lease) -> None:
    """Deletes the Lease of a run that has removed its Pods, unless it is not its own any more.
    Raises ClusterError.
    """
    lost = held.check(now=True)
    held.stop()
    if not lost:
        _delete(access, namespace)


def leftovers(
    access: Access, namespace: str, owners: Sequence[str], notify: Callable[[str], None]
) -> list[Leftover]:
    """The Pods of a run that was killed, with its Lease. Raises UsageError, ClusterError."""
    uid(access, namespace)
    found = _space(access, namespace)
    if found is None:
        return []
    run = found.run
    what = f"the Pods of a run in the namespace {namespace}"
    kept = remedy = ""
    if found.owner not in (state.owner(), *owners):
        kept = f"they are of {found.owner}"
        remedy = f"cnibench clean --cluster namespace -n {namespace} --owner {found.owner}"
    elif not run:
        kept = "its Lease does not name the run whose Pods they are"
        remedy = f"kubectl delete pods,leases -n {namespace} -l {objects.RUN}, if they are yours"
    else:
        settled = discovery.watched(access, [found], notify)
        if any(one.use == "live" for one in settled):
            kept, remedy = f"a run of {found.owner} uses them", "wait for its end"

    def remove() -> None:
        if not lease.take(access, found.lease, f"{state.owner()}_clean"):
            raise ClusterError(
                f"the Lease of the namespace {namespace} was renewed in the meantime",
                "a run uses it; wait for its end",
            )
        remove_pods(access, namespace, run)
        _delete(access, namespace)

    return [Leftover(what, remove, owner=found.owner, kept=kept, remedy=remedy)]


def remove_pods(access: Access, namespace: str, run: str) -> None:
    """All Pods of that run, also those of a deployment that was never finished. Raises
    ClusterError, LimitError.
    """
    access.delete("pods", namespace, f"{objects.RUN}={run}", grace=0, wait=_GOING)


def _space(access: Access, namespace: str) -> Space | None:
    """The run that the Lease names; None where there is no Lease. Raises ClusterError."""
    answer = access.call("GET", lease.path(namespace))
    if answer.status == 404:
        return None
    if not answer.ok:
        raise access.refusal(answer, f"the Lease of the namespace {namespace} cannot be read")
    found = dict(answer.body)
    noted = found["metadata"].get("annotations") or {}
    holder = str(found["spec"].get("holderIdentity") or "")
    return Space(
        namespace,
        str(noted.get(lease.SPACE, "")),
        str(noted.get(objects.RUN) or holder.partition("_")[2]),
        str(noted.get(lease.OWNER, "")),
        "held" if holder else "released",
        found,
    )


def _delete(access: Access, namespace: str) -> None:
    answer = access.call("DELETE", lease.path(namespace))
    if not answer.ok and answer.status != 404:
        raise access.refusal(answer, f"the Lease of the namespace {namespace} stays")
