"""What runs left on a cluster: namespaces that their Leases prove to be ours, whose they are, and
whether somebody still uses them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from cnibench.clusters.kubernetes.api import objects
from cnibench.clusters.kubernetes.api.access import Access
from cnibench.clusters.kubernetes.ownership import lease, namespace, state
from cnibench.model.units import duration

Use = Literal["held", "live", "expired", "released", "unproven"]
_LONGEST = 300.0  # s: a Lease that claims more is watched for no longer
_LOOK = 1.0  # s
_MARGIN = 1.0  # s


@dataclass(frozen=True)
class Space:
    """A namespace with our label. ``use``: held (has a holder that was not watched yet), live or
    expired (it was), released (nobody holds it), unproven (no Lease of this very namespace says
    whose it is).
    """

    name: str
    uid: str
    run: str
    owner: str
    use: Use
    lease: dict[str, Any]


def spaces(access: Access) -> list[Space]:
    """All of them. Raises ClusterError."""
    answer = access.call("GET", f"/api/v1/namespaces?labelSelector={objects.OURS}%3D{objects.NAME}")
    if not answer.ok:
        raise access.refusal(answer, "namespaces cannot be listed")
    return sorted((_space(access, item) for item in answer.body["items"]), key=lambda one: one.name)


def watched(access: Access, found: Sequence[Space], notify: Callable[[str], None]) -> list[Space]:
    """The same, each that is held watched for the duration of its Lease: live when it was renewed,
    expired when not. Of a run of this machine the kernel says at once that it has ended.

    Raises ClusterError.
    """
    found = [
        replace(one, use="expired") if one.use == "held" and state.ended(one.uid) else one
        for one in found
    ]
    waiting = {one.name: one for one in found if one.use == "held"}
    settled = {one.name: one for one in found}
    if waiting:
        longest = max(_patience(one) for one in waiting.values())
        notify(
            f"watching for up to {duration(longest)} whether a run still renews the Lease of"
            f" {', '.join(waiting)}"
        )
    began = time.monotonic()
    while waiting:
        time.sleep(_LOOK)
        for name, known in list(waiting.items()):
            answer = access.call("GET", lease.path(name))
            if not answer.ok and answer.status != 404:
                raise access.refusal(answer, f"the Lease of {name} cannot be read")
            now = dict(answer.body) if answer.ok else {}
            if lease.changed(now) != lease.changed(known.lease):
                settled[waiting.pop(name).name] = _look_again(access, known)
            elif time.monotonic() - began > _patience(known):
                settled[name] = replace(waiting.pop(name), use="expired")
    return [one for one in settled.values() if one.uid]


def users(
    access: Access, notify: Callable[[str], None], run: str, expired: set[tuple[Any, ...]]
) -> list[Space]:
    """The namespaces of runs that live, other than ``run``. ``expired`` gets the Leases that nobody
    renews; one that has not changed since is not watched again. Raises ClusterError.
    """
    held = [
        one
        for one in spaces(access)
        if one.use == "held" and one.run != run and lease.changed(one.lease) not in expired
    ]
    found = watched(access, held, notify)
    expired |= {lease.changed(one.lease) for one in found if one.use == "expired" and one.lease}
    return [one for one in found if one.use == "live"]


def _look_again(access: Access, known: Space) -> Space:
    """What became of one whose Lease has changed: renewed by its holder, given up, or gone (no
    UID).
    """
    answer = access.call("GET", namespace.path(known.name))
    if answer.status == 404:
        return replace(known, uid="")
    if not answer.ok:
        raise access.refusal(answer, f"the namespace {known.name} cannot be read")
    now = _space(access, answer.body)
    return replace(now, use="live") if now.use == "held" else now


def _space(access: Access, item: Mapping[str, Any]) -> Space:
    meta = item["metadata"]
    name, uid = str(meta["name"]), str(meta["uid"])
    answer = access.call("GET", lease.path(name))
    if not answer.ok and answer.status != 404:
        raise access.refusal(answer, f"the Lease of the namespace {name} cannot be read")
    found = dict(answer.body) if answer.ok else {}
    noted = found.get("metadata", {}).get("annotations") or {}
    run = str((meta.get("labels") or {}).get(objects.RUN, ""))
    owner = str((meta.get("annotations") or {}).get(lease.OWNER, ""))
    if found and noted.get(lease.SPACE) == uid:
        use: Use = "held" if found["spec"].get("holderIdentity") else "released"
        return Space(name, uid, run, str(noted.get(lease.OWNER, "")), use, found)
    # A run makes its Lease right after the namespace, which says whose it is until then.
    # Only its own name is in it: a copy has another one. One of --namespace NAME stays.
    early = owner and not found and name == run
    return Space(name, uid, run, owner, "held" if early else "unproven", {})


def _patience(space: Space) -> float:
    return min(lease.seconds(space.lease), _LONGEST) + _MARGIN
