"""``ebpf``: hash maps that programs at each Pod's veth pair look Services up in, as Cilium does in
kube-proxy's place for Pods whose sockets it leaves alone.
"""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from cnibench.clusters.lab.ebpf import tc
from cnibench.clusters.lab.ebpf.programs import Loaded, read_object
from cnibench.clusters.lab.namespaces.places import LabNode, LabPod
from cnibench.clusters.lab.proxies._digest import digest
from cnibench.clusters.lab.proxies.base import Counted, Proxy, only_new, place
from cnibench.clusters.lab.rules.services import Service

if TYPE_CHECKING:
    from cnibench.clusters.lab.deployment import LabDeployment

_PROTOCOL = {"tcp": 6, "udp": 17}
_FIRST = 1  # priority at tc: before the CNI's own programs


class EbpfProxy(Proxy):
    """Maps and programs of each node, in the kernel until ``remove``."""

    name = "ebpf"
    needs = ("tc-bpf",)
    families = (4,)
    bytes_each = 1 << 10
    seconds_each = 0.00015

    def __init__(self, deployment: LabDeployment) -> None:
        super().__init__(deployment)
        self._loaded: dict[str, Loaded] = {}

    def build(self, node: LabNode) -> None:
        self._loaded[node.name] = Loaded(read_object("services"), {})
        self._write(node, self.services[4], ())

    def connect(self, pod: LabPod) -> None:
        node, programs = pod.node, self._loaded[pod.node.name].programs
        to, back = "svc_to_endpoint", "svc_from_endpoint"
        tc.attach(node.ns, pod.host_end, "ingress", to, programs[to], priority=_FIRST)
        if getattr(self.deployment.datapath.options, "host_routing", "") == "ebpf":
            # redirect_peer leaves the node's end of the pair out
            tc.attach(pod.ns, pod.interface, "ingress", back, programs[back], priority=_FIRST)
        else:
            tc.attach(node.ns, pod.host_end, "egress", back, programs[back], priority=_FIRST)

    def remove(self) -> None:
        for loaded in self._loaded.values():
            loaded.close()
        self._loaded.clear()

    def forget(self) -> None:
        for loaded in self._loaded.values():
            for name in ("lb_connections", "lb_replies"):
                loaded.maps[name].clear()

    def _write_all(self, family: int, before: Sequence[Service]) -> None:
        new, gone = only_new(before, self.services[family])
        for node in self.deployment.nodes():
            self._write(node, new, gone)

    def _write_change(self, family: int, new: Sequence[Service], gone: Sequence[Service]) -> None:
        for node in self.deployment.nodes():
            self._write(node, new, gone)

    def _write(self, node: LabNode, new: Sequence[Service], gone: Sequence[Service]) -> None:
        """Endpoints before what leads to them, and what leads to them before they go."""
        maps = self._loaded[node.name].maps
        entries = dict(_entries(new))
        maps["lb_endpoints"].update_batch(dict(_endpoints(new)))
        maps["lb_services"].update_batch(entries)
        maps["lb_services"].delete_batch([key for key, _ in _entries(gone) if key not in entries])
        used = dict(_endpoints(self.services[4]))
        maps["lb_endpoints"].delete_batch(
            [key for key, _ in _endpoints(gone) if key not in used] if gone else []
        )

    def found(self) -> Mapping[str, Counted]:
        found = {}
        for node in self.deployment.nodes():
            maps = self._loaded[node.name].maps
            found[place(node, 4)] = _counted(
                [*maps["lb_services"].items(), *maps["lb_endpoints"].items()]
            )
        return found

    def expected(self, family: int) -> Counted:
        services = self.services[family]
        return _counted([*_entries(services), *dict(_endpoints(services)).items()])

    def translated(self, node: LabNode, service: Service) -> bool:
        """By the map of connections that the programs keep."""
        known = dict(_endpoints((service,)))
        target = ipaddress.IPv4Address(service.address).packed
        port = struct.pack("!H", service.port)
        return any(
            key[4:8] == target and key[10:12] == port and value in known
            for key, value in self._loaded[node.name].maps["lb_connections"].items()
        )


def _key(service: Service, slot: int) -> bytes:
    address = ipaddress.IPv4Address(service.address).packed
    head = address + struct.pack("!H", service.port)
    return head + struct.pack("=BxI", _PROTOCOL[service.protocol], slot)


def _entries(services: Iterable[Service]) -> Iterator[tuple[bytes, bytes]]:
    for service in services:
        yield _key(service, 0), struct.pack("=QII", 0, len(service.endpoints), 0)
        for slot, (address, port) in enumerate(service.endpoints, 1):
            yield _key(service, slot), struct.pack("=8sII", _endpoint(address, port), 0, 0)


def _endpoint(address: str, port: int) -> bytes:
    return ipaddress.IPv4Address(address).packed + struct.pack("!H2x", port)


def _endpoints(services: Iterable[Service]) -> Iterator[tuple[bytes, bytes]]:
    """By a number that is address and port themselves: the same in every deployment."""
    for service in services:
        for address, port in service.endpoints:
            packed = _endpoint(address, port)
            yield packed, packed


def _counted(entries: Sequence[tuple[bytes, bytes]]) -> Counted:
    return Counted(len(entries), digest(f"{key.hex()} {value.hex()}" for key, value in entries))


PROVIDER = EbpfProxy
