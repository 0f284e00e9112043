"""Changes of a deployment that its second attestation must find, and what it must not mind."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from _kind_runs import until
from _kubectl import kubectl

from cnibench.clusters.kubernetes.api import pods
from cnibench.clusters.kubernetes.deployment import KubernetesDeployment
from cnibench.clusters.kubernetes.pods import background
from cnibench.testbed.place import Place

OTHERS = "cnibench-others"


@dataclass(frozen=True)
class Sabotage:
    """``place`` is a node or a Pod of the first pair; DEV is the node's device for its address.
    ``found`` is in what the attestation says of it.
    """

    place: str
    do: str
    undo: str
    found: str


FLUSHED = "a chain is flushed"
SABOTAGES = {
    "a rule is put before others": Sabotage(
        "b",
        "iptables -t mangle -I FORWARD -p tcp --dport 9 -j ACCEPT",
        "iptables -t mangle -D FORWARD -p tcp --dport 9 -j ACCEPT",
        "--dport 9",
    ),
    "an offload of a Pod": Sabotage(
        "b0", "ethtool -K eth0 tso off", "ethtool -K eth0 tso on", "offload: eth0 features"
    ),
    "a tc filter at a Pod": Sabotage(
        "a0",
        "tc qdisc add dev eth0 clsact;"
        " tc filter add dev eth0 egress protocol ip u32 match u32 0 0 classid 1:1",
        "tc qdisc del dev eth0 clsact",
        "eth0 egress u32",
    ),
    "a queueing discipline": Sabotage(
        "a1",
        "tc qdisc add dev eth0 root pfifo limit 50",
        "tc qdisc del dev eth0 root",
        "queueing: eth0 pfifo",
    ),
    "a route": Sabotage(
        "a",
        "ip route add 198.51.100.0/24 dev DEV",
        "ip route del 198.51.100.0/24 dev DEV",
        "198.51.100.0/24",
    ),
    "a routing rule": Sabotage(
        "b",
        "ip rule add pref 9 to 198.51.100.0/24 lookup 77",
        "ip rule del pref 9",
        "routing rules",
    ),
    "a sysctl of a node": Sabotage(
        "b",
        "echo 1 >/proc/1/root/proc/sys/net/netfilter/nf_conntrack_tcp_be_liberal",
        "echo 0 >/proc/1/root/proc/sys/net/netfilter/nf_conntrack_tcp_be_liberal",
        "nf_conntrack_tcp_be_liberal 1",
    ),
    "a sysctl of a Pod": Sabotage(
        "b0",
        "echo 0 >/proc/1/root/proc/sys/net/ipv4/tcp_sack",
        "echo 1 >/proc/1/root/proc/sys/net/ipv4/tcp_sack",
        "ipv4/tcp_sack 0",
    ),
    "an option of a device": Sabotage(
        "a", "ip link set DEV txqueuelen 77", "ip link set DEV txqueuelen 1000", "txqueuelen 77"
    ),
    "a neighbour": Sabotage(
        "b",
        "ip neigh add 198.51.100.7 lladdr 02:00:00:00:00:07 dev DEV nud permanent",
        "ip neigh del 198.51.100.7 dev DEV",
        "neighbours: neighbour",
    ),
    # The last one: kube-proxy writes its chains again 30 s after it last did.
    FLUSHED: Sabotage(
        "a",
        "iptables-save >/tmp/saved; iptables -F KUBE-FORWARD",
        "iptables-restore </tmp/saved",
        "KUBE-FORWARD",
    ),
}

# Cilium's program at the tunnel's device of a node, which does not come back by itself.
DETACHED = Sabotage("a", "tc filter del dev cilium_vxlan ingress", "true", "cilium_vxlan")


def place_of(deployment: KubernetesDeployment, name: str) -> Place:
    """A node, or a Pod as root of its node sees it."""
    for node in deployment.nodes():
        if node.name == name:
            return node
    (pod,) = [one for one in deployment.pods() if one.name == name]
    return background.enter(deployment.access, deployment.namespace, [pod])[0]


def carry_out(deployment: KubernetesDeployment, sabotage: Sabotage, script: str) -> None:
    devices = deployment.underlay()
    script = script.replace("DEV", devices.get(sabotage.place, ""))
    argv = ["sh", "-ec", script]
    if sabotage.place in devices:
        place_of(deployment, sabotage.place).run(argv, timeout=30)
        return
    # with the agent's programs and the Pod's network: its image has neither tc nor the rights
    pod = place_of(deployment, sabotage.place)
    assert isinstance(pod, background.EnteredPod)
    pod.node.run(["nsenter", "-t", str(pod.pid), "-n", *argv], timeout=30)


def refuted(deployment: KubernetesDeployment) -> dict[str, str]:
    """The failed checks of a comparison: what is expected and what is there instead."""
    return {
        one.check: f"{one.expected} | {one.observed}"
        for one in deployment.attest()
        if not one.passed
    }


@contextlib.contextmanager
def others_come_and_go(deployment: KubernetesDeployment) -> Iterator[None]:
    """Pods and a Service of somebody else on both nodes: some were there before the block, which
    has the second half of the others, and all go at its end.
    """
    access = deployment.access
    access.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OTHERS}})
    try:
        _make(deployment, "early")
        deployment.attest()
        _make(deployment, "late")
        kubectl(access, "delete", "pod,service", "-n", OTHERS, "-l", "when=early", timeout=90)
        yield
    finally:
        kubectl(access, "delete", "pod,service", "-n", OTHERS, "--all", timeout=90)
        kubectl(access, "delete", "namespace", OTHERS, "--wait=false")


def _make(deployment: KubernetesDeployment, when: str) -> None:
    making, labels = deployment.making, {"app": OTHERS, "when": when}
    made = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"{when}-{node.name}", "namespace": OTHERS, "labels": labels},
            "spec": {
                "nodeName": node.facts.name,
                "tolerations": [{"operator": "Exists"}],
                "terminationGracePeriodSeconds": 0,
                "containers": [
                    {
                        "name": "main",
                        "image": making.workload_image,
                        "imagePullPolicy": "IfNotPresent",
                        "command": ["sleep", "infinity"],
                        "ports": [{"containerPort": 8080, "hostPort": 18080 + (when == "late")}],
                    }
                ],
            },
        }
        for node in deployment.nodes()
    ]
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": when, "namespace": OTHERS, "labels": labels},
        "spec": {
            "type": "NodePort",
            "selector": labels,
            "ports": [{"port": 80, "targetPort": 8080}],
        },
    }
    access = deployment.access
    until(lambda: access.find("serviceaccount", "default", OTHERS))
    access.apply(*made, service)
    pods.wait_ready(access, OTHERS, f"when={when}", len(made))
