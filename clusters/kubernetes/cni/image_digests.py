"""Which images the Pods of a CNI run, by digest, as the cluster says it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from cnibench.clusters.kubernetes.api import pods
from cnibench.clusters.kubernetes.api.access import Access, DeniedError
from cnibench.clusters.kubernetes.cni.pod_specs import containers
from cnibench.model.profile import Profile

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}$")


def image_digests(access: Access, profile: Profile) -> dict[str, str]:
    """``image NAME`` to the digest that its containers run, of the workloads that the profile waits
    for; several, where nodes have different ones, joined by a comma.

    What the cluster does not tell, or not to us, is not among them. Raises ClusterError,
    LimitError.
    """
    found: dict[str, set[str]] = {}
    for wait in profile.kubernetes.ready if profile.kubernetes else ():
        if not wait.rollout:
            continue
        try:
            workload = access.look_up(wait.rollout, wait.namespace)
            there = pods.of_workload(access, workload) if workload else []
        except DeniedError:
            continue
        for pod in there:
            for name, digest in digests(pod):
                found.setdefault(f"image {name}", set()).add(digest)
    return {name: ",".join(sorted(found[name])) for name in sorted(found)}


def digests(pod: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(the image's name as the Pod has it, its digest) of each container that has been started."""
    status = pod.get("status", {})
    ids = {
        one["name"]: digest[0]
        for key in ("initContainerStatuses", "containerStatuses")
        for one in status.get(key) or ()
        if (digest := _DIGEST.search(one.get("imageID", "")))
    }
    return [
        (str(one["image"]), ids[one["name"]])
        for one in containers(pod["spec"])
        if one["name"] in ids
    ]
