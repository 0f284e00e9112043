"""Which CNI a cluster has, and in which mode, by the objects that it runs with: nothing is changed
for it.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

from cnibench.clusters.kubernetes.api import objects, status
from cnibench.clusters.kubernetes.api.access import Access
from cnibench.clusters.kubernetes.api.rest import Rest
from cnibench.model.installation import Fact
from cnibench.model.profile import Profile, builtin

NONE = "no CNI"
_SETTLING = 20.0  # s
_RANK = {
    "unused": 0,
    "none": 0,
    "enforced": 1,
}  # of two that differ in our policies alone, the cluster's is the one without


def current(access: Access, profiles: Mapping[str, Profile] | None = None) -> tuple[str, str]:
    """(name of the profile that the cluster has, words); the name is '' when no profile fits, the
    words say what was seen.

    They are ``NONE`` where every node says that it has no network.
    """
    known = profiles if profiles is not None else builtin()
    cache: dict[str, dict[str, Any] | None] = {}
    fetch = partial(_fetch, access, cache)
    fitting: list[tuple[int, int, str]] = []
    near: list[tuple[int, int, str, str]] = []
    for name, profile in known.items():
        facts = profile.kubernetes.recognise if profile.kubernetes else ()
        if not facts or not profile.kubernetes:
            continue
        seen = [(fact, observed(fact, fetch(fact.object))) for fact in facts]
        wrong = [(fact, value) for fact, value in seen if not fnmatchcase(value, fact.equals)]
        if not wrong:
            fitting.append((-len(facts), _RANK[profile.kubernetes.policy], name))
        elif seen[0] not in wrong:
            details = ", ".join(f"{_words(fact)} is '{value}'" for fact, value in wrong)
            near.append((len(wrong), -len(facts), profile.cni, f"not {name}: {details}"))
    if fitting:
        name = min(fitting)[2]
        profile = known[name]
        return name, f"{profile.title}: recognised by {_objects(profile)}"
    if near:
        cni = min(near)[2]
        details = "; ".join(one[3] for one in sorted(near)[:3] if one[2] == cni)
        return "", f"{cni}, in a mode that no profile describes ({details})"
    others = _daemonsets(access)
    if _without(access, 0.0 if others else _SETTLING):
        return "", NONE
    return "", "no CNI that a profile describes; the network's DaemonSets: " + (
        ", ".join(others) or "none"
    )


def _without(access: Access, limit: float) -> bool:
    """Do all nodes wait for a CNI, or come to do so within ``limit`` seconds? A kubelet reports
    that a CNI is gone only some seconds later.
    """
    end = time.monotonic() + limit
    while not (without := _waiting(access)) and time.monotonic() < end:
        time.sleep(1.0)
    return without


def _waiting(access: Access) -> bool:
    """What containerd and CRI-O tell the kubelet when they find no configuration."""
    said = []
    for node in access.get("nodes")["items"]:
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


def observed(fact: Fact, found: Mapping[str, Any] | None) -> str:
    """The fact's value in an object, as text; '' when there is no object, ``otherwise`` when it has
    no such value.
    """
    if found is None:
        return ""
    if fact.argument:
        return _argument(found, fact.argument, fact.otherwise)
    if fact.variable:
        return _variable(found, fact.variable, fact.otherwise)
    value: Any = found
    for key in fact.at:
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except ValueError:
                return fact.otherwise
        try:
            value = value[key]
        except (KeyError, IndexError, TypeError):
            return fact.otherwise
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _containers(found: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    pod = found.get("spec", {}).get("template", {}).get("spec", {})
    return list(pod.get("containers") or ())


def _argument(found: Mapping[str, Any], name: str, otherwise: str) -> str:
    for container in _containers(found):
        words = [*(container.get("command") or ()), *(container.get("args") or ())]
        for word in words:
            if word == name:
                return "true"
            if word.startswith(f"{name}="):
                return str(word.partition("=")[2])
    return otherwise


def _variable(found: Mapping[str, Any], name: str, otherwise: str) -> str:
    for container in _containers(found):
        for item in container.get("env") or ():
            if item["name"] == name:
                return str(item.get("value", ""))
    return otherwise


def _fetch(
    access: Access, cache: dict[str, dict[str, Any] | None], name: str
) -> dict[str, Any] | None:
    """KIND/NAMESPACE/NAME or KIND/NAME; None when there is none of it, or no such kind."""
    if name not in cache:
        kind, *rest = name.split("/")
        where = ["-n", rest[0]] if len(rest) == 2 else []
        done = access.kubectl(
            "get", kind, rest[-1], *where, "--ignore-not-found", "-o", "json", check=False
        )
        if (
            done.returncode
            and status.reason(done.stderr) != "Forbidden"
            and (status.reason(done.stderr) or _served(access, kind))
        ):
            raise access.error(done)
        cache[name] = (
            json.loads(done.stdout) if not done.returncode and done.stdout.strip() else None
        )
    return cache[name]


def _served(access: Access, name: str) -> bool:
    """Does the API server have this kind, written as kubectl takes it: NAME or NAME.GROUP?"""
    rest = Rest(access)
    groups = (rest.get("/apis") or {}).get("groups", ())
    for api in ("v1", *(one["preferredVersion"]["groupVersion"] for one in groups)):
        group = api.rpartition("/")[0]
        for item in rest.kinds(api):
            names = {item["name"], item["kind"].lower(), item.get("singularName")}
            names.update(item.get("shortNames") or ())
            if name in names or (group and name in {f"{one}.{group}" for one in names}):
                return True
    return False


def _words(fact: Fact) -> str:
    return fact.argument or fact.variable or ".".join(map(str, fact.at))


def _objects(profile: Profile) -> str:
    facts = profile.kubernetes.recognise if profile.kubernetes else ()
    return (
        ", ".join(
            f"{fact.object} {_words(fact)}={fact.equals}" for fact in facts if fact.at != ("kind",)
        )
        or facts[0].object
    )


def _daemonsets(access: Access) -> list[str]:
    """DaemonSets of others on the nodes' network, without kube-proxy: a CNI is among them."""
    found = []
    for item in access.get("daemonsets", "--all-namespaces")["items"]:
        meta = item["metadata"]
        ours = (meta.get("labels") or {}).get(objects.OURS) == objects.NAME
        proxy = meta["namespace"] == "kube-system" and meta["name"] == "kube-proxy"
        if item["spec"]["template"]["spec"].get("hostNetwork") and not ours and not proxy:
            found.append(f"{meta['namespace']}/{meta['name']}")
    return found
