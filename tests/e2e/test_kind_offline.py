"""A kind cluster without an engine's daemon and without a registry: it comes up without a CNI, and
goes away leaving nothing.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from _kind_runs import engine, output, until
from kind.images import BASE
from kind.parts import Parts

pytestmark = pytest.mark.timeout(600)
NAME = "cnibench-offline"
LIMIT = 240.0
TOPOLOGY = """
kind: Cluster
apiVersion: kind.x-k8s.io/v1alpha4
networking: {disableDefaultCNI: true, podSubnet: 10.244.0.0/16}
nodes: [{role: control-plane}, {role: worker}, {role: worker}]
"""


class Traces:
    """What the containers of this cluster, and no others on the machine, have brought: found by
    their identities.
    """

    def __init__(self, *nodes: str) -> None:
        found = json.loads(output("podman", "inspect", *nodes))
        self.names = set(nodes)
        self.ids = [node["Id"] for node in found]
        self.namespaces = [Path(node["NetworkSettings"]["SandboxKey"]).name for node in found]
        self.volumes = {
            mount["Name"] for node in found for mount in node["Mounts"] if mount["Type"] == "volume"
        }
        addresses = [
            network["IPAddress"]
            for node in found
            for network in node["NetworkSettings"]["Networks"].values()
        ]
        self.address = re.compile("|".join(rf"\b{re.escape(address)}\b" for address in addresses))
        self.links = {
            int(output("podman", "exec", node, "cat", "/sys/class/net/eth0/iflink"))
            for node in nodes
        }

    def left(self) -> dict[str, list[str]]:
        """By kind; a kind of which nothing is there is not named."""
        mounts = Path("/proc/self/mountinfo").read_text().splitlines()
        found = {
            "processes": list(self._processes()),
            "mounts": [
                line
                for line in mounts
                if any(word in line for word in (*self.ids, *self.namespaces, *self.volumes))
            ],
            "cgroups": [
                path
                for path, _, _ in os.walk("/sys/fs/cgroup")
                if any(word in path for word in self.ids)
            ],
            "interfaces": [
                link["ifname"]
                for link in json.loads(output("ip", "-j", "link"))
                if link["ifindex"] in self.links
            ],
            "rules": [
                line for line in output("iptables-save").splitlines() if self.address.search(line)
            ],
            "containers": sorted(
                self.names & set(engine("podman", "ps", "--all", "--format", "{{.Names}}").split())
            ),
            "volumes": sorted(
                self.volumes & set(engine("podman", "volume", "ls", "--quiet").split())
            ),
        }
        return {what: entries for what, entries in found.items() if entries}

    def _processes(self) -> Iterator[str]:
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                said = (folder / "cgroup").read_text() + (folder / "cmdline").read_text(
                    errors="replace"
                )
                if any(word in said for word in self.ids):
                    yield f"{folder.name} {(folder / 'comm').read_text().strip()}"
            except OSError:  # ended meanwhile
                continue


@pytest.fixture
def kubeconfig(kind_parts: Parts, tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "kubeconfig"
    yield path
    output("kind", "delete", "cluster", "--name", NAME, "--kubeconfig", path)


@pytest.fixture
def kubectl(kubeconfig: Path, kind_image: str) -> Callable[..., str]:
    """A cluster of three nodes without a CNI, and what asks its API server."""
    create = [
        "kind",
        "create",
        "cluster",
        "--name",
        NAME,
        "--image",
        kind_image,
        "--kubeconfig",
        kubeconfig,
        "--wait",
        "0s",
    ]
    output(*create, "--config", "-", given=TOPOLOGY)
    return lambda *words, given="": output(
        "kubectl", "--kubeconfig", kubeconfig, *words, given=given
    )


def test_three_nodes_come_up_take_a_real_cni_and_leave_nothing(
    kind_parts: Parts, kubeconfig: Path, kubectl: Callable[..., str]
) -> None:
    """The parts fit together: nodes without a CNI, flannel's own chart and images, CoreDNS, Pods on
    three nodes; then all of it goes.
    """
    nodes = _come_up(kubectl)
    _install_flannel(kind_parts, kubeconfig, kubectl, nodes)
    _reach_each_other(kubectl, nodes)

    traces = Traces(*nodes)
    assert set(traces.left()) == {
        "processes",
        "mounts",
        "cgroups",
        "interfaces",
        "rules",
        "containers",
        "volumes",
    }, "it knows where to look"
    output("kind", "delete", "cluster", "--name", NAME, "--kubeconfig", kubeconfig)
    end = time.monotonic() + 30
    while traces.left() and time.monotonic() < end:
        time.sleep(0.5)
    assert traces.left() == {}


def _come_up(kubectl: Callable[..., str]) -> list[str]:
    def nodes() -> dict[str, dict[str, str]]:
        found = json.loads(kubectl("get", "nodes", "--output", "json"))["items"]
        return {
            node["metadata"]["name"]: {
                c["type"]: c["message"] for c in node["status"]["conditions"]
            }
            for node in found
        }

    names = [f"{NAME}-control-plane", f"{NAME}-worker", f"{NAME}-worker2"]
    assert sorted(until(lambda: len(found := nodes()) == 3 and found, LIMIT)) == names
    until(
        lambda: all(
            "cni plugin not initialized" in conditions.get("Ready", "")
            for conditions in nodes().values()
        ),
        LIMIT,
    )
    # A Pod of the host's network needs no CNI: it is kube-proxy that is waited for, from our own
    # image.
    kubectl(
        "--namespace",
        "kube-system",
        "rollout",
        "status",
        "daemonset/kube-proxy",
        f"--timeout={LIMIT:.0f}s",
    )
    for node in names:
        plugins = output("podman", "exec", node, "ls", "/opt/cni/bin").split()
        assert plugins == ["host-local", "loopback", "portmap", "ptp"], "as in kind's own image"
    return names


def _install_flannel(
    parts: Parts, kubeconfig: Path, kubectl: Callable[..., str], nodes: Sequence[str]
) -> None:
    for archive in (parts.flannel, parts.base):
        output("kind", "load", "image-archive", archive, "--name", NAME)
    for node in nodes:  # kind's node image has no bridge plugin
        output("podman", "cp", parts.plugins / "bridge", f"{node}:/opt/cni/bin/bridge")
    kubectl("create", "namespace", "kube-flannel")
    kubectl("label", "namespace", "kube-flannel", "pod-security.kubernetes.io/enforce=privileged")
    output(
        "helm",
        "--kubeconfig",
        kubeconfig,
        "install",
        "flannel",
        parts.charts["flannel"],
        "--namespace",
        "kube-flannel",
    )
    kubectl(
        "--namespace",
        "kube-flannel",
        "rollout",
        "status",
        "daemonset/kube-flannel-ds",
        f"--timeout={LIMIT:.0f}s",
    )
    kubectl(
        "--namespace",
        "kube-system",
        "rollout",
        "status",
        "deployment/coredns",
        f"--timeout={LIMIT:.0f}s",
    )


def _reach_each_other(kubectl: Callable[..., str], nodes: Sequence[str]) -> None:
    for number, node in enumerate(nodes):
        container = {"name": "p", "image": BASE, "command": ["sleep", "infinity"]}
        spec = {
            "nodeName": node,
            "tolerations": [{"operator": "Exists"}],
            "containers": [container],
        }
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"p{number}"}, "spec": spec}
        kubectl("apply", "-f", "-", given=json.dumps(pod))
    kubectl("wait", "--for=condition=Ready", "pod", "--all", f"--timeout={LIMIT:.0f}s")
    addresses = kubectl("get", "pods", "--output", "jsonpath={.items[*].status.podIP}").split()
    assert len({address.rsplit(".", 1)[0] for address in addresses}) == 3, "a subnet for each node"
    for number in range(3):
        for address in addresses:
            kubectl("exec", f"p{number}", "--", "ping", "-c", "1", "-W", "5", address)
    assert "10.96.0.1" in kubectl(
        "exec", "p2", "--", "getent", "hosts", "kubernetes.default.svc.cluster.local"
    )
