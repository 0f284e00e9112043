"""The objects that we make in a cluster: our namespace, the Pods of the workloads, the agent on the
chosen nodes, Services.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

OURS = "app.kubernetes.io/managed-by"
NAME = "cnibench"
RUN, ROLE, POD = "cnibench.io/run", "cnibench.io/role", "cnibench.io/pod"
RIGHTS = "cnibench.io/rights"  # a label of agents: Rights
AGENT = "agent"
# capabilities: those below, and the node's processes, files and network; privileged: the same
# without limits; network: the node's network namespace, and nothing else; none: a Pod like any
# other, which sees the node's CPU time.
Rights = Literal["capabilities", "privileged", "network", "none"]
HOST = (
    "/proc/1/root"  # the node's files, in the agent: no volume, so that it sees later mounts, too
)
# What agents need, with the numbers of linux/capability.h.
CAPABILITIES = {
    "SYS_ADMIN": 21,  # namespaces of Pods, lists of eBPF programs; includes PERFMON and BPF
    "SYS_PTRACE": 19,  # /proc of processes of other users: their namespaces and root folder
    "SYS_CHROOT": 18,  # the node's files without leaving them by a link; mount namespaces
    "NET_ADMIN": 12,  # rules, routes, devices, IPsec, settings of the network
    "NET_RAW": 13,  # packets as they are on the wire
    "SYSLOG": 34,  # addresses of kernel functions (/proc/kallsyms)
    "IPC_LOCK": 14,  # perf's buffers
    "SYS_NICE": 23,  # real-time priority and CPUs of what is measured
    "KILL": 5,  # to halt, continue and end load generators of other users
    "DAC_OVERRIDE": 1,  # files and control groups of other users: a CNI's, when it is removed
    "FOWNER": 3,  # the same in folders with the sticky bit
    "SETGID": 6,  # tcpdump sets its groups
    "SETUID": 7,
}
Role = Literal[
    "client", "server", "stranger"
]  # whom the policies of an enforcing profile let in, and whom not
# Service meshes leave these Pods alone: their proxy would be measured, too.
_UNMESHED = {
    "labels": {"sidecar.istio.io/inject": "false", "kuma.io/sidecar-injection": "disabled"},
    "annotations": {
        "linkerd.io/inject": "disabled",
        "consul.hashicorp.com/connect-inject": "false",
    },
}
PATIENT = [
    {"key": "node.kubernetes.io/not-ready", "operator": "Exists"},
    {"key": "node.kubernetes.io/unreachable", "operator": "Exists"},
    {"key": "node.kubernetes.io/network-unavailable", "operator": "Exists"},
    {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"},
]


@dataclass(frozen=True)
class Making:
    """What all of our objects have in common. ``rights``: what the cluster lets the agents have
    (Rights); ``resources`` are requests and limits of each measured Pod.
    """

    namespace: str
    run: str
    workload_image: str
    agent_image: str
    tolerations: Sequence[Mapping[str, str]] = ()
    pull_secret: str = ""
    rights: Rights = "capabilities"
    resources: Mapping[str, str] = field(default_factory=dict)

    @property
    def confined(self) -> bool:
        """Do the Pods get by with what Pod Security's ``restricted`` allows?"""
        return self.rights in ("network", "none")

    def given(self, rights: Rights, namespace: str = "") -> Making:
        """The same with other rights, or in another namespace."""
        return replace(self, rights=rights, namespace=namespace or self.namespace)

    def labels(self, role: str = "") -> dict[str, str]:
        return {OURS: NAME, RUN: self.run, **({ROLE: role} if role else {})}

    def owners(self) -> list[dict[str, str]]:
        """Owner references of the Pods: none, where the namespace is ours and they go with it."""
        return []


def namespace(making: Making) -> dict[str, Any]:
    """Ours; its Pod Security labels let the agent in where the cluster leaves that to
    namespaces.
    """
    levels = {
        f"pod-security.kubernetes.io/{mode}": "privileged" for mode in ("enforce", "audit", "warn")
    }
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": making.namespace,
            "labels": {**making.labels(), **({} if making.confined else levels)},
        },
    }


def _on(node: str | Sequence[str]) -> dict[str, Any]:
    names = [node] if isinstance(node, str) else list(node)
    terms = [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}
        for name in names
    ]
    return {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}
        }
    }


def _restricted() -> dict[str, Any]:
    """What Pod Security's ``restricted`` asks for (pod-security-standards of Kubernetes)."""
    return {
        "allowPrivilegeEscalation": False,
        "runAsNonRoot": True,
        "runAsUser": 65534,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def _spec(
    making: Making, image: str, context: Mapping[str, Any], node: str | Sequence[str]
) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "affinity": _on(node),
        "tolerations": [*making.tolerations, *PATIENT],
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 0,
        "containers": [
            {
                "name": NAME,
                "image": image,
                "imagePullPolicy": "IfNotPresent",
                "command": ["sleep", "infinity"],
                "securityContext": dict(context),
            }
        ],
    }
    if making.pull_secret:
        spec["imagePullSecrets"] = [{"name": making.pull_secret}]
    return spec


def pod(
    making: Making, name: str, node: str, *, host: bool = False, role: Role = "client"
) -> dict[str, Any]:
    """A Pod of the workloads, which waits for commands; ``host``: in its node's network
    namespace.
    """
    # NET_ADMIN is for its own namespace: TIME_WAIT sockets and cached TCP metrics of one cell must
    # not carry over to the next.
    context = (
        _restricted() if making.confined else {"capabilities": {"add": ["NET_ADMIN", "NET_RAW"]}}
    )
    spec = _spec(making, making.workload_image, context, node)
    if host:
        spec |= {"hostNetwork": True, "dnsPolicy": "Default"}
    if making.resources:  # both alike: Kubernetes gives these Pods the class Guaranteed
        given = dict(making.resources)
        spec["containers"][0]["resources"] = {"requests": given, "limits": given}
    # The pause container reaps what programs leave behind: sleep, as the first process, would not.
    spec |= {"restartPolicy": "Never", "shareProcessNamespace": True}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": making.namespace,
            "labels": {**making.labels(role), POD: name, **_UNMESHED["labels"]},
            "annotations": _UNMESHED["annotations"],
            **({"ownerReferences": owners} if (owners := making.owners()) else {}),
        },
        "spec": spec,
    }


def _agent_context(rights: Rights) -> dict[str, Any]:
    if rights == "privileged":
        return {"privileged": True, "readOnlyRootFilesystem": True}
    if rights == "capabilities":
        return {
            "capabilities": {"drop": ["ALL"], "add": list(CAPABILITIES)},
            "readOnlyRootFilesystem": True,
            "seccompProfile": {"type": "RuntimeDefault"},  # which allows what capabilities do
            # The runtime's profile denies /proc/PID of processes that have none or another.
            "appArmorProfile": {"type": "Unconfined"},
        }
    return {**_restricted(), "readOnlyRootFilesystem": True}


def _agent_spec(making: Making, nodes: str | Sequence[str]) -> dict[str, Any]:
    spec = _spec(making, making.agent_image, _agent_context(making.rights), nodes)
    # iptables has its lock in /run.
    spec["volumes"] = [{"name": name, "emptyDir": {"medium": "Memory"}} for name in ("run", "tmp")]
    spec["containers"][0]["volumeMounts"] = [
        {"name": name, "mountPath": f"/{name}"} for name in ("run", "tmp")
    ]
    if making.rights != "none":
        spec |= {"hostNetwork": True, "dnsPolicy": "Default"}
    if not making.confined:
        spec["hostPID"] = True
    return spec


def agent_selector(making: Making) -> str:
    """The agents' Pods that have these rights, as a label selector."""
    return f"{ROLE}={AGENT},{RIGHTS}={making.rights}"


def agent(making: Making, nodes: Sequence[str]) -> dict[str, Any]:
    """The node agent, on the chosen nodes only. It needs no CNI. With less than the capabilities,
    counters of the node's network namespace can still be read, or at least its CPU time.
    """
    labels = making.labels(AGENT)
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": AGENT, "namespace": making.namespace, "labels": labels},
        "spec": {
            "selector": {"matchLabels": labels},
            # Agents with other rights replace all of them at once.
            "updateStrategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxUnavailable": "100%"},
            },
            "template": {
                "metadata": {
                    "labels": {**labels, RIGHTS: making.rights, **_UNMESHED["labels"]},
                    "annotations": _UNMESHED["annotations"],
                },
                "spec": _agent_spec(making, nodes),
            },
        },
    }


def agent_pod(making: Making, node: str) -> dict[str, Any]:
    """One Pod as the agents' DaemonSet makes them, to ask the API server whether it may be."""
    metadata = {
        "name": "cnibench-may-it",
        "namespace": making.namespace,
        "labels": making.labels("probe"),
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": _agent_spec(making, node),
    }


def service(
    making: Making,
    name: str,
    target: str,
    ports: Sequence[int],
    *,
    node_port: bool,
    families: Sequence[int],
    protocols: Sequence[str] = ("TCP", "UDP"),
) -> dict[str, Any]:
    """A Service of one Pod, every port to itself; as NodePort with the same number on the nodes,
    too.
    """
    listed: list[dict[str, Any]] = []
    for port in ports:
        for protocol in protocols:
            one = {
                "name": f"{protocol.lower()}-{port}",
                "port": port,
                "targetPort": port,
                "protocol": protocol,
            }
            listed.append({**one, "nodePort": port} if node_port else one)
    several = (
        {"ipFamilyPolicy": "RequireDualStack"}
        if len(families) > 1
        else {"ipFamilies": [f"IPv{families[0]}"]}
    )
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": making.namespace, "labels": making.labels()},
        "spec": {
            "type": "NodePort" if node_port else "ClusterIP",
            "selector": {POD: target},
            "ports": listed,
            **several,
        },
    }
