"""``none``: no Service is implemented, for what the other implementations cost by being there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cnibench.clusters.lab.namespaces.places import LabNode
from cnibench.clusters.lab.proxies.base import Counted, Proxy
from cnibench.clusters.lab.rules.services import Service
from cnibench.errors import UnsupportedError


class NoProxy(Proxy):
    """Nodes without kube-proxy."""

    name = "none"

    def _write_all(self, family: int, before: Sequence[Service]) -> None:
        if self.services[family] != self.own[family]:
            raise UnsupportedError(f"{self.deployment.label}: nothing implements Services here")

    def _write_change(self, family: int, new: Sequence[Service], gone: Sequence[Service]) -> None:
        raise UnsupportedError(f"{self.deployment.label}: nothing implements Services here")

    def found(self) -> Mapping[str, Counted]:
        return {}

    def expected(self, family: int) -> Counted:
        return Counted(0, "")

    def translated(self, node: LabNode, service: Service) -> bool:
        return False


PROVIDER = NoProxy
