"""What a cluster adds to Pods that are measured, and what it is asked not to add."""

from __future__ import annotations

from typing import Any

import pytest

from cnibench.clusters.kubernetes.api import objects, pods, resources
from cnibench.clusters.kubernetes.api.objects import Making
from cnibench.errors import UsageError
from cnibench.model.context import disagreements

MAKING = Making("space", "run", "workload", "agent")
SIDECAR = {"name": "istio-proxy", "image": "proxy"}


def made(**containers: Any) -> dict[str, Any]:
    pod = objects.pod(MAKING, "a0", "node")
    return {**pod, "spec": {**pod["spec"], **containers}}


def test_a_pod_as_it_was_asked_for_is_measured() -> None:
    assert pods.added_containers(made()) == []
    assert pods.cpu_limit(made()) == ""


def test_a_proxy_is_found() -> None:
    beside = made()
    beside["spec"]["containers"] = [*beside["spec"]["containers"], SIDECAR]
    assert pods.added_containers(beside) == ["istio-proxy"]
    before = made(initContainers=[{**SIDECAR, "restartPolicy": "Always"}])
    assert pods.added_containers(before) == ["istio-proxy"]


def test_a_limit_of_cpu_time_is_found() -> None:
    pod = made()
    pod["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "100m", "memory": "1Gi"}}
    assert pods.cpu_limit(pod) == "100m"
    pod["spec"]["containers"][0]["resources"] = {"limits": {"memory": "1Gi"}}
    assert pods.cpu_limit(pod) == ""


def test_measured_pods_can_be_guaranteed() -> None:
    given = resources.parse("cpu=2,memory=1Gi")
    assert given == {"cpu": "2", "memory": "1Gi"}
    pod = objects.pod(Making("space", "run", "w", "a", resources=given), "a0", "node")
    (container,) = pod["spec"]["containers"]
    assert container["resources"] == {"requests": given, "limits": given}
    assert resources.parse(None) == {}
    assert resources.parse("cpu=0.5,memory=256Mi")["cpu"] == "0.5"


@pytest.mark.parametrize(
    "text",
    ["", "cpu", "cpu=2", "cpu=0,memory=1Gi", "cpu=2,memory=1Gi,gpu=1", "cpu=2,cpu=3", "memory=x"],
)
def test_resources_that_cannot_be_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--pod-resources"):
        resources.parse(text)


def test_figures_of_other_resources_are_not_comparable() -> None:
    one, other = resources.fact("memory=1Gi,cpu=2"), resources.fact("cpu=2,memory=1Gi")
    assert disagreements(one, other) == []
    (found,) = disagreements(resources.fact(None), one)
    assert str(found) == "requests and limits of the Pods: none against cpu=2,memory=1Gi"


def test_meshes_are_asked_to_stay_away() -> None:
    for item in (objects.pod(MAKING, "a0", "node"), objects.agent(MAKING, ["node"])):
        template = item["spec"].get("template", item)
        assert template["metadata"]["labels"]["sidecar.istio.io/inject"] == "false"
        assert template["metadata"]["annotations"]["linkerd.io/inject"] == "disabled"


def test_all_objects_are_labelled_as_ours() -> None:
    service = objects.service(MAKING, "a1", "a1", [80], node_port=False, families=[4])
    agent = objects.agent(MAKING, ["node"])
    for item in (
        objects.namespace(MAKING),
        objects.pod(MAKING, "a0", "node"),
        agent,
        agent["spec"]["template"],
        objects.agent_pod(MAKING, "node"),
        service,
    ):
        labels = item["metadata"]["labels"]
        assert labels[objects.OURS] == objects.NAME
        assert labels[objects.RUN] == "run"
