"""The Pods in objects of the API: their images, from which registry, and with which secret."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Object = dict[str, Any]


def images(objects: Sequence[Mapping[str, Any]]) -> list[str]:
    """The images of all containers, each once, in order. What an operator starts by itself is not
    among them.
    """
    found: dict[str, None] = {}
    for item in objects:
        for pod in pod_specs(item):
            for container in containers(pod):
                found[str(container["image"])] = None
    return list(found)


def adapt(item: Object, registry: str, pull_secret: str) -> None:
    """Images from a mirror, with its secret."""
    for pod in pod_specs(item):
        if registry:
            for container in containers(pod):
                container["image"] = mirrored(container["image"], registry)
        if pull_secret:
            pod["imagePullSecrets"] = [
                *(pod.get("imagePullSecrets") or ()),
                {"name": pull_secret.rpartition("/")[2]},
            ]


def mirrored(image: str, registry: str) -> str:
    """An image's name in a mirror that keeps all paths: quay.io/cilium/cilium:v1 is
    HOST/PATH/cilium/cilium:v1.
    """
    first, slash, rest = image.partition("/")
    path = rest if slash and ("." in first or ":" in first or first == "localhost") else image
    return f"{registry.rstrip('/')}/{path}"


def pod_specs(item: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The Pod that an object is or makes."""
    spec = item.get("spec")
    if not isinstance(spec, dict):
        return []
    if item.get("kind") == "Pod":
        return [spec]
    if item.get("kind") == "CronJob":
        spec = spec.get("jobTemplate", {}).get("spec", {})
    pod = (
        (spec.get("template") or {}).get("spec")
        if item.get("kind") in ("DaemonSet", "Deployment", "StatefulSet", "Job", "CronJob")
        else None
    )
    return [pod] if isinstance(pod, dict) else []


def containers(pod: Mapping[str, Any]) -> list[dict[str, Any]]:
    """All of a Pod, those that initialize it first."""
    return [one for key in ("initContainers", "containers") for one in pod.get(key) or ()]
