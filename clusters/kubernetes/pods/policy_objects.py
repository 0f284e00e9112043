"""Policies for one Pod as objects of the API: NetworkPolicy, CiliumNetworkPolicy, Calico's
NetworkPolicy, with so many entries.

As in the lab no entry can match what is sent: their peers are of 198.18.0.0/15 (RFC 2544) and
2001:db8::/32 (RFC 3849), the ports of restrictions are below 1024. A Pod that a policy selects is
closed to all others, so one rule always lets the pair in: before the entries or after them. Another
lets a stranger in on one port: by that port, and by the next one, it is seen from outside that the
policies are in force.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml

from cnibench.clusters.kubernetes.api.objects import POD, ROLE, Making
from cnibench.model.conditions import Policies

Object = dict[str, Any]
Kind = Literal["kubernetes", "cilium", "calico", "calico-crd"]

_PAIRS = Path(__file__).parents[1] / "manifests" / "policies.yaml"
FOR = "cnibench.io/policy"  # label: of which Pod
CANARY = 47021  # the port on which a stranger is let in; on the next one it is not
HTTP_PORT = 8080  # the workload http's, of the first pair
_HTTP = ("GET", "/payload")  # what an HTTP rule lets through: what that workload asks for
_FIRST = {4: ipaddress.ip_address("198.18.0.1"), 6: ipaddress.ip_address("2001:db8::1")}
_PORT = 80
_PORTS = 40  # of one list of a CiliumNetworkPolicy (its definition's maxItems)
_BENCH = ["client", "server"]
_PEERS: dict[str, Any] = {"matchExpressions": [{"key": ROLE, "operator": "In", "values": _BENCH}]}
_STRANGER: dict[str, Any] = {"matchLabels": {ROLE: "stranger"}}
_APIS: Mapping[Kind, tuple[str, str]] = {
    "kubernetes": ("networking.k8s.io/v1", "NetworkPolicy"),
    "cilium": ("cilium.io/v2", "CiliumNetworkPolicy"),
    "calico": ("projectcalico.org/v3", "NetworkPolicy"),
    "calico-crd": ("crd.projectcalico.org/v1", "NetworkPolicy"),
}


def pairs(namespace: str, *, tcp_only: bool = False) -> list[Object]:
    """The NetworkPolicies of an enforcing profile: the measured Pods of ``namespace`` may talk to
    each other only, with ``tcp_only`` by TCP alone.
    """
    found: list[Object] = list(yaml.safe_load_all(_PAIRS.read_text(encoding="utf-8")))
    for item in found:
        item["metadata"]["namespace"] = namespace
        if tcp_only:
            item["spec"]["ingress"] = [
                {**rule, "ports": [{"protocol": "TCP"}]} for rule in item["spec"]["ingress"]
            ]
    return found


def resource(kind: Kind) -> str:
    """PLURAL.GROUP."""
    group = _APIS[kind][0].partition("/")[0]
    return f"{'ciliumnetworkpolicies' if kind == 'cilium' else 'networkpolicies'}.{group}"


@dataclass(frozen=True)
class Rules:
    """What the policies of one Pod are made of, each a rule in the form of its kind, in their
    order.
    """

    made: list[Object]
    passed: int  # entries at L3 and L4 that can match nothing

    def objects(self, making: Making, kind: Kind, server: str, many: bool) -> list[Object]:
        """One policy with all rules, or one of each."""
        groups = [[rule] for rule in self.made] if many else [self.made]
        return (
            [_policy(making, kind, server, number, rules) for number, rules in enumerate(groups)]
            if self.made
            else []
        )


def rules(
    asked: Policies,
    kind: Kind,
    families: Sequence[int],
    nodes: Sequence[str] = (),
    *,
    tcp_only: bool = False,
    http_port: int = HTTP_PORT,
) -> Rules:
    """The rules for what is asked; none at all for nothing. ``nodes`` are addresses of nodes, whose
    Pods' packets may have them.

    ``tcp_only``: the pair is let in by TCP alone. With L7 there is always the one HTTP rule, for
    ``http_port``: without it no proxy is passed, whatever the number of entries; they are of that
    proxy, none is one of L3 or L4.
    """
    first = asked.entries > 0 and asked.setting == "top-of-chain"
    passed = asked.entries - first
    if asked.layer == "L7":
        return Rules([_http(http_port, passed, first), _stranger(kind)], 0)
    if not asked.entries and not asked.restrictions:
        return Rules([], 0)
    entries = [
        _entry(
            kind,
            [f"{_FIRST[family] + number}/{_FIRST[family].max_prefixlen}" for family in families],
        )
        for number in range(passed)
    ]
    peer = _peer(kind, nodes, tcp_only)
    ordered = [peer, *entries] if first else [*entries, peer]
    return Rules([*_restrictions(kind, asked.restrictions), *ordered, _stranger(kind)], passed)


def denial(making: Making, kind: Kind, port: int) -> Object:
    """A policy of the CNI's own that denies UDP to that port of every Pod of ours, whatever others
    allow.
    """
    if kind == "cilium":
        deny = {
            "fromEntities": ["all"],
            "toPorts": [{"ports": [{"port": str(port), "protocol": "UDP"}]}],
        }
        spec: Object = {"endpointSelector": dict(_PEERS), "ingressDeny": [deny]}
    else:
        rule = {"action": "Deny", "protocol": "UDP", "destination": {"ports": [port]}}
        spec = {
            "selector": _words(ROLE, _BENCH),
            "types": ["Ingress"],
            "order": 1,
            "ingress": [rule, {"action": "Pass"}],
        }
    return _object(making, kind, "denial", "cnibench-denial", spec)


def only_tcp(making: Making) -> Object:
    """A NetworkPolicy that lets nothing but TCP into our Pods, from anybody."""
    spec = {
        "podSelector": dict(_PEERS),
        "policyTypes": ["Ingress"],
        "ingress": [{"ports": [{"protocol": "TCP"}]}],
    }
    return _object(making, "kubernetes", "denial", "cnibench-denial", spec)


def _policy(making: Making, kind: Kind, server: str, number: int, made: Sequence[Object]) -> Object:
    name = f"cnibench-{server}-{number:05d}"
    if kind == "kubernetes":
        spec: Object = {
            "podSelector": {"matchLabels": {POD: server}},
            "policyTypes": ["Ingress"],
            "ingress": list(made),
        }
    elif kind == "cilium":
        spec = {"endpointSelector": {"matchLabels": {POD: server}}, "ingress": list(made)}
    else:
        spec = {
            "selector": _words(POD, [server]),
            "types": ["Ingress"],
            "order": 100 + number,
            "ingress": list(made),
        }
    return _object(making, kind, server, name, spec)


def _object(making: Making, kind: Kind, label: str, name: str, spec: Object) -> Object:
    version, word = _APIS[kind]
    if (
        kind == "calico-crd"
    ):  # the name that Calico's own API server stores a policy of the tier "default" under
        name = f"default.{name}"
    metadata = {
        "name": name,
        "namespace": making.namespace,
        "labels": {**making.labels(), FOR: label},
    }
    return {"apiVersion": version, "kind": word, "metadata": metadata, "spec": spec}


def _words(key: str, values: Sequence[str]) -> str:
    """A selector in Calico's words."""
    return f"{key} in {{ {', '.join(repr(value) for value in values)} }}"


def _entry(kind: Kind, cidrs: Sequence[str]) -> Object:
    if kind == "kubernetes":
        return {
            "from": [{"ipBlock": {"cidr": one}} for one in cidrs],
            "ports": [{"protocol": "TCP", "port": _PORT}],
        }
    if kind == "cilium":
        return {
            "fromCIDR": list(cidrs),
            "toPorts": [{"ports": [{"port": str(_PORT), "protocol": "TCP"}]}],
        }
    return {
        "action": "Allow",
        "protocol": "TCP",
        "source": {"nets": list(cidrs)},
        "destination": {"ports": [_PORT]},
    }


def _peer(kind: Kind, nodes: Sequence[str], tcp_only: bool) -> Object:
    if kind == "kubernetes":
        blocks = [
            {"ipBlock": {"cidr": f"{one}/{ipaddress.ip_address(one).max_prefixlen}"}}
            for one in nodes
        ]
        return {"from": [{"podSelector": dict(_PEERS)}, *blocks]} | (
            {"ports": [{"protocol": "TCP"}]} if tcp_only else {}
        )
    if kind == "cilium":
        return {"fromEndpoints": [dict(_PEERS)]}
    return {"action": "Allow", "source": {"selector": _words(ROLE, _BENCH)}}


def _stranger(kind: Kind) -> Object:
    if kind == "kubernetes":
        return {
            "from": [{"podSelector": dict(_STRANGER)}],
            "ports": [{"protocol": "TCP", "port": CANARY}],
        }
    if kind == "cilium":
        return {
            "fromEndpoints": [dict(_STRANGER)],
            "toPorts": [{"ports": [{"port": str(CANARY), "protocol": "TCP"}]}],
        }
    return {
        "action": "Allow",
        "protocol": "TCP",
        "source": {"selector": _words(ROLE, ["stranger"])},
        "destination": {"ports": [CANARY]},
    }


def _restrictions(kind: Kind, count: int) -> list[Object]:
    """One rule with so many ports; more where one may not have as many."""
    ports = list(range(1, count + 1))
    if not ports:
        return []
    if kind == "kubernetes":
        return [
            {
                "from": [{"podSelector": dict(_PEERS)}],
                "ports": [{"protocol": "TCP", "port": port} for port in ports],
            }
        ]
    if kind == "cilium":
        lists = [ports[at : at + _PORTS] for at in range(0, count, _PORTS)]
        named = [
            {"ports": [{"port": str(port), "protocol": "TCP"} for port in one]} for one in lists
        ]
        return [{"fromEndpoints": [dict(_PEERS)], "toPorts": named}]
    return [
        {
            "action": "Allow",
            "protocol": "TCP",
            "source": {"selector": _words(ROLE, _BENCH)},
            "destination": {"ports": ports},
        }
    ]


def _http(port: int, passed: int, first: bool) -> Object:
    """Cilium's: the pair is let in by HTTP alone, with one method to one path; entries are other
    paths.
    """
    method, path = _HTTP
    others = [{"method": method, "path": f"/other/{number}"} for number in range(passed)]
    through = {"method": method, "path": path}
    rule = {
        "ports": [{"port": str(port), "protocol": "TCP"}],
        "rules": {"http": [through, *others] if first else [*others, through]},
    }
    return {"fromEndpoints": [dict(_PEERS)], "toPorts": [rule]}
