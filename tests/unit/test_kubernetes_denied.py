"""A right that is missing is never taken for an object that is absent, nor for one that is not
ready yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cnibench.clusters.existing.cluster import ExistingCluster
from cnibench.clusters.kubernetes.api import pods
from cnibench.clusters.kubernetes.api.access import Access, DeniedError
from cnibench.clusters.kubernetes.api.client import Answer
from cnibench.clusters.kubernetes.api.objects import Making
from cnibench.clusters.kubernetes.cni import subnets, wait
from cnibench.clusters.kubernetes.cni.recognise import Found
from cnibench.clusters.kubernetes.connection.gateway import Gateway
from cnibench.clusters.kubernetes.nodes import privileges
from cnibench.clusters.kubernetes.rights import roles
from cnibench.model.installation import Wait
from cnibench.model.profile import builtin
from cnibench.testbed.cluster import Options
from cnibench.testbed.cluster_options import ClusterOptions
from tests.unit._objects import Objects, kubeconfig, serving
from tests.unit._rbac import Authorizer, rules_of

MAKING = Making("bench", "run", "workload", "agent")
REMEDY = "'cnibench rbac' prints all that cnibench uses"


@pytest.fixture
def api() -> Objects:
    return Objects()


@pytest.fixture
def access(api: Objects, tmp_path: Path) -> Iterator[Access]:
    with serving(api) as address:
        yield Access(kubeconfig(tmp_path, address))


def forbidden(api: Objects) -> None:
    """Nothing is allowed from now on."""
    api.refused = {"": "forbidden"}


def test_a_missing_right_is_no_absent_object(access: Access, api: Objects) -> None:
    assert access.find("configmaps", "x", "bench") is None
    forbidden(api)
    with pytest.raises(DeniedError) as error:
        access.find("configmaps", "x", "bench")
    assert REMEDY in error.value.remedy
    api.refused = {"": "unauthorized"}
    with pytest.raises(DeniedError) as error:
        access.find("configmaps", "x", "bench")
    assert "does not accept the user" in error.value.remedy


def test_what_may_not_be_read_is_not_waited_for(access: Access, api: Objects) -> None:
    one = Wait(object="tigerastatus/calico", condition="Available")
    assert wait._lacks(access, one) == "tigerastatus/calico is not Available"
    forbidden(api)
    with pytest.raises(DeniedError):
        wait._lacks(access, one)


def test_logs_that_may_not_be_read_are_not_silent(
    access: Access, api: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pods, "of_workload", lambda *_: [{"metadata": {"name": "flannel-1"}}])
    one = Wait(rollout="daemonset/flannel", namespace="kube-flannel", logged="Running backend.")
    assert wait._silent(access, one, {}) == "flannel-1 has not said 'Running backend.' yet"
    api.refused = {"GET /api/v1/namespaces/kube-flannel/pods/flannel-1/log": "forbidden"}
    with pytest.raises(DeniedError):
        wait._silent(access, one, {})


def test_address_ranges_that_may_not_be_read_are_not_unknown(access: Access, api: Objects) -> None:
    found = subnets.variables(access, [], ClusterOptions())
    assert (found["pod_cidr"], found["api_host"]) == ("", "")
    forbidden(api)
    for question in (subnets._of_kubeadm, subnets._arguments, subnets._endpoint):
        with pytest.raises(DeniedError):
            question(access)


def test_events_that_may_not_be_listed_are_not_none(access: Access, api: Objects) -> None:
    forbidden(api)
    assert pods.events(access, "bench", "a0") == "this user may not list events"


def test_a_connection_that_is_denied_is_not_tried_again(access: Access, api: Objects) -> None:
    api.refused = {"": "forbidden-exec"}
    with pytest.raises(DeniedError, match="no command can be run in the Pod a0") as error:
        Gateway(access, "bench", "a0", "the Pod a0").open()
    assert "cannot get resource" in error.value.message
    assert REMEDY in error.value.remedy
    assert len(api.asked) == 1


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


class Admitting(Objects):
    """Admits agents that ``admits`` says yes to, by their namespace and whether they are
    privileged.
    """

    def __init__(self, admits: Callable[[str, bool], bool], *objects: dict[str, Any]) -> None:
        super().__init__(*objects)
        self.admits = admits

    def call(self, method: str, path: str, *arguments: Any, **more: Any) -> Answer:
        if not path.endswith("/pods?dryRun=All"):
            return super().call(method, path, *arguments, **more)
        context = arguments[0]["spec"]["containers"][0]["securityContext"]
        if self.admits(path.split("/")[4], bool(context.get("privileged"))):
            return Answer(201)
        return Answer(403, {"kind": "Status", "reason": "Invalid", "message": "refused"})


def space(name: str, level: str) -> dict[str, Any]:
    labels = {"pod-security.kubernetes.io/enforce": level} if level else {}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


@pytest.mark.parametrize(
    ("admits", "own", "others", "expected"),
    [
        (lambda *_: True, "", [], ""),
        (lambda _, privileged: not privileged, "", [], ""),
        (lambda _, privileged: privileged, "", [], ""),
        (lambda *_: False, "", [], "refused"),
        (lambda *_: False, "baseline", [], ""),
        (lambda name, _: name != "default", "baseline", ["kube-flannel"], ""),
        (lambda name, _: name != "default", "", ["kube-flannel"], ""),
        (lambda *_: False, "restricted", ["kube-flannel"], "refused"),
    ],
)
def test_whether_agents_may_look_into_nodes_is_asked_where_pod_security_allows_it(
    admits: Callable[[str, bool], bool], own: str, others: list[str], expected: str, tmp_path: Path
) -> None:
    api = Admitting(admits, space("default", own), *(space(name, "privileged") for name in others))
    with serving(api) as address:
        access = Access(kubeconfig(tmp_path, address))
        assert privileges.node_access_refused(access, MAKING, "a") == expected


@pytest.mark.parametrize(
    ("version", "first"),
    [("v1.29.14", "privileged"), ("v1.30.0-eks-1", "capabilities"), ("v1.34.4", "capabilities")],
)
def test_servers_that_know_no_field_for_apparmor_get_privileged_agents(
    access: Access, version: str, first: str
) -> None:
    access.__dict__["server_version"] = version
    assert privileges.levels(access)[0] == first


def test_a_pod_that_policies_refuse_is_told_from_one_that_this_user_may_not_make(
    access: Access,
) -> None:
    access.__dict__["api"] = Admission(rules_of(roles.document("measure")))
    assert privileges.refused(access, MAKING, "a") == 'pods "x" is forbidden: by somebody'
    access.__dict__["api"] = Admission([])
    with pytest.raises(DeniedError, match="whether agents may run cannot be asked"):
        privileges.refused(access, MAKING, "a")
