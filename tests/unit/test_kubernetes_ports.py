"""Ports behind a Service: those of the server that a cell has."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from cnibench.clusters.kubernetes.deployment import KubernetesDeployment
from cnibench.clusters.kubernetes.pods import paths
from cnibench.clusters.kubernetes.pods.services import Services
from cnibench.run.sample_context import SampleContext
from tests._manifest import transactions


@pytest.mark.parametrize("pair", [0, 1])
def test_a_cell_with_the_number_of_another_pair_has_the_ports_of_its_own_server(pair: int) -> None:
    """In slices the servers of several cells listen on one address: each takes the ports of a pair
    of its own, and all are behind the Service of that address.
    """
    none = cast(Any, None)
    server: Any = type("Server", (), {"name": "b0"})()
    deployment = KubernetesDeployment.__new__(KubernetesDeployment)
    deployment._pods = {"b0": server}
    deployment.services = Services(none, none, (4,), "one")
    deployment.services._firsts = {"b0-nodeport": 30000, "b2-nodeport": 30500}
    cell = transactions("one", path="nodeport", pair=pair)
    s = SampleContext(cell, 0, deployment, none, server, 1.0, 0.0, Path(), None, None)
    assert s.port(12865 + 2 * pair) == paths.port(12865 + 2 * pair, 30000)
