"""What reaching a node's Pod costs, and reading the facts of thirty nodes: on a kind cluster of two
nodes, without a CNI.

    python benchmarks/kind_nodes.py [ROUNDS]

Needs root, kind, kubectl, podman and the images of ``cnibench images build``. Prints (a)
milliseconds that ``true`` takes in the node agent's Pod over cnibench's kept connection, by
``kubectl exec``, and in the node's container by ``nsenter``, in turn: a cell pays the difference
for each program that it starts; (b) milliseconds until the facts of all nodes are read, with the
cluster's 2 nodes and with 28 more Node objects, which the API server holds although no machine is
behind them. The exit status says nothing of them.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

from cnibench.clusters.kind.containers import OneCluster
from cnibench.clusters.kubernetes import images
from cnibench.clusters.kubernetes.api.access import Access
from cnibench.clusters.kubernetes.api.objects import Making
from cnibench.clusters.kubernetes.nodes import agents
from cnibench.clusters.kubernetes.nodes.nodes import Facts, facts
from cnibench.testbed.cluster import Options

THIRTY = 30


def taking(what: Callable[[], object]) -> float:
    """Milliseconds."""
    began = time.monotonic()
    what()
    return 1e3 * (time.monotonic() - began)


def median(figures: list[float]) -> str:
    return (
        f"{statistics.median(figures):.1f} ms (quartiles"
        f" {', '.join(f'{one:.1f}' for one in statistics.quantiles(figures)[::2])})"
    )


def reach(cluster: OneCluster, making: Making, rounds: int) -> None:
    """(a)"""
    node, *_ = agents.connect(cluster.access, making, cluster.facts)
    first = taking(lambda: node.run(["true"], timeout=30))
    (pod,) = (
        item["metadata"]["name"]
        for item in cluster.access.listed(
            "pods", making.namespace, fields=f"spec.nodeName={node.facts.name}"
        )
    )
    engine = ["podman", "inspect", "--format", "{{.State.Pid}}", node.facts.name]
    init = subprocess.run(engine, check=True, capture_output=True, text=True).stdout.strip()
    kubectl = ["kubectl", "--kubeconfig", str(cluster.access.kubeconfig)]
    ways: dict[str, Callable[[], object]] = {
        "kept connection": lambda: node.run(["true"], timeout=30),
        "kubectl exec": lambda: subprocess.run(
            [*kubectl, "exec", "-n", making.namespace, pod, "--", "true"], check=True
        ),
        "nsenter": lambda: subprocess.run(
            ["nsenter", "-t", init, "-m", "-n", "-p", "true"], check=True
        ),
    }
    found: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            found[name].append(taking(way))
    print(f"a program in a Pod, {rounds} rounds; the connection was made in {first:.0f} ms")
    for name, figures in found.items():
        print(f"  {name}: {median(figures)}")


def read(access: Access, rounds: int) -> None:
    """(b)"""

    def everywhere() -> list[Facts]:
        return [facts(item) for item in access.listed("nodes")]

    for more in (0, THIRTY - len(everywhere())):
        for number in range(more):
            access.apply(
                {
                    "apiVersion": "v1",
                    "kind": "Node",
                    "metadata": {"name": f"only-an-object-{number}"},
                }
            )
        count = len(everywhere())
        print(f"facts of {count} nodes: {median([taking(everywhere) for _ in range(rounds)])}")


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    print(f"load {os.getloadavg()[0]:.1f}")
    cluster = OneCluster(Options(), kube_proxy=True)
    try:
        making = Making(
            cluster.name,
            cluster.name,
            images.name("workload"),
            images.name("agent"),
            tolerations=({"operator": "Exists"},),
        )
        cluster.load([images.archive(images.engine(), [making.workload_image, making.agent_image])])
        reach(cluster, agents.make(cluster.access, making, cluster.facts), rounds)
        read(cluster.access, rounds)
    finally:
        cluster.delete()


if __name__ == "__main__":
    main()
