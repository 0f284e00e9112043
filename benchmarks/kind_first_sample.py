"""From nothing to the first sample on kind: `cnibench run --cluster kind --cni flannel` beside the
shell commands that do the same.

    python benchmarks/kind_first_sample.py CHART IMAGE_ARCHIVE [ROUNDS]

Needs root, kind, kubectl, helm, podman and the images of ``cnibench images build``; both take
flannel's chart and images from the folder and the archive that are named, and the nodes' image from
CNIBENCH_KIND_IMAGE if that is set. By hand there are no attestation, no collectors and no node
agents, of which the time is cnibench's own. Prints seconds until netperf starts, a line for each
round, the two in turn; the exit status says nothing of them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path

from cnibench.clusters.kubernetes import images
from cnibench.rundir.reader import RunReader

NAME = "cnibench-by-hand"
RUN = (
    "--cluster=kind --cni=flannel --workload=tcp-rr --placement=inter --blocks=1 --duration=1s"
    " --warmup=0s"
)
PLUGIN = (
    "for folder in /opt/cni/bin /usr/lib/cni; do cat $folder/bridge 2>/dev/null && exit; done;"
    " exit 1"
)
SCRIPT = f"""
set -eu
kind create cluster --name {NAME} --kubeconfig kubeconfig --wait 0s --config topology ${{IMAGE:+--image "$IMAGE"}}
export KUBECONFIG=$PWD/kubeconfig
podman save --quiet -o images.tar {images.name("workload")}
for archive in images.tar $ARCHIVE; do kind load image-archive $archive --name {NAME}; done
podman run --rm --network none --entrypoint sh {images.name("agent")} -c '{PLUGIN}' > bridge
chmod 755 bridge
for node in $(kind get nodes --name {NAME}); do podman cp bridge $node:/opt/cni/bin/bridge; done
kubectl create namespace kube-flannel
kubectl label namespace kube-flannel pod-security.kubernetes.io/enforce=privileged
helm install flannel $CHART --namespace kube-flannel
kubectl rollout status --namespace kube-flannel daemonset/kube-flannel-ds --timeout=240s
kubectl wait --for=condition=Ready node --all --timeout=240s
kubectl apply -f pods
kubectl wait --for=condition=Ready pod/server pod/client --timeout=240s
kubectl exec server -- netserver
address=$(kubectl get pod server -o 'jsonpath={{.status.podIP}}')
date +%s.%N > first
kubectl exec client -- netperf -H $address -t TCP_RR -l 1
"""  # noqa: E501


def pod(name: str, node: str) -> dict[str, object]:
    """One of the two, on its node."""
    container = {
        "name": "x",
        "image": images.name("workload"),
        "imagePullPolicy": "IfNotPresent",
        "command": ["sleep", "infinity"],
    }
    spec = {
        "nodeName": node,
        "tolerations": [{"operator": "Exists"}],
        "containers": [container],
        "terminationGracePeriodSeconds": 0,
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def by_hand(folder: Path, chart: str, archive: str) -> float:
    """Seconds until netperf starts."""
    networking = {"disableDefaultCNI": True, "podSubnet": "10.244.0.0/16"}
    nodes = [{"role": "control-plane"}, {"role": "worker"}]
    topology = {
        "kind": "Cluster",
        "apiVersion": "kind.x-k8s.io/v1alpha4",
        "networking": networking,
        "nodes": nodes,
    }
    (folder / "topology").write_text(json.dumps(topology))
    both = [pod("server", f"{NAME}-control-plane"), pod("client", f"{NAME}-worker")]
    (folder / "pods").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": both}))
    environment = {
        **os.environ,
        "CHART": chart,
        "ARCHIVE": archive,
        "IMAGE": os.environ.get("CNIBENCH_KIND_IMAGE", ""),
    }
    began = time.time()
    try:
        subprocess.run(
            ["bash", "-c", SCRIPT], cwd=folder, env=environment, check=True, capture_output=True
        )
    finally:
        subprocess.run(
            ["kind", "delete", "cluster", "--name", NAME], check=True, capture_output=True
        )
    return float((folder / "first").read_text()) - began


def by_cnibench(folder: Path, chart: str, archive: str) -> float:
    """Seconds until the first sample starts."""
    settings = ("--set", f"chart={chart}", "--image-archive", archive)
    began = time.time()
    cnibench = str(Path(sys.executable).parent / "cnibench")
    subprocess.run(
        [cnibench, "run", *RUN.split(), *settings, "--out", str(folder)],
        check=True,
        capture_output=True,
    )
    (run,) = folder.iterdir()
    return (
        min(datetime.fromisoformat(line.start).timestamp() for line in RunReader(run).samples())
        - began
    )


def main() -> None:
    if len(sys.argv) < 3:
        raise SystemExit(f"usage: python {sys.argv[0]} CHART IMAGE_ARCHIVE [ROUNDS]")
    chart, archive = sys.argv[1:3]
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 3
    for number in range(rounds):
        load, took = os.getloadavg()[0], {}
        for which in (by_hand, by_cnibench) if number % 2 else (by_cnibench, by_hand):
            with tempfile.TemporaryDirectory() as folder:
                took[which] = which(Path(folder), chart, archive)
        hand, tool = took[by_hand], took[by_cnibench]
        print(
            f"round {number + 1}: by hand {hand:.1f} s, cnibench {tool:.1f} s = {tool / hand:.2f}"
            f" x, load {load:.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
