"""Which CNI a cluster has, and in which mode, by the objects that it runs with: nothing is changed
for it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from cnibench.clusters.kubernetes.api import objects
from cnibench.clusters.kubernetes.api.access import Access, DeniedError
from cnibench.clusters.kubernetes.cni.observe import (
    NODES,
    Objects,
    Observation,
    containers,
    image,
    version,
)
from cnibench.model.installation import Fact
from cnibench.model.profile import Profile, builtin

NONE = "no CNI"
_SETTLING = 20.0  # s
_NEAREST = 3  # profiles that are as near as each other and are named
_NAMED = 5  # objects that may not be read
_RANK = {
    "unused": 0,
    "none": 0,
    "enforced": 1,
}  # of two that differ in our policies alone, the cluster's is the one without


class Found(NamedTuple):
    """``name`` of the profile that the cluster has, '' when none fits. ``said`` is what was seen,
    in words, and ``NONE`` where every node says that it has no network. ``title`` names CNI,
    version and mode. ``denied``: it is not known, for objects may not be read.
    """

    name: str
    said: str
    title: str = ""
    denied: bool = False


class _Candidate(NamedTuple):
    """A profile whose CNI runs here, with all its facts."""

    profile: Profile
    seen: list[Observation]

    @property
    def wrong(self) -> list[Observation]:
        return [one for one in self.seen if not one.holds]

    @property
    def by_nodes(self) -> bool:
        """What nodes say of themselves may be left of a CNI that was there before."""
        return self.seen[0].fact.object == NODES


def current(access: Access, profiles: Mapping[str, Profile] | None = None) -> Found:
    """The CNI that the cluster has. Raises ClusterError."""
    known = profiles if profiles is not None else builtin()
    read = Objects(access)
    candidates, denied = _candidates(known, read)
    running = [one for one in candidates if not one.by_nodes] or candidates
    if len({one.seen[0].fact.object for one in running}) > 1:
        return _several(running, read)
    if fitting := [one for one in running if not one.wrong]:
        return _recognised(min(fitting, key=_preference), read)
    if running:
        return _near(running, read)
    if denied:
        more = f" and {len(denied) - _NAMED} more" if len(denied) > _NAMED else ""
        names = ", ".join(denied[:_NAMED])
        return Found("", f"this user may not read {names}{more}", denied=True)
    others = _daemonsets(access)
    if _without(access, 0.0 if others else _SETTLING):
        return Found("", NONE)
    return Found(
        "",
        "no CNI that a profile describes; the DaemonSets on the nodes' network: "
        + ("; ".join(others) or "none"),
    )


def _candidates(
    known: Mapping[str, Profile], read: Objects
) -> tuple[list[_Candidate], Sequence[str]]:
    """Profiles whose first fact holds, and the objects of first facts that may not be read. The
    other facts of those alone are looked at.
    """
    found, denied = [], dict[str, None]()
    for profile in known.values():
        facts = profile.kubernetes.recognise if profile.kubernetes else ()
        if not facts:
            continue
        first = read.observe(facts[0])
        if first.denied:
            denied[facts[0].object] = None
        if first.holds:
            found.append(_Candidate(profile, [first, *map(read.observe, facts[1:])]))
    return found, list(denied)


def _preference(one: _Candidate) -> tuple[int, int, str]:
    assert one.profile.kubernetes is not None
    return -len(one.seen), _RANK[one.profile.kubernetes.policy], one.profile.name


def _recognised(one: _Candidate, read: Objects) -> Found:
    what = _version(one, read)
    _, tagged, tag = what.rpartition(":")
    follows = one.profile.kubernetes.version() if one.profile.kubernetes else ""
    if tagged and follows and "@" not in what and tag.lstrip("v") != follows.lstrip("v"):
        what += f"; the profile follows {follows}"
    title = one.profile.title + (f" ({what})" if what else "")
    by = ", ".join(
        f"{_words(seen.fact)} is {seen.said}" for seen in one.seen if seen.fact.at != ("kind",)
    )
    where = ", ".join(dict.fromkeys(seen.fact.object for seen in one.seen))
    return Found(one.profile.name, f"{title}, by {where}{by and ': '}{by}", title)


def _near(running: Sequence[_Candidate], read: Objects) -> Found:
    """The profiles with the fewest facts that differ, and these facts."""
    fewest = min(len(one.wrong) for one in running)
    nearest = sorted((one for one in running if len(one.wrong) == fewest), key=_preference)
    cni = nearest[0].profile.cni
    what = _version(nearest[0], read)
    who = f"{cni}{f' ({what})' if what else ''}"
    if hidden := {seen.fact.object for one in nearest for seen in one.wrong if seen.denied}:
        title = f"{who} in an unknown mode"
        said = f"{title}: this user may not read {', '.join(sorted(hidden))}"
        return Found("", said, title, denied=True)
    near: dict[str, str] = {}  # what differs, and the profile that differs in nothing else
    for one in nearest:
        if one.profile.cni == cni:
            near.setdefault("; ".join(map(_difference, one.wrong)), one.profile.name)
    words = "; or ".join(
        f"close to {name}, but {differs}" for differs, name in list(near.items())[:_NEAREST]
    )
    title = f"{who} in a mode that no profile describes"
    return Found("", f"{title}: {words}", title)


def _several(running: Sequence[_Candidate], read: Objects) -> Found:
    """One that enforces policies beside another that connects, say: no profile has both."""
    names = dict.fromkeys(
        one.profile.cni + (f" ({what})" if (what := _version(one, read)) else "") for one in running
    )
    return Found("", f"several CNIs at once: {', '.join(names)}", " and ".join(names))


def _difference(seen: Observation) -> str:
    return (
        f"{_words(seen.fact)} of {seen.fact.object}: expected {seen.expected}, found {seen.found}"
    )


def _version(one: _Candidate, read: Objects) -> str:
    """Of the workload by which it is recognised, else of those that it waits for."""
    about = one.profile.kubernetes
    assert about is not None
    waits = [
        f"{kind}/{wait.namespace}/{name}"
        for wait in about.ready
        if wait.rollout
        for kind, name in [wait.rollout.split("/")]
    ]
    found: list[Mapping[str, Any]] = []
    for name in dict.fromkeys([one.seen[0].fact.object, *waits]):
        try:
            found += read.get(name)
        except DeniedError:
            continue
    return version(found)


def _without(access: Access, limit: float) -> bool:
    """Do all nodes wait for a CNI, or come to do so within ``limit`` seconds? A kubelet reports
    that a CNI is gone only some seconds later.
    """
    end = time.monotonic() + limit
    pause = 1.0
    while not (without := _waiting(access)) and time.monotonic() < end:
        time.sleep(pause)
        pause = min(pause * 1.5, 2.0)
    return without


def _waiting(access: Access) -> bool:
    """What containerd and CRI-O tell the kubelet when they find no configuration."""
    said = []
    for node in access.listed("nodes"):
        ready: Mapping[str, Any] = next(
            (item for item in node["status"].get("conditions", ()) if item["type"] == "Ready"), {}
        )
        said.append(
            ready.get("status") != "True"
            and bool(
                re.search(r"NetworkPluginNotReady|cni.*not initialized", ready.get("message", ""))
            )
        )
    return bool(said) and all(said)


def _words(fact: Fact) -> str:
    value = fact.argument or fact.variable or ".".join(map(str, fact.at))
    if fact.container:
        return (
            f"{value} of the container {fact.container}"
            if value
            else (f"the container {fact.container}")
        )
    return value


def _daemonsets(access: Access) -> list[str]:
    """DaemonSets of others on the nodes' network with their images, without kube-proxy: a CNI is
    among them. Raises ClusterError where they may not be listed.
    """
    found = []
    for item in access.listed("daemonsets"):
        meta = item["metadata"]
        ours = (meta.get("labels") or {}).get(objects.OURS) == objects.NAME
        proxy = meta["namespace"] == "kube-system" and meta["name"] == "kube-proxy"
        if item["spec"]["template"]["spec"].get("hostNetwork") and not ours and not proxy:
            found.append(f"{meta['namespace']}/{meta['name']} ({_images(containers(item))})")
    return found


def _images(found: Iterable[Mapping[str, Any]]) -> str:
    return ", ".join(dict.fromkeys(map(image, found)))
