"""Conditions of a cell on a cluster: policies through the API and the CNI itself, features of the
pair's and the nodes' interfaces, Services in addition to the measured one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from cnibench.clusters.kubernetes.nodes.places import KubernetesPod
from cnibench.clusters.kubernetes.pods import features, other_services, policies
from cnibench.clusters.kubernetes.pods.measured import MeasuredPods
from cnibench.model.cell import Cell
from cnibench.model.conditions import Conditions


@contextlib.contextmanager
def apply_conditions(
    deployment: MeasuredPods,
    asked: Conditions,
    client: KubernetesPod,
    server: KubernetesPod,
    cell: Cell | None = None,
) -> Iterator[list[dict[str, Any]]]:
    """As CellConditions.apply_conditions."""
    records: list[dict[str, Any]] = []
    with contextlib.ExitStack() as stack:
        if asked.policy is not None:
            records += stack.enter_context(policies.applied(deployment, asked.policy, server, cell))
        if asked.offload is not None:
            records += stack.enter_context(
                features.applied(deployment, asked.offload, client, server)
            )
        if asked.services is not None:
            records += stack.enter_context(other_services.applied(deployment, asked.services))
        yield records
