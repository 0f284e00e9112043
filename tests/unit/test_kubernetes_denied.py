"""A right that is missing is never taken for an object that is absent, nor for one that is not
ready yet.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from cnibench.clusters.existing.cluster import ExistingCluster
from cnibench.clusters.kubernetes.api import pods
from cnibench.clusters.kubernetes.api.access import Access, DeniedError
from cnibench.clusters.kubernetes.api.objects import Making
from cnibench.clusters.kubernetes.api.proxy import Answer
from cnibench.clusters.kubernetes.cni import subnets, wait
from cnibench.clusters.kubernetes.cni.recognise import Found
from cnibench.clusters.kubernetes.nodes import agents
from cnibench.clusters.kubernetes.nodes.gateway import Gateway
from cnibench.clusters.kubernetes.pods.watch import watching
from cnibench.clusters.kubernetes.rights import roles
from cnibench.model.installation import Wait
from cnibench.model.profile import builtin
from cnibench.testbed.cluster import Options
from cnibench.testbed.cluster_options import ClusterOptions
from tests.unit._rbac import Authorizer, rules_of

CONFIG = "{current-context: lab, contexts: [{name: lab, context: {cluster: lab, user: me}}]}"
MAKING = Making("bench", "run", "workload", "agent")
FORBIDDEN = (
    'Error from server (Forbidden): x is forbidden: User "jane" cannot do that at the cluster scope'
)
ABSENT = 'Error from server (NotFound): configmaps "x" not found'
UNKNOWN = 'error: the server doesn\'t have a resource type "tigerastatus"'
REMEDY = "'cnibench rbac' prints all that cnibench uses"


class Kubectl:
    """A program of that name that fails with these words, and counts its calls."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.program = folder / "kubectl"
        self.program.write_text(
            f"#!/bin/sh\necho called >> {folder}/asked\ncat {folder}/said >&2\nexit 1\n"
        )
        self.program.chmod(0o755)

    def says(self, words: str) -> None:
        (self.folder / "said").write_text(words + "\n")

    @property
    def calls(self) -> int:
        return len((self.folder / "asked").read_text().splitlines())


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kubectl:
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    return Kubectl(tmp_path)


@pytest.fixture
def access(tmp_path: Path) -> Access:
    path = tmp_path / "kubeconfig"
    path.write_text(CONFIG)
    return Access(path)


def test_a_missing_right_is_an_error_even_where_failures_are_none(
    access: Access, kubectl: Kubectl
) -> None:
    kubectl.says(ABSENT)
    assert access.kubectl("get", "configmap", "x", check=False).returncode == 1
    kubectl.says(FORBIDDEN)
    with pytest.raises(DeniedError) as error:
        access.kubectl("get", "configmap", "x", check=False)
    assert REMEDY in error.value.remedy
    kubectl.says("error: You must be logged in to the server (Unauthorized)")
    with pytest.raises(DeniedError) as error:
        access.kubectl("get", "configmap", "x", check=False)
    assert "does not accept the user" in error.value.remedy


def test_what_may_not_be_read_is_not_waited_for(access: Access, kubectl: Kubectl) -> None:
    one = Wait(object="tigerastatus/calico", condition="Available")
    kubectl.says(UNKNOWN)
    assert wait._lacks(access, one) == "tigerastatus/calico is not Available"
    kubectl.says(FORBIDDEN)
    with pytest.raises(DeniedError):
        wait._lacks(access, one)


def test_logs_that_may_not_be_read_are_not_silent(
    access: Access, kubectl: Kubectl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pods, "of_workload", lambda *_: [{"metadata": {"name": "flannel-1"}}])
    one = Wait(rollout="daemonset/flannel", namespace="kube-flannel", logged="Running backend.")
    kubectl.says(ABSENT)
    assert wait._silent(access, one, {}) == "flannel-1 has not said 'Running backend.' yet"
    kubectl.says(FORBIDDEN)
    with pytest.raises(DeniedError):
        wait._silent(access, one, {})


def test_address_ranges_that_may_not_be_read_are_not_unknown(
    access: Access, kubectl: Kubectl
) -> None:
    access.__dict__["server_version"] = "v1.34.4"
    kubectl.says(ABSENT)
    found = subnets.variables(access, [], ClusterOptions())
    assert (found["pod_cidr"], found["api_host"]) == ("", "")
    kubectl.says(FORBIDDEN)
    for question in (subnets._of_kubeadm, subnets._arguments, subnets._endpoint):
        with pytest.raises(DeniedError):
            question(access)


def test_events_that_may_not_be_listed_are_not_none(access: Access, kubectl: Kubectl) -> None:
    kubectl.says(FORBIDDEN)
    assert pods.events(access, "bench", "a0") == "this user may not list events"


def test_a_connection_that_is_denied_is_not_tried_again(access: Access, kubectl: Kubectl) -> None:
    kubectl.says(FORBIDDEN)
    with pytest.raises(DeniedError, match="no command can be run in the Pod a0") as error:
        Gateway(access, "bench", "a0", "the Pod a0").open()
    assert REMEDY in error.value.remedy
    assert kubectl.calls == 1


def test_a_watch_that_is_denied_says_so(access: Access, kubectl: Kubectl) -> None:
    kubectl.says(FORBIDDEN)
    with pytest.raises(DeniedError, match="cannot be watched") as error, watching(access, MAKING):
        pass
    assert REMEDY in error.value.remedy


def test_a_profile_is_not_called_absent_where_its_objects_may_not_be_read(access: Access) -> None:
    class Hidden(ExistingCluster):
        @property
        def present(self) -> Any:  # type: ignore[override]
            raise DeniedError("daemonsets may not be listed", "ask for it")

    (problem,) = Hidden(Options()).check(builtin()["flannel-k3s"])
    assert (problem.lacks, problem.remedy) == ("daemonsets may not be listed", "ask for it")
    unknown = ExistingCluster(Options())
    unknown.__dict__.update(access=access, present=Found("", "x may not be read", denied=True))
    (problem,) = unknown.check(builtin()["flannel-k3s"])
    assert problem.lacks == "which CNI runs is not known: x may not be read"
    assert REMEDY in problem.remedy


class Admission(Authorizer):
    """Refuses every Pod: Pod Security and the authorizer give the same reason."""

    def call(self, method: str, path: str, *body: Any, **more: Any) -> Answer:
        if path == "/api/v1/namespaces/bench/pods?dryRun=All":
            return Answer(403, reason="Forbidden", message='pods "x" is forbidden: by somebody')
        return super().call(method, path, *body, **more)


def test_a_pod_that_policies_refuse_is_told_from_one_that_this_user_may_not_make(
    access: Access,
) -> None:
    access.__dict__["api"] = Admission(rules_of(roles.document("measure")))
    assert agents.refused(access, MAKING, "a") == 'pods "x" is forbidden: by somebody'
    access.__dict__["api"] = Admission([])
    with pytest.raises(DeniedError, match="whether agents may run cannot be asked"):
        agents.refused(access, MAKING, "a")
