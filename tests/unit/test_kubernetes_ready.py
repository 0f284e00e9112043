"""A profile without a CNI is ready on nodes that only lack one."""

from __future__ import annotations

from typing import Any, cast

import pytest

from cnibench.clusters.kubernetes.api.access import Access
from cnibench.clusters.kubernetes.cni import wait
from cnibench.errors import LimitError
from cnibench.model.profile import builtin

NO_CNI = (  # of a kubelet 1.34
    "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady"
    " message:Network plugin returns error: cni plugin not initialized"
)


class Server:
    """Two nodes, the second NotReady with this message."""

    def __init__(self, message: str) -> None:
        self.message = message

    def listed(self, *_: str) -> list[dict[str, Any]]:
        ready = {"type": "Ready", "status": "True"}
        other = {"type": "Ready", "status": "False", "message": self.message}
        return [
            {"metadata": {"name": name}, "status": {"conditions": [condition]}}
            for name, condition in (("a", ready), ("b", other))
        ]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wait, "_STEP", 0.01)
    monkeypatch.setattr(wait, "_STALE", 0.02)


def test_pods_on_the_nodes_network_need_no_cni() -> None:
    wait.ready(cast(Access, Server(NO_CNI)), builtin()["host"], limit=5.0)


@pytest.mark.parametrize("message", ["PLEG is not healthy", f"[PLEG is not healthy, {NO_CNI}]", ""])
def test_a_node_that_lacks_more_is_waited_for(message: str) -> None:
    with pytest.raises(LimitError, match="node b is not Ready"):
        wait.ready(cast(Access, Server(message)), builtin()["host"], limit=0.05)
