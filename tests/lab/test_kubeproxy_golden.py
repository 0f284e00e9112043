"""The rules of the models, as the kernel has them, against those of the real kube-proxy
(tests/golden/kubeproxy): the same chains, rules in the same order, sets and elements.
"""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import pytest

from cnibench.clusters.lab.namespaces.netns import Namespace
from cnibench.clusters.lab.rules import kubeproxy, kubeproxy_nft
from cnibench.clusters.lab.rules.ruleset import save_text
from cnibench.clusters.lab.rules.services import (
    CLUSTER_CIDRS,
    SERVICE_CIDRS,
    default_services,
    many,
)

GOLDEN = Path(__file__).parents[1] / "golden" / "kubeproxy"
NODE = "192.168.100.1"
SERVICES = (*default_services(4, NODE, ["10.244.0.253", "10.244.0.254"]), *many(4, 3, 2))


def tables(text: str) -> dict[str, dict[str, list[str]]]:
    """Table to chain to its rules in order, of what iptables-save says; the kernel's own chains
    that are empty are left out. The rules that lead to Services are sorted: kube-proxy has them in
    random order.
    """
    found: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    table = ""
    for line in text.splitlines():
        if line.startswith("*"):
            table = line
        elif line.startswith(":") and line.split()[1] == "-":
            found[table][line[1:].split()[0]] = []
        elif line.startswith("-A "):
            chain = line.split()[1]
            if not line.endswith(" -j KUBE-FIREWALL"):
                # a counter that the model leaves out (docs/fidelity.md)
                found[table][chain].append(re.sub(r" -m nfacct --nfacct-name +\S+", "", line))
    for chains in found.values():
        if "KUBE-SERVICES" in chains:
            *services, last = chains["KUBE-SERVICES"] or [""]
            chains["KUBE-SERVICES"] = [*sorted(services), last]
    return {name: dict(chains) for name, chains in found.items() if chains}


def test_iptables() -> None:
    ns = Namespace("golden-iptables")
    try:
        parts = (kubeproxy.kubelet(4), kubeproxy.rules(4, CLUSTER_CIDRS[4], SERVICES))
        ns.run(["iptables-nft-restore"], input=save_text(parts))
        ours = tables(ns.run(["iptables-nft-save"]).stdout)
    finally:
        ns.remove()
    real = tables((GOLDEN / "iptables.save").read_text(encoding="utf-8"))
    # The kubelet makes one chain more; without it kube-proxy puts its jump to KUBE-FIREWALL first.
    ours["*mangle"].pop("KUBE-IPTABLES-HINT")
    for where in (ours, real):
        where.get("*mangle", {}).pop("KUBE-PROXY-CANARY", None)
        for chains in where.values():
            chains.pop("KUBE-PROXY-CANARY", None)
    assert {name for name, chains in ours.items() if chains} == {
        name for name, chains in real.items() if chains
    }
    for table, chains in real.items():
        assert ours.get(table, {}) == chains, table


@pytest.mark.parametrize("at_once", [True, False])
def test_nftables(at_once: bool) -> None:
    ns = Namespace("golden-nftables")
    try:
        first = SERVICES if at_once else SERVICES[:2]
        cluster = CLUSTER_CIDRS[4]
        text = kubeproxy_nft.setup(4, cluster, SERVICE_CIDRS[4], NODE, first)
        ns.run(["nft", "-f", "-"], input=text)
        if not at_once:
            text = kubeproxy_nft.added(4, cluster, SERVICES[2:])
            ns.run(["nft", "-f", "-"], input=text)
        ours = ns.run(["nft", "list", "table", "ip", "kube-proxy"]).stdout
    finally:
        ns.remove()
    assert blocks(ours) == blocks((GOLDEN / "nftables.list").read_text(encoding="utf-8"))


def blocks(text: str) -> dict[str, list[str]]:
    """Each chain, set and map to its lines; elements are sorted."""
    found: dict[str, list[str]] = {}
    for block in re.split(r"\n(?=\t(?:chain|set|map) )", text):
        head, *lines = block.strip().splitlines()
        body = " ".join(line.strip() for line in lines)
        elements = re.search(r"elements = \{ (.*?) \}", body)
        if elements:
            inside = sorted(one.strip() for one in elements[1].split(","))
            found[head] = [body[: elements.start()], *inside]
        else:
            found[head] = [line.strip() for line in lines if line.strip() != "}"]
    return found
