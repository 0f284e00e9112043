"""Policies as objects of the API, what is refused beforehand, and the steps of a Pod's start:
without a cluster.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Literal

import pytest

from cnibench.clusters.kubernetes.api.objects import Making
from cnibench.clusters.kubernetes.pods import policies, policy_objects, startup, unsupported
from cnibench.clusters.kubernetes.pods.measured import MeasuredPods
from cnibench.clusters.kubernetes.pods.services import Services
from cnibench.model.cell import Cell
from cnibench.model.conditions import Policies
from cnibench.model.profile import CURRENT, builtin
from cnibench.registry import providers

MAKING = Making("space", "run", "workload", "agent")


def made(
    kind: policy_objects.Kind, many: bool = False, families: tuple[int, ...] = (4,), **asked: Any
) -> list[dict[str, Any]]:
    return policy_objects.rules(Policies(**asked), kind, families, ["10.0.0.1"]).objects(
        MAKING, kind, "b0", many
    )


def test_nothing_asked_for_is_no_object() -> None:
    assert made("kubernetes") == made("cilium", many=True) == []


@pytest.mark.parametrize("setting", ["no-match", "top-of-chain"])
def test_entries_in_their_order(setting: Literal["no-match", "top-of-chain"]) -> None:
    (one,) = made("kubernetes", entries=3, setting=setting, restrictions=2)
    ports, *entries, stranger = one["spec"]["ingress"]
    assert [port["port"] for port in ports["ports"]] == [1, 2]
    assert stranger["ports"] == [{"protocol": "TCP", "port": policy_objects.CANARY}]
    peer = entries.pop(0 if setting == "top-of-chain" else -1)
    assert "podSelector" in peer["from"][0]
    assert peer["from"][1] == {"ipBlock": {"cidr": "10.0.0.1/32"}}
    assert [rule["from"][0]["ipBlock"]["cidr"] for rule in entries] == [
        f"198.18.0.{number}/32" for number in range(1, 4 if setting == "no-match" else 3)
    ]


@pytest.mark.parametrize("kind", ["kubernetes", "cilium", "calico", "calico-crd"])
def test_each_its_own_object_or_all_in_one(kind: policy_objects.Kind) -> None:
    one, several = (
        made(kind, entries=300, families=(4, 6)),
        made(kind, many=True, entries=300, families=(4, 6)),
    )
    assert len(one) == 1
    assert len(several) == 302
    assert [rule for item in several for rule in item["spec"]["ingress"]] == one[0]["spec"][
        "ingress"
    ]
    names = [item["metadata"]["name"] for item in several]
    assert names == sorted(set(names))
    assert "2001:db8::12c/128" in str(one)
    assert "198.18.1.44/32" in str(one)


def test_lists_are_as_long_as_a_definition_takes() -> None:
    (one,) = made("cilium", restrictions=90)
    lists = [
        [int(port["port"]) for port in ports["ports"]]
        for ports in one["spec"]["ingress"][0]["toPorts"]
    ]
    assert [len(ports) for ports in lists] == [40, 40, 10]
    assert [port for ports in lists for port in ports] == list(range(1, 91))


def test_an_http_rule_lets_one_path_through() -> None:
    (one,) = made("cilium", entries=2, setting="top-of-chain", layer="L7")
    (rule,) = one["spec"]["ingress"][0]["toPorts"]
    assert rule["rules"]["http"] == [
        {"method": "GET", "path": "/payload"},
        {"method": "GET", "path": "/other/0"},
    ]


def test_an_http_rule_is_there_without_entries_and_names_the_port_that_is_measured() -> None:
    for many in (False, True):
        rules = [
            rule
            for item in made("cilium", many=many, layer="L7")
            for rule in item["spec"]["ingress"]
        ]
        (http,) = [rule["toPorts"][0] for rule in rules if "rules" in rule["toPorts"][0]]
        assert http == {
            "ports": [{"port": "8080", "protocol": "TCP"}],
            "rules": {"http": [{"method": "GET", "path": "/payload"}]},
        }
    asked = Policies(entries=3, layer="L7")
    found = policy_objects.rules(asked, "cilium", (4,), http_port=30049)
    assert found.made[0]["toPorts"][0]["ports"] == [{"port": "30049", "protocol": "TCP"}]
    assert found.passed == 0  # they are of the proxy: the map of L3 and L4 never has as many


class _Deployment:
    """What ``applied`` asks a deployment for on its way to the objects: nothing of it is on a
    cluster.
    """

    label, families, making = "cilium", (4,), MAKING
    profile = builtin()["cilium"]
    port = MeasuredPods.port

    def __init__(self, first: int = 0) -> None:
        self.services = Services(None, MAKING, (4,), "cilium")  # type: ignore[arg-type]
        self.services._first = lambda cell, server: first  # type: ignore[method-assign]
        self.restrict: dict[str, Any] = {}
        self._pods = {"b0": SimpleNamespace(name="b0")}

    def nodes(self) -> tuple[()]:
        return ()


def _behind(base: int) -> int:
    """How many ports of workloads come before ``base``: each has 16 node ports."""
    ports = {port for one in providers("workloads").values() for port in one.ports}
    return sum(port < base for port in ports)


@pytest.mark.parametrize(
    ("asked", "first", "port"),
    [
        (None, 0, "8080"),
        ({"pair": 0}, 0, "8080"),
        ({"pair": 1}, 0, "8081"),
        ({"pair": 1, "path": "clusterip"}, 0, "8081"),
        ({"pair": 2, "path": "nodeport"}, 30000, str(30000 + 16 * _behind(8080) + 2)),
    ],
)
def test_the_http_rule_of_a_cell(
    monkeypatch: pytest.MonkeyPatch, asked: dict[str, Any] | None, first: int, port: str
) -> None:
    """As far as the request; the rest takes a cluster."""
    sent: list[dict[str, Any]] = []
    for name, answer in (
        ("_state", policies._UNDER),
        ("_count", 1),
        ("_entries", {}),
        ("_take_back", None),
        ("_need_proxy", None),
    ):
        monkeypatch.setattr(policies, name, lambda *given, answer=answer: answer)
    monkeypatch.setattr(policies, "_create", lambda deployment, objects: sent.extend(objects))
    one = (
        None
        if asked is None
        else Cell(label="x", profile="x", placement="inter", workload="http", **asked)
    )
    server: Any = SimpleNamespace(name="b0", interface="eth0")
    with policies.applied(_Deployment(first), Policies(layer="L7"), server, one) as (record,):  # type: ignore[arg-type]
        assert record["found"] == {"objects": 1}
    assert sent[0]["spec"]["ingress"][0]["toPorts"][0]["ports"] == [
        {"port": port, "protocol": "TCP"}
    ]


def test_a_pair_that_may_use_tcp_alone() -> None:
    (rule,) = [
        rule
        for rule in policy_objects.rules(
            Policies(entries=1), "kubernetes", (4,), tcp_only=True
        ).made
        if "podSelector" in rule["from"][0] and rule["ports"] == [{"protocol": "TCP"}]
    ]
    assert rule["from"][0]["podSelector"]["matchExpressions"][0]["values"] == ["client", "server"]


def cell(workload: str = "tcp-rr", path: str = "pod", **params: Any) -> Cell:
    return Cell(
        label="x", profile="x", placement="inter", workload=workload, params=params, path=path
    )


@pytest.mark.parametrize(
    ("profile", "asked", "reason"),
    [
        ("flannel", cell(**{"policy.entries": 1}), "does not enforce NetworkPolicy"),
        ("flannel", cell("policy-effect"), "does not enforce NetworkPolicy"),
        ("cilium", cell(**{"policy.entries": 1}), ""),
        (
            "cilium",
            cell(**{"policy.entries": 1, "policy.conntrack": "bypassed"}),
            "policy.conntrack=bypassed is for the lab",
        ),
        ("cilium", cell(path="host", **{"policy.entries": 1}), "on its node's network"),
        ("cilium", cell(**{"policy.layer": "L7"}), "for the workload http"),
        ("cilium", cell("http", **{"policy.layer": "L7"}), ""),
        (
            "cilium",
            cell("http", **{"policy.layer": "L7", "policy.restrictions": 2}),
            "policy.restrictions are ports of L4",
        ),
        ("cilium", cell("policy-effect"), ""),
        ("cilium", cell("policy-effect", path="clusterip"), "no Service has their port"),
        ("cilium", cell("policy-effect", path="nodeport"), "no Service has their port"),
        ("cilium", cell("policy-effect", path="pod-to-host"), "on its node's network"),
        ("calico-wp-vxlan", cell("http", **{"policy.layer": "L7"}), "HTTP rules"),
        ("calico-wp-vxlan", cell(**{"policy.api": "cni", "policy.entries": 1}), ""),
        (
            "kube-router",
            cell(**{"policy.api": "cni", "policy.entries": 1}),
            "no policy objects of its own",
        ),
        ("host", cell("pods"), "use the node's network"),
        ("flannel", cell("pods"), ""),
    ],
)
def test_what_can_never_be_measured(profile: str, asked: Cell, reason: str) -> None:
    told = unsupported.refusal(builtin()[profile], asked)
    assert (reason in told) if reason else told == ""


def test_a_cni_that_is_not_known_is_tried() -> None:
    assert unsupported.refusal(CURRENT, cell(**{"policy.entries": 1})) == ""


SEEN = {"asked": 10.0, "scheduled": 10.1, "network": 10.9, "running": 11.5, "ready": 11.5}


def test_steps_of_a_start() -> None:
    """The files of the plugins, then what the API told."""
    steps, network = startup._steps(10.0, SEEN, {"made": 10.4, "address": 10.5, "added": 10.7})
    assert [name for name, _ in steps] == [
        "scheduled",
        "sandbox",
        "ip-allocation",
        "rest-of-cni-add",
        "container",
        "ready",
    ]
    assert [seconds for _, seconds in steps] == pytest.approx([0.1, 0.3, 0.1, 0.2, 0.8, 0.0])
    assert network == pytest.approx(0.3)
    steps, network = startup._steps(10.0, SEEN, {"made": 10.4, "address": None, "added": 10.7})
    assert "cni-add" in dict(steps)
    assert network == pytest.approx(0.3)


def test_a_node_that_may_not_be_looked_into_tells_one_step() -> None:
    steps, network = startup._steps(10.0, SEEN, {})
    assert [name for name, _ in steps] == ["scheduled", startup.BLIND, "container", "ready"]
    assert network == pytest.approx(0.8)
