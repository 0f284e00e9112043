"""``iptables``: a rule for each Service; the first packet of a connection is compared with them one
by one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial

from cnibench.clusters.lab.builders.filtered import Filtered
from cnibench.clusters.lab.namespaces.places import LabNode
from cnibench.clusters.lab.proxies import _conntrack
from cnibench.clusters.lab.proxies._digest import digest
from cnibench.clusters.lab.proxies.base import Counted, Proxy, place
from cnibench.clusters.lab.rules import kubeproxy
from cnibench.clusters.lab.rules.ruleset import Part
from cnibench.clusters.lab.rules.services import CLUSTER_CIDRS, Service

_LIMIT = 120.0  # s for ten thousand Services
_OURS = ("KUBE-SVC-", "KUBE-SEP-", "KUBE-EXT-")
_DISPATCH = re.compile(r"-A KUBE-SERVICES -d ([^/ ]+)/\d+ .*--dport (\d+) -j (KUBE-SVC-\w+)")
_ENDPOINT = re.compile(r"-A (KUBE-SEP-\w+) .*-j DNAT --to-destination (\S+)")


class Iptables(Proxy):
    """kube-proxy's rules in the tables of iptables."""

    name = "iptables"
    needs = ("iptables",)
    bytes_each = 12 << 10
    seconds_each = 0.0008

    def part(self, node: LabNode, family: int) -> Part:
        return kubeproxy.rules(family, CLUSTER_CIDRS[family], self.services[family])

    def _write_all(self, family: int, before: Sequence[Service]) -> None:
        """Whole tables, with what else is in them: with --noflush, iptables 1.8.9 takes a time
        that grows with the square of the chains.
        """
        datapath = self.deployment.datapath
        assert isinstance(datapath, Filtered)
        self._on_nodes(datapath.load)

    def _write_change(self, family: int, new: Sequence[Service], gone: Sequence[Service]) -> None:
        """One iptables-restore for each node, as kube-proxy runs it."""
        now = self.services[family]
        kept = {chain for service in new for chain in kubeproxy.chains_of(service)}
        stale = [
            chain for service in gone for chain in kubeproxy.chains_of(service) if chain not in kept
        ]
        text = kubeproxy.sync(family, CLUSTER_CIDRS[family], now, new, stale)
        argv = [self._program(family, "restore"), "--noflush", "--counters"]
        self._on_nodes(partial(_run, argv=argv, text=text))

    def _program(self, family: int, what: str) -> str:
        kind = getattr(self.deployment.datapath.options, "iptables", "nft")
        return f"{'iptables' if family == 4 else 'ip6tables'}-{kind}-{what}"

    def found(self) -> Mapping[str, Counted]:
        return {
            place(node, family): _counted(
                node.ns.run([self._program(family, "save"), "-t", "nat"], timeout=_LIMIT).stdout
            )
            for family in self.services
            for node in self.deployment.nodes()
        }

    def expected(self, family: int) -> Counted:
        services = self.services[family]
        lines = []
        for service in services:
            chains = kubeproxy.chains_of(service)
            lines.append(f"{service.address} {service.port} {chains[0]}")
            for chain, (address, port) in zip(
                chains[-len(service.endpoints) :], service.endpoints, strict=True
            ):
                lines.append(f"{chain} {address if family == 4 else f'[{address}]'}:{port}")
        return Counted(sum(map(kubeproxy.rules_of, services)), digest(lines))

    def translated(self, node: LabNode, service: Service) -> bool:
        return translated(node, service)


def translated(node: LabNode, service: Service) -> bool:
    """By connection tracking of the node."""
    family = 6 if ":" in service.address else 4
    with node.ns.inside():
        return any(
            (one.target, one.port) == (service.address, service.port)
            and (one.answered_by, one.answering_port) in service.endpoints
            for one in _conntrack.translations(family)
        )


def _run(node: LabNode, argv: Sequence[str], text: str) -> None:
    node.ns.run(argv, input=text, timeout=_LIMIT)


def _counted(text: str) -> Counted:
    """Of what iptables-save says of the table nat."""
    rules, lines = 0, []
    for line in text.splitlines():
        if not line.startswith("-A "):
            continue
        chain = line.split(" ", 2)[1]
        if chain.startswith(_OURS):
            rules += 1
            if found := _ENDPOINT.match(line):
                lines.append(f"{found[1]} {found[2]}")
        elif found := _DISPATCH.match(line):
            rules += 1
            lines.append(f"{found[1]} {found[2]} {found[3]}")
    return Counted(rules, digest(lines))


PROVIDER = Iptables
