"""The rules of the models, as the kernel has them, against those of the real kube-proxy
(tests/golden/kubeproxy): the same chains, rules in the same order, sets and elements.
"""

from __future__ import annotations

import ipaddress
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from cnibench.clusters.lab.namespaces.netns import Namespace
from cnibench.clusters.lab.rules import kubeproxy, kubeproxy_ipvs, kubeproxy_nft
from cnibench.clusters.lab.rules.ruleset import ipset_text, save_text
from cnibench.clusters.lab.rules.services import (
    CLUSTER_CIDRS,
    SERVICE_CIDRS,
    Service,
    default_services,
    many,
)
from cnibench.listing.virtual_servers import VirtualServer

GOLDEN = Path(__file__).parents[1] / "golden" / "kubeproxy"
NODE = "192.168.100.1"

SUBNETS = {4: "10.244.0.0/24", 6: "fd00:10:244::/64"}  # of that node's Pods


def tables(text: str, *, random: bool = True) -> dict[str, dict[str, list[str]]]:
    """Table to chain to its rules in order, of what iptables-save says; the kernel's own chains
    that are empty are left out. The rules that lead to Services are sorted where kube-proxy has
    them in ``random`` order.
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
        if random and "KUBE-SERVICES" in chains:
            *services, last = chains["KUBE-SERVICES"] or [""]
            chains["KUBE-SERVICES"] = [*sorted(services), last]
    return {name: dict(chains) for name, chains in found.items() if chains}


def test_iptables() -> None:
    ns = Namespace("golden-iptables")
    try:
        parts = (kubeproxy.kubelet(4), kubeproxy.rules(4, CLUSTER_CIDRS[4], services(4)))
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
        wanted = services(4)
        first = wanted if at_once else wanted[:2]
        cluster = CLUSTER_CIDRS[4]
        text = kubeproxy_nft.setup(4, cluster, SERVICE_CIDRS[4], NODE, first)
        ns.run(["nft", "-f", "-"], input=text)
        if not at_once:
            text = kubeproxy_nft.added(4, cluster, wanted[2:])
            ns.run(["nft", "-f", "-"], input=text)
        ours = ns.run(["nft", "list", "table", "ip", "kube-proxy"]).stdout
    finally:
        ns.remove()
    assert blocks(ours) == blocks((GOLDEN / "nftables.list").read_text(encoding="utf-8"))


@pytest.mark.parametrize("family", [4, 6])
def test_ipvs(family: int) -> None:
    """Its rules and sets, which every kernel with IP sets takes."""
    ns = Namespace(f"golden-ipvs{family}")
    program = "iptables-nft" if family == 4 else "ip6tables-nft"
    try:
        found = kubeproxy_ipvs.sets(family, services(family), SUBNETS[family])
        ns.run(["ipset", "restore", "-exist"], input=ipset_text(found))
        rules = kubeproxy_ipvs.rules(family, CLUSTER_CIDRS[family], hairpin=True)
        ns.run([f"{program}-restore"], input=save_text((rules,)))
        once = tables(ns.run([f"{program}-save"]).stdout, random=False)
        text = kubeproxy_ipvs.sync(family, CLUSTER_CIDRS[family], hairpin=True)
        ns.run([f"{program}-restore", "--noflush"], input=text)
        ours = tables(ns.run([f"{program}-save"]).stdout, random=False)
        looked_up = kubeproxy_ipvs.looked_up(family, program)
        ended = {" ".join(argv): ns.run(argv, check=False).returncode for argv in looked_up}
        our_sets = ns.run(["ipset", "save", "-sorted"]).stdout
    finally:
        ns.remove()
    name = "ipvs.save" if family == 4 else "ipvs6.save"
    real = tables((GOLDEN / name).read_text(encoding="utf-8"), random=False)
    assert once == ours
    for table, chains in real.items():
        assert {chain: ours[table][chain] for chain in chains} == chains, table
        assert ours[table].keys() == chains.keys()
    # what it looks for is there: chains cannot be made once more, jumps and sets are found
    assert {argv for argv, status in ended.items() if status} == {
        argv for argv in ended if " -N " in argv
    }
    theirs = sets_of((GOLDEN / "ipvs.sets").read_text(encoding="utf-8"))
    here = {name for name in theirs if name.startswith("KUBE-6-") == (family == 6)}
    assert sets_of(our_sets) == {name: theirs[name] for name in here}


def test_virtual_servers() -> None:
    """Those that ipvs mode writes."""
    real = list(virtual_servers((GOLDEN / "ipvs.servers").read_text(encoding="utf-8")))
    assert {(one.protocol, one.address, one.port, frozenset(one.targets)) for one in real} == {
        (
            one.protocol,
            one.address,
            one.port,
            frozenset((*target, "Masq", 1) for target in one.endpoints),
        )
        for family in (4, 6)
        for one in services(family)
    }
    assert {one.options for one in real} == {"rr"}


def virtual_servers(text: str) -> Iterator[VirtualServer]:
    """Of /proc/net/ip_vs: ``TCP  0A600001:01BB rr``, ``TCP  [fd00:0010:...]:01BB rr``, each
    followed by its real servers: ``  -> C0A86401:192B      Masq    1      0          0``.
    """
    server: VirtualServer | None = None
    for line in text.splitlines():
        words = line.split()
        if words[0] == "->" and server is not None:
            target = (*end(words[1]), words[2], int(words[3]))
            server = server._replace(targets=(*server.targets, target))
        elif words[0] in ("TCP", "UDP"):
            if server is not None:
                yield server
            server = VirtualServer(words[0].lower(), *end(words[1]), " ".join(words[2:]))
    assert server is not None
    yield server


def end(word: str) -> tuple[str, int]:
    host, _, port = word.rpartition(":")
    address = host[1:-1] if host.startswith("[") else int(host, 16)
    return str(ipaddress.ip_address(address)), int(port, 16)


def services(family: int) -> tuple[Service, ...]:
    node = NODE if family == 4 else "fd00:100::1"
    pods = "10.244.0.253 10.244.0.254" if family == 4 else "fd00:10:244::fd fd00:10:244::fe"
    return (*default_services(family, node, pods.split()), *many(family, 3, 2))


def sets_of(text: str) -> dict[str, list[str]]:
    """Each set to its parameters and its elements, of what ``ipset save`` says; the seed of its
    hash is left out.
    """
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        what, name, rest = line.split(" ", 2)
        if what == "create":
            found[name] = [re.sub(r" initval \S+", "", rest)]
        else:
            found[name].append(rest)
    return {name: [head, *sorted(rest)] for name, (head, *rest) in found.items()}


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
