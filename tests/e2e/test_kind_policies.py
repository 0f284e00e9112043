"""Network policies through Cilium, which enforces them, and those of Calico in a dry run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from _kind_cluster import Kept
from _kind_sabotages import DETACHED, carry_out, others_come_and_go, refuted
from _kind_samples import records, sample
from _kubectl import applied, got, kubectl, uids
from kind import definitions

from cnibench.clusters.kubernetes import install
from cnibench.clusters.kubernetes.cni import wait
from cnibench.clusters.kubernetes.cni.attest import attest
from cnibench.clusters.kubernetes.deployment import KubernetesDeployment
from cnibench.clusters.kubernetes.pods import policy_objects
from cnibench.clusters.kubernetes.removal.selection import BlockedError
from cnibench.errors import CnibenchError, UnsupportedError
from cnibench.model.conditions import Conditions, Policies
from tests._each_workload import values

pytestmark = pytest.mark.timeout(600)
on_cilium = pytest.mark.parametrize("deployment", ["cilium"], indirect=True, scope="module")

TETRAGON: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "tracingpolicies.cilium.io", "finalizers": ["example.org/somebody-waits"]},
    "spec": {
        "group": "cilium.io",
        "scope": "Cluster",
        "names": {
            "kind": "TracingPolicy",
            "plural": "tracingpolicies",
            "singular": "tracingpolicy",
            "listKind": "TracingPolicyList",
        },
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                    }
                },
            }
        ],
    },
}
TRACING = {
    "apiVersion": "cilium.io/v1alpha1",
    "kind": "TracingPolicy",
    "metadata": {"name": "somebodys"},
    "spec": {"any": 1},
}
POLICY = {
    "apiVersion": "cilium.io/v2",
    "kind": "CiliumNetworkPolicy",
    "metadata": {"name": "somebodys", "namespace": "default"},
    "spec": {"endpointSelector": {"matchLabels": {"app": "none"}}, "ingress": [{}]},
}


@pytest.fixture(scope="module", autouse=True)
def leases(bare_cluster: Kept) -> dict[str, str]:
    """Those that the cluster has without Cilium."""
    return uids(bare_cluster.access, "leases", "-n", "kube-system")


def under(deployment: KubernetesDeployment, **asked: Any) -> Any:
    client, server = deployment.pair("inter")
    return deployment.apply_conditions(Conditions(policy=Policies(**asked)), client, server)


def objects(deployment: KubernetesDeployment) -> list[str]:
    kinds = "networkpolicies.networking.k8s.io,ciliumnetworkpolicies.cilium.io"
    return [
        item["metadata"]["name"]
        for item in got(deployment.access, kinds, "-n", deployment.namespace)["items"]
    ]


@on_cilium
@pytest.mark.parametrize(
    ("asked", "count", "kind"),
    [
        ({"entries": 100}, 1, "networkpolicies.networking.k8s.io"),
        (
            {"entries": 4, "objects": "many", "setting": "top-of-chain", "restrictions": 3},
            6,
            "networkpolicies.networking.k8s.io",
        ),
        ({"entries": 25, "api": "cni", "restrictions": 45}, 1, "ciliumnetworkpolicies.cilium.io"),
    ],
)
def test_policies_come_into_force_and_go(
    deployment: KubernetesDeployment, tmp_path: Path, asked: dict[str, Any], count: int, kind: str
) -> None:
    found = sample(
        deployment, "tcp-crr", tmp_path, **{f"policy.{key}": value for key, value in asked.items()}
    )
    assert values(found)["transaction_rate"] > 0
    (told,) = records(found, "conditions")
    assert (told["kind"], told["found"]["objects"], told["server"]) == (kind, count, "b0")
    assert told["found"]["entries of the policy map of b0"] >= asked["entries"]
    assert told["seconds"] > 0
    assert objects(deployment) == []
    assert deployment.alive() == ""


@on_cilium
def test_no_entries_are_no_policy(deployment: KubernetesDeployment) -> None:
    with under(deployment) as (record,):
        assert record["found"] == {"objects": 0}
        assert objects(deployment) == []


@on_cilium
def test_what_cannot_be_had_says_why(deployment: KubernetesDeployment) -> None:
    with (
        pytest.raises(UnsupportedError, match="bypassing conntrack"),
        under(deployment, entries=1, conntrack="bypassed"),
    ):
        pass
    with (
        pytest.raises(UnsupportedError, match="Envoy, which is neither in the image"),
        under(deployment, entries=1, layer="L7"),
    ):
        pass
    assert objects(deployment) == []


@on_cilium
def test_an_http_rule_is_accepted_by_the_definition(deployment: KubernetesDeployment) -> None:
    rules = policy_objects.rules(Policies(entries=3, layer="L7"), "cilium", (4,))
    (made,) = rules.objects(deployment.making, "cilium", "b0", many=False)
    assert made["spec"]["ingress"][0]["toPorts"][0]["rules"]["http"][-1] == {
        "method": "GET",
        "path": "/payload",
    }
    install.dry_run(
        deployment.access, [made, policy_objects.denial(deployment.making, "cilium", 5401)]
    )


@on_cilium
@pytest.mark.parametrize(
    "params", [{}, {"policy.entries": 5}, {"policy.entries": 5, "policy.api": "cni"}]
)
def test_time_until_a_policy_takes_effect(
    deployment: KubernetesDeployment, tmp_path: Path, params: dict[str, Any]
) -> None:
    found = sample(deployment, "policy-effect", tmp_path, **params)
    (told,) = records(found, "policy_effect")
    assert values(found)["policy_effect"] == told["effect"] > 0
    assert objects(deployment) == []


@on_cilium
def test_pods_and_rules_and_footprint_of_another_cni(
    deployment: KubernetesDeployment, tmp_path: Path
) -> None:
    found = sample(deployment, "pods", tmp_path / "pods", count=1)
    (told,) = records(found, "pods")
    assert [step["step"] for step in told["steps"]] == [
        "scheduled",
        "sandbox",
        "cni-add",
        "container",
        "ready",
        "first-packet",
    ]
    grown = records(
        sample(deployment, "tcp-rr", tmp_path / "rr", collectors=("footprint",)), "footprint"
    )
    assert {"cilium-agent on a", "cilium-agent on b"} <= {line["process"] for line in grown}


def test_calicos_own_policies_are_accepted_by_their_definition(bare_cluster: Kept) -> None:
    """Its agents cannot be had here: as far as the API server's dry run goes, with the definition
    that Kubernetes' own add-on has.
    """
    definition = yaml.safe_load(definitions.calico_policies().read_text(encoding="utf-8"))
    access, making = bare_cluster.access, bare_cluster.making
    access.apply(definition)
    try:
        wait.established(access, [definition])
        for asked in (
            Policies(entries=60, restrictions=45),
            Policies(entries=3, setting="top-of-chain", objects="many"),
        ):
            rules = policy_objects.rules(asked, "calico-crd", (4, 6))
            install.dry_run(
                access, rules.objects(making, "calico-crd", "b0", asked.objects == "many")
            )
        denial = policy_objects.denial(making, "calico-crd", 5401)
        install.dry_run(access, [denial])
        with pytest.raises(CnibenchError, match="actoin"):
            install.dry_run(access, [{**denial, "spec": {"ingress": [{"actoin": "Deny"}]}}])
    finally:
        kubectl(
            access, "delete", "customresourcedefinition", definition["metadata"]["name"], timeout=60
        )


@on_cilium
def test_a_profile_that_enforces_lets_only_its_pair_in(
    deployment: KubernetesDeployment, bare_cluster: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    profile, namespace = deployment.profile, deployment.namespace
    assert profile.kubernetes is not None
    enforced = profile.kubernetes.model_copy(update={"policy": "enforced"})
    monkeypatch.setattr(deployment, "profile", profile.model_copy(update={"kubernetes": enforced}))
    install.policies(bare_cluster.access, deployment.profile, namespace)
    try:
        checks = attest(deployment)
    finally:
        kubectl(bare_cluster.access, "delete", "networkpolicies", "--all", "-n", namespace)
    assert [one for one in checks if not one.passed] == []
    observed = {one.check: one.observed for one in checks}
    assert "vxlan" in observed["encapsulation"]
    assert observed["denied-intra"].startswith("denied")
    assert observed["denied-inter"].startswith("denied")


@on_cilium
def test_the_second_attestation_finds_a_program_that_is_detached(
    deployment: KubernetesDeployment,
) -> None:
    with others_come_and_go(deployment):
        assert refuted(deployment) == {}
    carry_out(deployment, DETACHED, DETACHED.do)
    assert "cilium_vxlan" in refuted(deployment)["kernel-state-a"]


@on_cilium
def test_definitions_of_others_stay_and_their_policies_block(
    deployment: KubernetesDeployment, bare_cluster: Kept, leases: dict[str, str]
) -> None:
    """Cilium beside Tetragon, whose definition has the same API group. The last one: Cilium is
    removed.
    """
    access, kind = bare_cluster.access, "customresourcedefinitions"
    name = TETRAGON["metadata"]["name"]
    deployment.remove()
    try:
        applied(access, TETRAGON)  # after Cilium: by the time alone it could be Cilium's
        wait.established(access, [TETRAGON])
        applied(access, TRACING)
        applied(access, POLICY)
        theirs = uids(access, kind)[name], uids(access, "tracingpolicies")
        with pytest.raises(BlockedError, match="CiliumNetworkPolicy default/somebodys"):
            bare_cluster.remove()
        agents = got(access, "daemonset", "cilium", "-n", "kube-system")
        assert agents["status"]["numberReady"] == 2
        kubectl(access, "delete", "ciliumnetworkpolicy", "somebodys", "-n", "default")
        bare_cluster.remove()
        assert list(uids(access, kind)) == [name]
        assert (uids(access, kind)[name], uids(access, "tracingpolicies")) == theirs
        left = uids(access, "leases", "-n", "kube-system")
        assert left == leases, "the operator's lease has gone, too"
        assert bare_cluster.left(bare_cluster.bare) == []
    finally:
        gone = ("customresourcedefinition", name)
        kubectl(access, "delete", *gone, "--wait=false", "--ignore-not-found")
        patch = ("--type=merge", "-p", '{"metadata":{"finalizers":null}}')
        kubectl(access, "patch", *gone, *patch, check=False)
