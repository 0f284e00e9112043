"""``ipvs``: each Service is a virtual server of the kernel, found by its hash, on an address of the
node's own device ``kube-ipvs0``.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from typing import ClassVar, cast

from cnibench.clusters.lab.builders.filtered import Filtered
from cnibench.clusters.lab.namespaces.places import LabNode
from cnibench.clusters.lab.proxies._digest import digest
from cnibench.clusters.lab.proxies.base import Counted, Proxy, only_new, place
from cnibench.clusters.lab.proxies.iptables import translated
from cnibench.clusters.lab.rules import kubeproxy_ipvs
from cnibench.clusters.lab.rules.ruleset import IpSet, Part
from cnibench.clusters.lab.rules.services import CLUSTER_CIDRS, Service

_LIMIT = 120.0  # s for ten thousand Services


class Ipvs(Proxy):
    """kube-proxy's virtual servers, IP sets and rules."""

    name = "ipvs"
    needs = ("ipvs", "iptables", "ipset", "dummy")
    programs: ClassVar[Mapping[str, str]] = {"ipvsadm": "ipvsadm"}
    bytes_each = 4 << 10
    seconds_each = 0.001

    def part(self, node: LabNode, family: int) -> Part:
        return kubeproxy_ipvs.rules(family, CLUSTER_CIDRS[family], self._hairpin(node, family))

    def sets(self, node: LabNode, family: int) -> Sequence[IpSet]:
        return kubeproxy_ipvs.sets(family, self.services[family], node.subnets[family])

    def _hairpin(self, node: LabNode, family: int) -> bool:
        """Is an endpoint on that node?"""
        here = ipaddress.ip_network(node.subnets[family])
        targets = {address for one in self.services[family] for address, _ in one.endpoints}
        return any(ipaddress.ip_address(address) in here for address in targets)

    def build(self, node: LabNode) -> None:
        node.ns.sysctl(kubeproxy_ipvs.SYSCTLS)
        device = ["ip", "link", "add", kubeproxy_ipvs.DEVICE, "txqueuelen", "0", "type", "dummy"]
        node.ns.run(device)
        for services in self.services.values():
            self._write(node, services, ())

    def _write_all(self, family: int, before: Sequence[Service]) -> None:
        new, gone = only_new(before, self.services[family])
        datapath = cast(Filtered, self.deployment.datapath)

        def write(node: LabNode) -> None:
            self._write(node, new, gone)
            datapath.load(node)

        self._on_nodes(write)

    def _write_change(self, family: int, new: Sequence[Service], gone: Sequence[Service]) -> None:
        self._on_nodes(lambda node: self._sync(node, family, new, gone))

    def _sync(
        self, node: LabNode, family: int, new: Sequence[Service], gone: Sequence[Service]
    ) -> None:
        """As kube-proxy syncs one change: it looks for its chains, jumps and sets with a program
        for each, then writes virtual servers, what has changed of each set, and its chains.
        """
        program = "iptables" if family == 4 else "ip6tables"
        for argv in kubeproxy_ipvs.looked_up(family, program):
            node.ns.run(argv, timeout=_LIMIT, check=False)  # a chain that is there is an error
        self._write(node, new, gone)
        subnet = node.subnets[family]
        before = kubeproxy_ipvs.sets(family, gone, subnet)
        after = kubeproxy_ipvs.sets(family, new, subnet)
        for was, now in zip(before, after, strict=True):
            node.ns.run(["ipset", "list", now.name], timeout=_LIMIT)
            changes = [("del", one) for one in was.members if one not in now.members]
            changes += [("add", one) for one in now.members if one not in was.members]
            for word, member in changes:
                node.ns.run(["ipset", word, now.name, member, "-exist"], timeout=_LIMIT)
        text = kubeproxy_ipvs.sync(family, CLUSTER_CIDRS[family], self._hairpin(node, family))
        restore = [f"{program}-restore", "-w", "--noflush", "--counters"]
        node.ns.run(restore, input=text, timeout=_LIMIT)

    def _write(self, node: LabNode, new: Sequence[Service], gone: Sequence[Service]) -> None:
        """Virtual servers and their addresses; one that stays keeps the endpoints that stay."""
        before = {_virtual(one): one.endpoints for one in gone}
        after = {_virtual(one): one.endpoints for one in new}
        servers = [f"-D {one}" for one in before.keys() - after.keys()]
        servers += [f"-A {one} -s rr" for one in after.keys() - before.keys()]
        for one, targets in after.items():
            had = before.get(one, ())
            servers += [f"-a {one} -r {_end(*each)} -m -w 1" for each in targets if each not in had]
            servers += [f"-d {one} -r {_end(*each)}" for each in had if each not in targets]
        if servers:
            text = "\n".join(servers) + "\n"
            node.ns.run(["ipvsadm", "--restore"], input=text, timeout=_LIMIT)
        kept = {one.address for services in self.services.values() for one in services}
        addresses = [_address("del", one) for one in {one.address for one in gone} - kept]
        addresses += [_address("replace", one) for one in {one.address for one in new}]
        if addresses:
            text = "\n".join(addresses) + "\n"
            node.ns.run(["ip", "-batch", "-"], input=text, timeout=_LIMIT)

    def found(self) -> Mapping[str, Counted]:
        found = {}
        for node in self.deployment.nodes():
            # Not /proc/net/ip_vs, which Linux 6.1 gives incompletely if it is longer than a page.
            text = node.ns.run(["ipvsadm", "--save", "--numeric"], timeout=_LIMIT).stdout
            lines = [_saved(line.split()) for line in text.splitlines()]
            for family in self.services:
                own = [line for line in lines if ("[" in line) == (family == 6)]
                found[place(node, family)] = Counted(len(own), digest(own))
        return found

    def expected(self, family: int) -> Counted:
        lines = []
        for one in self.services[family]:
            own = f"{one.protocol} {_end(one.address, one.port)}"
            lines.append(own)
            lines += [f"{own} {_end(*target)}" for target in one.endpoints]
        return Counted(len(lines), digest(lines))

    def translated(self, node: LabNode, service: Service) -> bool:
        return translated(node, service)


def _saved(words: Sequence[str]) -> str:
    """Of ``-A -t 10.96.0.1:443 -s rr`` and ``-a -t 10.96.0.1:443 -r 10.0.0.1:6443 -m -w 1``."""
    own = f"{'tcp' if words[1] == '-t' else 'udp'} {words[2]}"
    return f"{own} {words[4]}" if words[0] == "-a" else own


def _virtual(service: Service) -> str:
    return f"-{service.protocol[0]} {_end(service.address, service.port)}"


def _end(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _address(what: str, address: str) -> str:
    host = f"{address}/{128 if ':' in address else 32}"
    return f"address {what} {host} dev {kubeproxy_ipvs.DEVICE}"


PROVIDER = Ipvs
