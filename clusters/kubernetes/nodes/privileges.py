"""How much the node agents may do: the least that suffices of what the cluster admits."""

from __future__ import annotations

import logging
import re
from pathlib import Path

from cnibench.clusters.kubernetes.api import objects
from cnibench.clusters.kubernetes.api.access import DENIED, Access, DeniedError
from cnibench.clusters.kubernetes.api.objects import Making, Rights
from cnibench.clusters.kubernetes.nodes.places import KubernetesNode
from cnibench.clusters.kubernetes.rights import preflight

_log = logging.getLogger(__name__)
_PROBE = Path(__file__).with_name("_privileges_probe.py")
_LIMIT = 30.0  # s
_PROFILES = (1, 30)  # the first Kubernetes with securityContext.appArmorProfile
_ENFORCE = "pod-security.kubernetes.io/enforce"


def levels(access: Access) -> tuple[Rights, ...]:
    """Those to try, the best first. Raises ClusterError."""
    major, minor = re.findall(r"\d+", access.server_version)[:2]
    found: tuple[Rights, ...] = ("capabilities", "privileged", "network", "none")
    return found if (int(major), int(minor)) >= _PROFILES else found[1:]


def suffice(node: KubernetesNode) -> bool:
    """Does the runtime on that node let an agent do what its capabilities are for? seccomp,
    AppArmor and SELinux may deny it. Raises ClusterError.
    """
    argv = [node.python, "-I", "-S", "-c", _PROBE.read_text(encoding="utf-8"), f"{_mask():x}"]
    done = node.run(argv, timeout=_LIMIT, check=False)
    if done.returncode:
        _log.info("node %s denies the agent: %s", node.name, done.words())
    return done.returncode == 0


def _mask() -> int:
    return sum(1 << number for number in objects.CAPABILITIES.values())


def refused(access: Access, making: Making, node: str) -> str:
    """Why the API server lets no agent with these rights run, '' when it does. Asked by a Pod that
    is never made, because a DaemonSet's refusal is only an event. Raises DeniedError when this user
    may make no Pods at all, ClusterError when it cannot be asked.
    """
    pod = objects.agent_pod(making, node)
    answer = access.call("POST", f"/api/v1/namespaces/{making.namespace}/pods?dryRun=All", pod)
    if answer.ok:
        return ""
    # Admission refuses with the same reason as the authorizer.
    denied = answer.reason in DENIED and not preflight.may(
        access, "pods", "create", namespace=making.namespace
    )
    if answer.silent or denied:
        raise access.refusal(answer, "whether agents may run cannot be asked")
    return answer.message or answer.reason


def node_access_refused(access: Access, making: Making, node: str) -> str:
    """Why no agent that may look into its node is admitted, '' where one is. Raises ClusterError.

    Ours is a namespace whose Pod Security admits privileged Pods, and it is not there yet: where
    ``default`` refuses, another namespace of that kind is asked. Is there none, and ``default`` has
    a stricter level of its own, that is the reason.
    """
    said = _refused_in(access, making, node, "default")
    if not said:
        return ""
    try:
        alike = access.listed("namespaces", labels=f"{_ENFORCE}=privileged")
    except DeniedError:  # one of the rights that can be missing
        alike = []
    if alike:
        return _refused_in(access, making, node, str(alike[0]["metadata"]["name"]))
    labels = access.get("namespaces", "default")["metadata"].get("labels") or {}
    return "" if labels.get(_ENFORCE) in ("baseline", "restricted") else said


def _refused_in(access: Access, making: Making, node: str, namespace: str) -> str:
    said = ""
    for rights in levels(access):
        asked = making.given(rights, namespace)
        if asked.confined or not (said := refused(access, asked, node)):
            break
    return said
