"""Services before the measured servers: made when a path first asks for one, removed with the
Pods.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cnibench.clusters.kubernetes.api.access import Access, InvalidError
from cnibench.clusters.kubernetes.api.objects import Making
from cnibench.clusters.kubernetes.api.rest import Rest
from cnibench.clusters.kubernetes.nodes.places import KubernetesPod
from cnibench.clusters.kubernetes.pods import paths
from cnibench.errors import UnsupportedError
from cnibench.model.cell import Cell


class Services:
    """Those of one deployment; ``label`` names it in messages, ``families`` are its own."""

    def __init__(
        self, access: Access, making: Making, families: tuple[int, ...], label: str
    ) -> None:
        self._access = access
        self._making = making
        self._families = families
        self._label = label
        self._addresses: dict[str, Mapping[int, str]] = {}  # name to the Service's addresses
        self._made: dict[str, str] = {}  # path of each to its UID
        self._firsts: dict[str, int] = {}  # name to the Service's first node port, 0 for none
        self._reached: set[str] = set()  # on what a connection through a Service was seen

    def names(self) -> Sequence[str]:
        return list(self._addresses)

    def address(self, cell: Cell, server: KubernetesPod) -> str:
        """Where the client connects to on the cell's path; makes the Service. Raises
        UnsupportedError, ClusterError.
        """
        if not paths.through_service(cell.path):
            return server.addresses[cell.ip]
        name = _name(cell, server)
        if name not in self._addresses:
            self._make(name, server.name, cell.path)
        if cell.path == "nodeport":
            return server.node.addresses[cell.ip]
        if cell.ip not in self._addresses[name]:
            raise UnsupportedError(
                f"{self._label}: Services have no IPv{cell.ip} address on this cluster"
            )
        return self._addresses[name][cell.ip]

    def port(self, cell: Cell, server: KubernetesPod, number: int) -> int:
        """The port that stands for the server's port ``number`` on the cell's path."""
        return paths.port(number, self._first(cell, server)) if cell.path == "nodeport" else number

    def wait_reached(self, cell: Cell, client: KubernetesPod, server: KubernetesPod) -> None:
        """Until a connection on the cell's path succeeds; a path is tried once. Raises
        UnsupportedError, ClusterError.
        """
        known = f"{client.name} {server.name} {cell.path} {cell.ip}"
        address = self.address(cell, server)
        if known not in self._reached:
            first = self._first(cell, server)
            paths.wait_reached(client, server, cell.path, address, cell.ip, first)
            self._reached.add(known)

    def remove(self) -> None:
        """Raises ClusterError."""
        rest = Rest(self._access)
        for path, uid in self._made.items():
            rest.delete(path, uid)

    def _make(self, name: str, server: str, path: str) -> None:
        """Skips node ports that others have. Raises ClusterError."""
        namespace = self._making.namespace
        starts = paths.node_ports() if path == "nodeport" else [0]
        starts = [first for first in starts if first not in self._firsts.values() or not first]
        for first in starts:
            service = paths.service(self._making, server, path, self._families, first)
            where = f"/api/v1/namespaces/{namespace}/services/{service['metadata']['name']}"
            try:
                made = Rest(self._access).apply(where, service)
                break
            except InvalidError as error:
                taken = any(field.endswith(".nodePort") for field in error.fields)
                if not taken or first == starts[-1]:
                    raise
        self._made[where] = str(made["metadata"]["uid"])
        self._firsts[name] = first
        self._addresses[name] = paths.cluster_ips(made)

    def _first(self, cell: Cell, server: KubernetesPod) -> int:
        return self._firsts.get(_name(cell, server), 0)


def _name(cell: Cell, server: KubernetesPod) -> str:
    return f"{server.name}-{cell.path}"
