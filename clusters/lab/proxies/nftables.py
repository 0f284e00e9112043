"""``nftables``: each Service is an element of a verdict map, which the kernel finds by its hash."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cnibench.clusters.lab.namespaces.places import LabNode
from cnibench.clusters.lab.proxies import _nft_table
from cnibench.clusters.lab.proxies._digest import digest
from cnibench.clusters.lab.proxies.base import Counted, Proxy, place
from cnibench.clusters.lab.proxies.iptables import translated
from cnibench.clusters.lab.rules import kubeproxy_nft
from cnibench.clusters.lab.rules.services import CLUSTER_CIDRS, SERVICE_CIDRS, Service

_LIMIT = 120.0  # s for ten thousand Services
# Services of one transaction where many are written at once: the kernel looks each rule's own set
# up among all that its transaction has made.
_AT_ONCE = 500


class Nftables(Proxy):
    """kube-proxy's table of nf_tables."""

    name = "nftables"
    needs = ("nftables", "nft-services")
    bytes_each = 8 << 10
    seconds_each = 0.002

    def build(self, node: LabNode) -> None:
        for family, services in self.services.items():
            self._write(node, family, services)

    def _write_all(self, family: int, before: Sequence[Service]) -> None:
        now = self.services[family]
        self._on_nodes(lambda node: self._write(node, family, now))

    def _write(self, node: LabNode, family: int, services: Sequence[Service]) -> None:
        """The whole table, in place of what was there."""
        cluster, own = CLUSTER_CIDRS[family], SERVICE_CIDRS[family]
        first, rest = services[:_AT_ONCE], services[_AT_ONCE:]
        text = kubeproxy_nft.setup(family, cluster, own, node.addresses[family], first)
        self._nft(node, text)
        for start in range(0, len(rest), _AT_ONCE):
            some = rest[start : start + _AT_ONCE]
            self._nft(node, kubeproxy_nft.added(family, cluster, some))

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
        found = {}
        for family in self.services:
            for node in self.deployment.nodes():
                with node.ns.inside():
                    found[place(node, family)] = _counted(family)
        return found

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


def _counted(family: int) -> Counted:
    """Of the calling thread's namespace: rules of Services' and endpoints' chains, and elements."""
    lines, count = [], 0
    for chain, address, port in _nft_table.rules(family, kubeproxy_nft.TABLE):
        if "/" in chain:
            count += 1
            if address:
                lines.append(f"{chain} {address if family == 4 else f'[{address}]'}:{port}")
    for words in _nft_table.verdicts(family, kubeproxy_nft.TABLE, "service-ips"):
        count += 1
        lines.append(" ".join(map(str, words)))
    return Counted(count, digest(lines))


PROVIDER = Nftables
