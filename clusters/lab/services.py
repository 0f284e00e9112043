"""Services before measured servers, and the many others of a cell's condition."""

from __future__ import annotations

import contextlib
import ipaddress
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cnibench.clusters.lab.attestation import probe
from cnibench.clusters.lab.namespaces.places import LabPod
from cnibench.clusters.lab.proxies.base import Proxy, only_new
from cnibench.clusters.lab.rules.services import NAMESPACE, Protocol, Service, many
from cnibench.errors import ClusterError, UnsupportedError
from cnibench.model.cell import Cell
from cnibench.model.conditions import Services
from cnibench.registry import provider
from cnibench.testbed.capabilities.service_changes import Change, Coming
from cnibench.testbed.deployment import undone
from cnibench.testbed.place import Pod

if TYPE_CHECKING:
    from cnibench.clusters.lab.deployment import LabDeployment

# The addresses of measured servers' Services: one for each, by node and number.
_FIRST = {4: "10.96.100.0", 6: "fd00:10:96::6400"}
_CHANGED = {4: "10.96.200.0", 6: "fd00:10:96::c800"}
_NOBODY = {4: "10.244.127.254", 6: "fd00:10:244:7f::fffe"}  # an endpoint that no Pod is
_PER_PAIR = 2  # ports of a workload for each pair: control and data
_PROBED = 1  # bytes that prove a Service


class LabServices:
    """Those of one deployment. A Service is made when a path first asks for it, proven, and stays
    with the deployment.
    """

    def __init__(self, deployment: LabDeployment) -> None:
        self._deployment = deployment
        self._known: dict[tuple[str, int, str, int], tuple[Service, ...]] = {}

    def address(self, cell: Cell, server: Pod) -> str:
        """Where the client connects to. Raises UnsupportedError, ClusterError."""
        assert isinstance(server, LabPod)
        return self.of(cell, server)[0].address

    def of(self, cell: Cell, server: LabPod) -> tuple[Service, ...]:
        """The ports of the Service before that server, made when there is none yet."""
        deployment = self._deployment
        if cell.path != "clusterip":
            raise UnsupportedError(f"{deployment.label}: the lab has no path {cell.path}")
        key = (server.name, cell.ip, cell.workload, cell.pair)
        if key not in self._known:
            workload = provider("workloads", cell.workload)
            protocols: tuple[Protocol, ...] = (
                ("tcp",) if workload.transport == "tcp" else ("tcp", "udp")
            )
            made = tuple(
                self.service(server, cell.ip, base + _PER_PAIR * cell.pair + more, protocol)
                for base in workload.ports
                for more in range(_PER_PAIR)
                for protocol in protocols
            )
            new = [one for one in made if one not in deployment.services.services[cell.ip]]
            if new:
                deployment.services.change(cell.ip, new)
            self._known[key] = made
            client = deployment.pair(cell.placement, cell.pair)[0]
            prove(deployment, client, server, made[0])
        return self._known[key]

    @contextlib.contextmanager
    def change(self, family: int, server: LabPod, port: int, change: Change) -> Iterator[Coming]:
        """As ServiceChanges.service_change."""
        deployment, proxy = self._deployment, self._deployment.services
        after = self.service(server, family, port)
        after = replace(
            after,
            name=f"{after.name.partition(':')[0]}-changed:tcp{port}",
            address=str(ipaddress.ip_address(_CHANGED[family]) + _number(server)),
        )
        before = replace(after, endpoints=((_NOBODY[family], port),))
        if family not in proxy.families:
            raise UnsupportedError(f"{deployment.label}: {proxy.name} has no IPv{family} here")
        if change == "endpoint":
            proxy.change(family, [before])
        there = [before] if change == "endpoint" else []

        def restore() -> None:
            proxy.change(
                family, [], [one for one in proxy.services[family] if one in (before, after)]
            )

        with undone(deployment, "a Service", restore):
            yield Coming(after.address, port, lambda: _make(proxy, family, after, there))

    def service(
        self, server: LabPod, family: int, port: int, protocol: Protocol = "tcp"
    ) -> Service:
        """One port of the Service before a server."""
        address = str(ipaddress.ip_address(_FIRST[family]) + _number(server))
        return Service(
            f"{NAMESPACE}/{server.name}:{protocol}{port}",
            protocol,
            address,
            port,
            ((server.addresses[family], port),),
        )


def _number(server: LabPod) -> int:
    return 256 * server.node.number + server.number


def _make(proxy: Proxy, family: int, service: Service, there: Sequence[Service]) -> None:
    proxy.change(family, [service], there)


def prove(deployment: LabDeployment, client: LabPod, server: LabPod, service: Service) -> None:
    """The client reaches the server through the Service, and the client's node has translated the
    connection. Raises ClusterError.
    """
    family = 6 if ":" in service.address else 4
    via = (service.address, service.port)
    target = server.addresses[family]
    said = probe.stream(
        client.ns, server.ns, target, family, _PROBED, via=via, port=service.endpoints[0][1]
    )
    if said.startswith("EADDRINUSE"):  # the workload's server listens already
        said = probe.connects(client.ns, *via, family)
    if not said and not deployment.services.translated(client.node, service):
        said = f"node {client.node.name} knows of no translation by {deployment.proxy}"
    if said:
        raise ClusterError(
            f"{deployment.label}: {client.name} does not reach {server.name} through its Service"
            f" {service.address}:{service.port} ({deployment.proxy}): {said}"
        )


@contextlib.contextmanager
def apply(deployment: LabDeployment, asked: Services) -> Iterator[list[dict[str, Any]]]:
    """The Services of a condition, beside those that are there, read back at both ends. Raises
    UnsupportedError, ClusterError.
    """
    proxy = deployment.services
    families = deployment.services.own
    others = {family: many(family, asked.count, asked.endpoints) for family in families}
    before = {
        family: only_new(proxy.own[family], services)[0]
        for family, services in proxy.services.items()
    }

    def together(family: int) -> tuple[Service, ...]:
        middle = len(others[family]) // 2
        return (*others[family][:middle], *before[family], *others[family][middle:])

    def restore() -> None:
        # what was made meanwhile for a path stays
        proxy.replace(
            {
                family: only_new((*others[family], *proxy.own[family]), services)[0]
                for family, services in proxy.services.items()
            }
        )
        proxy.check()

    with undone(deployment, "Services", restore):
        seconds = proxy.replace({family: together(family) for family in deployment.families})
        found = proxy.check()
        yield [
            {
                "condition": "services",
                **asked.model_dump(mode="json"),
                "proxy": deployment.proxy,
                "found": {where: counted.rules for where, counted in found.items()},
                "seconds": seconds,
            }
        ]
        proxy.check()
