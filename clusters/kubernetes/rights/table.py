"""Every access to the API server that cnibench makes on an existing cluster: the one source of
the roles of ``cnibench rbac`` and of the check before a run.

A test holds it against the audit log of an API server (tests/e2e/test_kind_rights.py).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Literal

Level = Literal["namespace", "measure", "install"]
LEVELS: tuple[Level, ...] = ("namespace", "measure", "install")
# What only some runs do; cni-policy: policies as objects of Cilium or Calico; changed-service:
# Services that a cell's condition or workload makes.
Use = Literal["", "service", "changed-service", "policy", "cni-policy", "pull-secret"]
ANY = "*.*"  # all kinds of all groups

_READ = ("get", "list")
_APPLY = ("create", "patch")  # server-side apply of an object that may not be there
_REMOVE = ("list", "delete")  # of those with a label


@dataclass(frozen=True)
class Right:
    """``resource`` is PLURAL[.GROUP][/SUBRESOURCE], or a path that is no object's: /readyz.
    ``names``: of these objects only, () for all. ``without`` says what a run lacks that does not
    have it, '' where there is no run then.
    """

    resource: str
    verbs: tuple[str, ...]
    why: str
    names: tuple[str, ...] = ()
    without: str = ""
    use: Use = ""
    level: Level = "measure"


_KINDS = "which kinds of objects the API server has"
_MODE = "the mode of the CNI may be unknown"
_VERSION = "the version of the CNI may be unknown"
_LEFT = "cnibench clean does not find what was left"
_POLICIES = Right(
    "networkpolicies.networking.k8s.io",
    ("list",),
    "which NetworkPolicies keep measured Pods from each other",
    without="a NetworkPolicy that keeps measured Pods from each other is not named",
)
_OWN_POLICIES = "policies of the CNI's own kind, a condition of plans"

_QUESTIONS = (
    *(
        Right(path, ("get",), _KINDS)
        for path in ("/api", "/api/*", "/apis", "/apis/*", "/openapi/*")
    ),
    Right("/readyz", ("get",), "whether the API server answers: outages are waited for"),
    Right("/version", ("get",), "the version of Kubernetes, for the report"),
    Right(
        "selfsubjectaccessreviews.authorization.k8s.io",
        ("create",),
        "which of these rights are missing",
    ),
    Right(
        "selfsubjectrulesreviews.authorization.k8s.io",
        ("create",),
        "the same in one question, as far as the API server lists them",
        without="each right is asked for by itself",
    ),
    Right(
        "selfsubjectreviews.authentication.k8s.io",
        ("create",),
        "who is to get the missing ones",
        without="messages do not name the user",
    ),
)
_CLUSTER = (
    Right("nodes", _READ, "which nodes are measured, and whether they are Ready"),
    Right("pods", _READ, "Pods of others on these nodes, and those of the CNI"),
    Right(
        "services",
        ("list",),
        "whose rules the comparison of the nodes' kernels leaves out",
        without="a Service of others that comes or goes is taken for a change of the CNI",
    ),
    Right("daemonsets.apps", _READ, "which CNI runs, its version and its Pods"),
    Right("deployments.apps", ("get",), "the version and the Pods of the CNI", without=_VERSION),
    Right(
        "configmaps",
        ("get",),
        "the mode of the CNI, and whether an earlier run installed one",
        names=(
            "antrea-config",
            "cilium-config",
            "cnibench-installed",
            "kube-flannel-cfg",
            "kube-proxy",
        ),
        without=_MODE,
    ),
    Right(
        "secrets",
        ("get",),
        "whether Weave has a password and encrypts; read only where its DaemonSet names it",
        names=("weave-passwd",),
        without=_MODE,
    ),
    Right(
        "installations.operator.tigera.io",
        ("get",),
        "the mode of Calico",
        names=("default",),
        without=_MODE,
    ),
    Right(
        "felixconfigurations.crd.projectcalico.org",
        ("get",),
        "the mode of Calico",
        names=("default",),
        without=_MODE,
    ),
    Right(
        "ippools.crd.projectcalico.org",
        ("get",),
        "the mode of Calico",
        names=("default-ipv4-ippool",),
        without=_MODE,
    ),
)
_OWN = (
    Right(
        "namespaces",
        ("create", "get", "patch", "delete"),
        "the namespace of a run, made and deleted by it",
    ),
    Right("namespaces", ("list",), "namespaces that runs left", without=_LEFT),
    Right(
        "leases.coordination.k8s.io",
        ("create", "get", "update"),
        "the Lease in it, by which others see that the run is alive",
    ),
    Right("daemonsets.apps", _APPLY, "the node agents"),
    Right(
        "pods", (*_APPLY, "watch", "delete"), "the measured Pods; by a dry run, what agents may do"
    ),
    Right(
        "pods/exec",
        ("create", "get"),
        "commands in these Pods, by WebSocket (Kubernetes 1.35 asks for both verbs, older ones for"
        " get)",
    ),
    Right(
        "events",
        ("list",),
        "why a Pod does not start",
        without="messages about a Pod that does not start say less",
    ),
    _POLICIES,
    Right("secrets", ("get", *_APPLY), "the copy of --pull-secret", use="pull-secret"),
    Right(
        "services",
        ("get", *_APPLY, "delete"),
        "Services before the measured Pods (--path clusterip, nodeport)",
        use="service",
    ),
    *(
        Right(
            kind,
            ("get", "create", *more, *_REMOVE),
            "further Services (services.count), and those of service-change",
            use="changed-service",
        )
        for kind, more in (("services", ()), ("endpointslices.discovery.k8s.io", ("patch",)))
    ),
    Right(
        "networkpolicies.networking.k8s.io",
        (*_APPLY, *_REMOVE),
        "NetworkPolicies for the measured Pods, a condition of plans",
        use="policy",
    ),
    *(
        Right(kind, (*_APPLY, *_REMOVE), _OWN_POLICIES, use="cni-policy")
        for kind in (
            "ciliumnetworkpolicies.cilium.io",
            "networkpolicies.projectcalico.org",
            "networkpolicies.crd.projectcalico.org",
        )
    ),
    Right(
        "ciliumendpoints.cilium.io",
        ("get",),
        "how many entries Cilium made of a policy",
        without="entries of Cilium's policy map are not counted",
        use="cni-policy",
    ),
)
_INSTALL = (
    Right(
        ANY,
        (*_READ, "watch", *_APPLY, "delete"),
        "the objects of a CNI and those that its programs make, of any kind; a removal must know"
        " whose each object is",
        level="install",
    ),
    *(
        Right(
            f"{kind}.rbac.authorization.k8s.io",
            ("bind", "escalate"),
            "the roles of a CNI, which have more rights than this one",
            level="install",
        )
        for kind in ("clusterroles", "roles")
    ),
)
# In a namespace that an administrator has made: what everybody may ask is not granted there.
_NAMESPACE = (
    Right("namespaces", ("get",), "which namespace it is, by its UID", level="namespace"),
    Right(
        "leases.coordination.k8s.io",
        ("create", "get", "update", "delete"),
        "the Lease by which others see that a run is alive",
        level="namespace",
    ),
    Right(
        "pods", ("create", "get", "list", "watch", "delete"), "the measured Pods", level="namespace"
    ),
    *(replace(one, level="namespace") for one in _OWN if one.resource in ("pods/exec", "events")),
    replace(_POLICIES, level="namespace"),
)
TABLE: tuple[Right, ...] = (*_NAMESPACE, *_QUESTIONS, *_CLUSTER, *_OWN, *_INSTALL)


def rights(level: Level, uses: Collection[Use] | None = None, pull_secret: str = "") -> list[Right]:
    """What a level takes; installing includes measuring, a namespace is on its own. Of what only
    some runs do, that of ``uses`` (None: all); of Secrets for images only the one that
    ``pull_secret`` names.
    """
    levels = ("measure", "install") if level == "install" else (level,)
    found = []
    for one in TABLE:
        if one.level not in levels or (one.use and uses is not None and one.use not in uses):
            continue
        if one.use != "pull-secret":
            found.append(one)
        elif pull_secret:
            found.append(replace(one, names=(pull_secret.rpartition("/")[2],)))
    return found


def group_of(resource: str) -> tuple[str, str, str]:
    """(API group, plural, subresource) of PLURAL[.GROUP][/SUBRESOURCE]."""
    name, _, below = resource.partition("/")
    plural, _, group = name.partition(".")
    return group, plural, below
