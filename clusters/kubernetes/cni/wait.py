"""Waiting until a CNI is ready: once a second what is still missing is asked for, and there is a
reason when it never comes.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cnibench.clusters.kubernetes.api import pods
from cnibench.clusters.kubernetes.api.access import Access
from cnibench.clusters.kubernetes.cni.manifests import installation
from cnibench.clusters.kubernetes.cni.pod_specs import Object
from cnibench.clusters.kubernetes.nodes.nodes import facts
from cnibench.errors import ClusterError, LimitError
from cnibench.model.installation import Wait
from cnibench.model.profile import Profile

_STEP = 1.0  # s between two questions
_SOON = 0.2  # the same of what the API server does by itself
# s that a kubelet's word on its network may be old: it asks the runtime every 5 s (updateRuntimeUp,
# pkg/kubelet/kubelet.go) and tells
# the API server of it later. A node that is Ready may be so by the CNI before this one, and turn
# NotReady when this one runs already.
_STALE = 7.0
_HOPELESS = ("InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError")
_CRASHES = 5  # restarts of one container after which waiting is vain


def ready(access: Access, profile: Profile, limit: float) -> None:
    """Returns when all that the profile waits for is there and every node is Ready.

    Raises LimitError after ``limit`` seconds, ClusterError as soon as it cannot become ready; both
    say which Pod waits for what.
    """
    waits, bare = installation(profile).ready, installation(profile).host_network
    deadline = time.monotonic() + limit
    turned = set[str]()  # nodes that were seen NotReady: what they say afterwards is of this CNI
    complete = 0.0
    while True:
        nodes = {
            one.name: one.ready or (bare and one.lacks_only_cni)
            for one in map(facts, access.listed("nodes"))
        }
        turned |= {name for name, is_ready in nodes.items() if not is_ready}
        missing = [words for one in waits if (words := _lacks(access, one))]
        missing += [f"node {name} is not Ready" for name, is_ready in nodes.items() if not is_ready]
        if not missing:
            complete = complete or time.monotonic()
            if turned >= nodes.keys() or time.monotonic() >= complete + _STALE:
                return
            time.sleep(_STEP)
            continue
        complete = 0.0
        namespaces = sorted({one.namespace for one in waits if one.rollout})
        pods = [pod for namespace in namespaces for pod in access.listed("pods", namespace)]
        if hopeless := _hopeless(pods):
            raise ClusterError(
                f"{profile.name} cannot become ready: {hopeless}",
                "kubectl describe shows more; is the image there?",
            )
        if time.monotonic() >= deadline:
            details = "; ".join(missing + _troubles(pods))
            raise LimitError(
                f"{profile.name} was not ready within {limit:.0f} s: {details}",
                "allow more time, or see 'kubectl describe pods'",
            )
        time.sleep(min(_STEP, max(deadline - time.monotonic(), 0)))


def established(access: Access, definitions: Sequence[Object], limit: float = 60) -> None:
    """Waits until custom resource definitions can be used. Raises LimitError, ClusterError."""
    deadline = time.monotonic() + limit
    waits = [
        Wait(object=f"customresourcedefinition/{item['metadata']['name']}", condition="Established")
        for item in definitions
    ]
    while missing := [said for one in waits if (said := _lacks(access, one))]:
        if time.monotonic() >= deadline:
            raise LimitError(
                f"definitions could not be used within {limit:.0f} s: {'; '.join(missing)}",
                "see 'kubectl describe customresourcedefinitions'",
            )
        time.sleep(_SOON)


def _lacks(access: Access, one: Wait) -> str:
    """What a wait still lacks, '' when it is over."""
    if one.taint_gone:
        tainted = [
            item["metadata"]["name"]
            for item in access.listed("nodes")
            if any(taint["key"] == one.taint_gone for taint in item["spec"].get("taints") or ())
        ]
        return f"the taint {one.taint_gone} is on {', '.join(tainted)}" if tainted else ""
    if one.object:
        found = access.look_up(one.object, one.namespace)
        return (
            ""
            if found and _condition(found, one.condition)
            else f"{one.object} is not {one.condition}"
        )
    workload = access.look_up(one.rollout, one.namespace)
    if workload is None:
        return f"there is no {one.rollout} in {one.namespace}"
    return rollout(workload) or (_silent(access, one, workload) if one.logged else "")


def _silent(access: Access, one: Wait, workload: Mapping[str, Any]) -> str:
    """Which Pod of a rolled-out workload has not yet said that it works (its program runs, but it
    has no probe that tells).
    """
    for pod in pods.of_workload(access, workload):
        name = pod["metadata"]["name"]
        if one.logged not in pods.log(access, one.namespace, name):
            return f"{name} has not said '{one.logged}' yet"
    return ""


def rollout(workload: Mapping[str, Any]) -> str:
    """What a DaemonSet's or Deployment's rollout lacks, '' when it is done (as kubectl decides:
    polymorphichelpers/rollout_status.go).
    """
    name = f"{workload['kind'].lower()}/{workload['metadata']['name']}"
    status = workload.get("status", {})
    if status.get("observedGeneration", 0) < workload["metadata"].get("generation", 0):
        return f"{name} has not been looked at yet"
    if workload["kind"] == "DaemonSet":
        wanted, updated, available = (
            status.get(key, 0)
            for key in ("desiredNumberScheduled", "updatedNumberScheduled", "numberAvailable")
        )
        if not wanted:
            return f"{name} is on no node yet"
    else:
        wanted, updated, available = (
            workload["spec"].get("replicas", 1),
            status.get("updatedReplicas", 0),
            status.get("availableReplicas", 0),
        )
    return (
        ""
        if updated >= wanted and available >= wanted
        else f"{name} has {min(updated, available)} of {wanted} Pods available"
    )


def _condition(found: Mapping[str, Any], name: str) -> bool:
    return any(
        item["type"] == name and item["status"] == "True"
        for item in found.get("status", {}).get("conditions") or ()
    )


def _statuses(pods: Iterable[Mapping[str, Any]]) -> Iterable[tuple[str, Mapping[str, Any]]]:
    for pod in pods:
        for key in ("initContainerStatuses", "containerStatuses"):
            for status in pod.get("status", {}).get(key) or ():
                yield f"{pod['metadata']['name']}/{status['name']}", status


def _hopeless(pods: Iterable[Mapping[str, Any]]) -> str:
    for name, status in _statuses(pods):
        waiting = status.get("state", {}).get("waiting") or {}
        if waiting.get("reason") in _HOPELESS:
            return f"{name}: {waiting['reason']}: {waiting.get('message', '')}"
        if (
            status.get("restartCount", 0) >= _CRASHES
            and waiting.get("reason") == "CrashLoopBackOff"
        ):
            ended = status.get("lastState", {}).get("terminated") or {}
            said = ended.get("message") or ended.get("reason")
            return (
                f"{name} ended {status['restartCount']} times, the last time with"
                f" {ended.get('exitCode')}: {said}"
            )
    return ""


def _troubles(pods: Iterable[Mapping[str, Any]]) -> list[str]:
    """What each container that does not run says of it."""
    found = []
    for name, status in _statuses(pods):
        waiting = status.get("state", {}).get("waiting")
        if waiting and waiting.get("reason") not in ("PodInitializing", "ContainerCreating"):
            found.append(f"{name}: {waiting.get('reason')}: {waiting.get('message', '')}"[:300])
    return found[:5]
