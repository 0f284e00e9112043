"""Pods made and removed during a cell: their steps, their reachability, and nothing of them
afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cnibench.clusters.lab.attestation import probe
from cnibench.clusters.lab.deployment import LabDeployment
from cnibench.clusters.lab.namespaces.places import LabPod
from cnibench.errors import CnibenchError, UnsupportedError
from cnibench.registry import provider
from cnibench.run.sample_context import Measurements
from cnibench.run.windows.sample import measure
from tests.lab._samples import sample

MakeDeployment = Callable[..., LabDeployment]


def create(deployment: LabDeployment, raw: Path, **params: Any) -> Measurements:
    work = provider("workloads", "pods")
    s = sample(deployment, "pods", work.params(params), raw, placement="intra", warmup=1.0)
    return measure(s, work, []).measurements


def devices(deployment: LabDeployment) -> set[str]:
    return {
        line.partition(":")[0].strip()
        for line in deployment.a.read_text("/proc/net/dev").splitlines()[2:]
    }


@pytest.mark.parametrize(
    "name", ["flannel", "calico-wp-xsub", "kube-router", "cilium-native", "veth-baseline"]
)
def test_steps_of_pods_and_nothing_left(
    make_deployment: MakeDeployment, tmp_path: Path, name: str
) -> None:
    deployment = make_deployment(name)
    deployment.pair("intra")
    before, there = devices(deployment), [pod.name for pod in deployment.pods()]
    for number, at_once in enumerate((False, True, True)):
        found = create(deployment, tmp_path / str(number), count=5, at_once=at_once)
        figures = {
            reading.metric: reading.value for reading in found.readings if not reading.params
        }
        assert 0 < figures["pod_network"] < figures["pod_ready"]
        records = [record for kind, record in found.records if kind == "pods"]
        assert len(records) == len({record["pod"] for record in records}) == 5
        for record in records:
            steps = [step["step"] for step in record["steps"]]
            assert steps[0] == "sandbox"
            assert steps[-1] == "first-packet"
            assert "link" in steps
            assert ("rules-of-all" in steps) == at_once
            assert all(step["seconds"] >= 0 for step in record["steps"])
        assert devices(deployment) == before
        assert [pod.name for pod in deployment.pods()] == there
    client, server = deployment.pair("intra")
    assert probe.stream(client.ns, server.ns, server.addresses[4], 4, 1000) == ""


def test_pods_that_cannot_be_made_are_removed(
    make_deployment: MakeDeployment, tmp_path: Path
) -> None:
    deployment = make_deployment("calico-wp-xsub")
    deployment.pair("intra")
    before, there = devices(deployment), [pod.name for pod in deployment.pods()]
    # what a Pod's interface would be called is taken by another device: the third of five fails
    taken = deployment.start_pods(deployment.a, 3, True)[2].pod
    assert isinstance(taken, LabPod)
    name = taken.host_end
    deployment.remove_pods([pod for pod in deployment.pods() if pod.name not in there])
    deployment.a.run(["ip", "link", "add", name, "type", "bridge"], timeout=10)
    with pytest.raises(CnibenchError):
        create(deployment, tmp_path, count=5, at_once=True)
    assert [pod.name for pod in deployment.pods()] == there
    deployment.a.run(["sh", "-c", f"ip link del {name} 2>/dev/null || true"], timeout=10)
    assert devices(deployment) == before
    create(deployment, tmp_path / "again", count=5, at_once=True)


def test_pods_that_are_the_node_cannot_be_made(
    make_deployment: MakeDeployment, tmp_path: Path
) -> None:
    with pytest.raises(UnsupportedError, match="use the node's network"):
        create(make_deployment("host"), tmp_path)
