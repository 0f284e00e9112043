"""Our Pods: made, waited for with a limit and the reason why they do not come, removed."""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cnibench.clusters.kubernetes.api import objects
from cnibench.clusters.kubernetes.api.access import Access, DeniedError, UnreachableError
from cnibench.clusters.kubernetes.api.client import TEXT
from cnibench.clusters.kubernetes.api.following import Following, following
from cnibench.errors import ClusterError, LimitError
from cnibench.system.guest import patience

READY = 180.0  # s: pulling an image takes most of it
EACH = 1.0  # s: what a plan reckons with for one of many that are made at once on a small machine
_AGAIN = 1.0  # s between two looks at what does not change
# What a container that waits for these will not come out of by itself soon (kubelet, images and
# container runtime).
_HOPELESS = (
    "ErrImageNeverPull",
    "InvalidImageName",
    "CreateContainerConfigError",
    "CreateContainerError",
    "CrashLoopBackOff",
)
# Of these, what may be due to what the container asks for (capabilities, say), not to its image.
_UNSTARTABLE = ("CreateContainerConfigError", "CreateContainerError", "CrashLoopBackOff", "Ended")
# the scheduler's word for a node that has as many as its kubelet takes (110 by default)
_FULL = "Too many pods"
# the same for what Pods request (--pod-resources)
_SCARCE = ("Insufficient cpu", "Insufficient memory")
_PULL = ("ErrImagePull", "ImagePullBackOff")
_TRIES = 20.0  # s: a registry may be slow to answer once, and Pods of others may end


class UnstartableError(ClusterError):
    """The runtime does not start a container as it was asked for."""


def addresses(pod: Mapping[str, Any]) -> dict[int, str]:
    """4 and 6 to the Pod's address, out of its object."""
    found: dict[int, str] = {}
    for item in pod.get("status", {}).get("podIPs", ()):
        found.setdefault(ipaddress.ip_address(item["ip"]).version, item["ip"])
    return found


def is_ready(pod: Mapping[str, Any]) -> bool:
    return any(
        item["type"] == "Ready" and item["status"] == "True"
        for item in pod.get("status", {}).get("conditions", ())
    )


def of_workload(access: Access, workload: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The Pods of a DaemonSet or Deployment, of which the object is given. Raises ClusterError."""
    labels = workload["spec"]["selector"].get("matchLabels", {})
    selector = ",".join(f"{key}={value}" for key, value in labels.items())
    namespace = workload["metadata"]["namespace"]
    return access.listed("pods", namespace, labels=selector)


def trouble(pod: Mapping[str, Any]) -> tuple[str, str]:
    """(the reason's name, words) why a Pod is not ready, ('', '') when nothing speaks against
    it.
    """
    status = pod.get("status", {})
    if status.get("phase") in ("Failed", "Succeeded"):
        ended = [
            item["state"]["terminated"]
            for item in status.get("containerStatuses", ())
            if "terminated" in item.get("state", {})
        ]
        said = (
            status if "reason" in status or not ended else ended[0]
        )  # the kubelet's own reason (Evicted), else the container's
        return "Ended", f"{said.get('reason', status['phase'])} {said.get('message', '')}".strip()
    for item in (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())):
        waiting = item.get("state", {}).get("waiting", {})
        if waiting.get("reason") in (*_HOPELESS, *_PULL):
            said = str(waiting.get("message", ""))
            if waiting["reason"] == "CrashLoopBackOff" and (
                last := item.get("lastState", {}).get("terminated")
            ):
                said = (
                    f"its container ended with {last.get('exitCode')} {last.get('reason', '')}"
                    f" {last.get('message', '')}".strip()
                )
            return str(waiting["reason"]), said
    for item in status.get("conditions", ()):
        if item["type"] == "PodScheduled" and item["status"] == "False":
            return "Unschedulable", str(item.get("message", ""))
    return "", ""


def added_containers(pod: Mapping[str, Any]) -> list[str]:
    """The containers of a Pod of ours that we did not ask for: a service mesh's proxy, say."""
    spec = pod["spec"]
    names = [one["name"] for one in (*spec.get("initContainers", ()), *spec["containers"])]
    return [name for name in names if name != objects.NAME]


def cpu_limit(pod: Mapping[str, Any]) -> str:
    """The limit of a Pod's CPU time, '' for none."""
    containers = pod["spec"]["containers"]
    limits = [(one.get("resources") or {}).get("limits") or {} for one in containers]
    return next((str(one["cpu"]) for one in limits if "cpu" in one), "")


def wait_ready(
    access: Access, namespace: str, selector: str, count: int, limit: float = READY
) -> list[dict[str, Any]]:
    """Until ``count`` Pods of that label selector are Ready; their objects. Raises ClusterError,
    LimitError with what the Pods and the namespace's events say."""
    with following(access, namespace, selector) as news:
        return _ready(access, namespace, selector, count, limit, news)


def _ready(
    access: Access, namespace: str, selector: str, count: int, limit: float, news: Following
) -> list[dict[str, Any]]:
    start = time.monotonic()
    waited: float | None = None
    while True:
        try:
            found = news.items()
        except UnreachableError:
            if time.monotonic() - start > limit * patience():
                raise
            time.sleep(1.0)
            continue
        if len(found) >= count and all(is_ready(pod) for pod in found):
            return found
        for pod in found:
            reason, said = trouble(pod)
            if reason in (*_HOPELESS, "Ended") or (reason == "Unschedulable" and _FULL in said):
                raise _never(access, namespace, pod, reason, said)
            scarce = reason == "Unschedulable" and any(one in said for one in _SCARCE)
            if reason in _PULL or scarce:
                waited = waited or time.monotonic()
                if time.monotonic() - waited > _TRIES * patience():
                    raise _never(access, namespace, pod, reason, said)
        if time.monotonic() - start > limit * patience():
            details = f"{_late(access, namespace, found, selector, count)} within {limit:.0f} s"
            raise LimitError(details, f"kubectl get events -n {namespace} says more")
        news.wait(_AGAIN)


def _never(
    access: Access, namespace: str, pod: Mapping[str, Any], reason: str, said: str
) -> ClusterError:
    name = pod["metadata"]["name"]
    remedy = f"kubectl get events -n {namespace} says more"
    if _FULL in said:
        remedy = (
            "a kubelet runs at most 110 Pods by default (maxPods): ask for fewer Pods, or raise the"
            " limit"
        )
    if any(one in said for one in _SCARCE):
        remedy = "--pod-resources has to ask for less, or name nodes that have more to give"
    if "Image" in reason or reason in _PULL:
        remedy = (
            "'cnibench images build' and 'cnibench images load' bring the images where there is no"
            " registry; or --registry, --pull-secret"
        )
    if "resource temporarily unavailable" in said:
        remedy = (
            "its node has all processes and threads that it may: pids_limit of containers.conf,"
            " podPidsLimit of the kubelet, pid_max"
        )
    details = said or events(access, namespace, name)
    kind = UnstartableError if reason in _UNSTARTABLE else ClusterError
    return kind(f"the Pod {name} will not run: {reason}: {details}", remedy)


def _late(
    access: Access, namespace: str, found: Sequence[Mapping[str, Any]], selector: str, count: int
) -> str:
    waiting = [pod["metadata"]["name"] for pod in found if not is_ready(pod)]
    if not waiting:
        return (
            f"{len(found)} of {count} Pods ({selector}) were made"
            f" ({events(access, namespace, '') or 'no event'})"
        )
    first = next(pod for pod in found if pod["metadata"]["name"] == waiting[0])
    details = (
        " ".join(trouble(first)).strip() or events(access, namespace, waiting[0]) or "no event"
    )
    return f"the Pods {', '.join(waiting)} were not ready ({details})"


def events(access: Access, namespace: str, name: str) -> str:
    """The last warnings about a Pod (or, with '', anything) in that namespace, as one line."""
    try:
        fields = f"involvedObject.name={name}" if name else ""
        items = access.listed("events", namespace, fields=fields)
    except DeniedError:
        return "this user may not list events"
    except ClusterError:
        return ""
    warnings = [item for item in items if item.get("type") == "Warning"] or items
    messages = [f"{item.get('reason')}: {item.get('message')}" for item in warnings[-2:]]
    return access.hidden("; ".join(messages))[:600]


def remove(access: Access, namespace: str, names: Iterable[str], limit: float = 60.0) -> None:
    """Removes Pods at once, and waits until they are gone. Raises ClusterError, LimitError."""
    if listed := ",".join(names):
        labels = f"{objects.POD} in ({listed})"
        access.delete("pods", namespace, labels, grace=0, wait=limit)


def log(access: Access, namespace: str, name: str) -> str:
    """What a Pod has printed so far; nothing before its container has started. Raises
    DeniedError.
    """
    path = f"/api/v1/namespaces/{namespace}/pods/{name}/log"
    answer = access.call("GET", path, accept=TEXT)
    if answer.status in (401, 403):
        raise access.refusal(answer, f"the log of the Pod {name} cannot be read")
    return answer.text if answer.ok else ""
