"""``nftables``: each Service is an element of a verdict map, which the kernel finds by its hash."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from cnibench.clusters.lab.namespaces.places import LabNode
from cnibench.clusters.lab.proxies._digest import digest
from cnibench.clusters.lab.proxies.base import Counted, Proxy, place
from cnibench.clusters.lab.proxies.iptables import translated
from cnibench.clusters.lab.rules import kubeproxy_nft
from cnibench.clusters.lab.rules.services import CLUSTER_CIDRS, SERVICE_CIDRS, Service

_LIMIT = 120.0  # s for ten thousand Services
_FAMILY = {4: "ip", 6: "ip6"}
_CHAIN = re.compile(r"\tchain (\S+) \{")
_ELEMENT = re.compile(r"(\S+) \. (\w+) \. (\S+) : goto (service-[^\s,}]+)")
_TARGET = re.compile(r"dnat to (\S+)")


class Nftables(Proxy):
    """kube-proxy's table of nf_tables."""

    name = "nftables"
    needs = ("nftables",)
    bytes_each = 8 << 10

    def build(self, node: LabNode) -> None:
        for family, services in self.services.items():
            self._nft(node, self._whole(node, family, services))

    def _whole(self, node: LabNode, family: int, services: Sequence[Service]) -> str:
        return kubeproxy_nft.setup(
            family, CLUSTER_CIDRS[family], SERVICE_CIDRS[family], node.addresses[family], services
        )

    def _write_all(self, family: int, before: Sequence[Service]) -> None:
        now = self.services[family]
        self._on_nodes(lambda node: self._nft(node, self._whole(node, family, now)))

    def _write_change(self, family: int, new: Sequence[Service], gone: Sequence[Service]) -> None:
        now = self.services[family]
        names = {service.name for service in new}
        lost = [service for service in gone if service.name not in names]
        kept = {chain for service in new for chain in kubeproxy_nft.chains_of(service)}
        stale = [
            chain
            for service in gone
            for chain in kubeproxy_nft.chains_of(service)
            if chain not in kept
        ]
        text = kubeproxy_nft.added(family, CLUSTER_CIDRS[family], new)
        text += kubeproxy_nft.removed(family, lost, now)
        for node in self.deployment.nodes():
            self._nft(node, text)
        if stale:  # as kube-proxy does, in a transaction of its own
            for node in self.deployment.nodes():
                self._nft(node, kubeproxy_nft.dropped(family, stale))

    def _nft(self, node: LabNode, text: str) -> None:
        if text:
            node.ns.run(["nft", "-f", "-"], input=text, timeout=_LIMIT)

    def found(self) -> Mapping[str, Counted]:
        return {
            place(node, family): _counted(
                node.ns.run(
                    ["nft", "list", "table", _FAMILY[family], kubeproxy_nft.TABLE], timeout=_LIMIT
                ).stdout
            )
            for family in self.services
            for node in self.deployment.nodes()
        }

    def expected(self, family: int) -> Counted:
        services = self.services[family]
        lines = []
        for service in services:
            own, *targets = kubeproxy_nft.chains_of(service)
            lines.append(f"{service.address} {service.protocol} {service.port} {own}")
            lines += [
                f"{chain} {address if family == 4 else f'[{address}]'}:{port}"
                for chain, (address, port) in zip(targets, service.endpoints, strict=True)
            ]
        rules = sum(3 + 2 * len(service.endpoints) for service in services)
        return Counted(rules, digest(lines))

    def translated(self, node: LabNode, service: Service) -> bool:
        return translated(node, service)


def _counted(text: str) -> Counted:
    """Of what nft says of the table: rules of Services' and endpoints' chains, and elements."""
    rules, lines, chain = 0, [], ""
    for line in text.splitlines():
        if found := _CHAIN.match(line):
            chain = found[1] if "/" in found[1] else ""
        elif line == "\t}":
            chain = ""
        elif chain:
            rules += 1
            if found := _TARGET.search(line):
                lines.append(f"{chain} {found[1]}")
        elif ": goto service-" in line:
            for address, protocol, port, to in _ELEMENT.findall(line):
                rules += 1
                lines.append(f"{address} {protocol} {port} {to}")
    return Counted(rules, digest(lines))


PROVIDER = Nftables
