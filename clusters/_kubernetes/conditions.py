"""Conditions of a cell on a cluster: policies through the API and the CNI itself, features of the pair's and the nodes' interfaces."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from cnibench.cell import Cell
from cnibench.clusters._kubernetes import features, policies
from cnibench.clusters._kubernetes.places import KubernetesPod
from cnibench.conditions import Conditions

if TYPE_CHECKING:
    from cnibench.clusters._kubernetes.standing import KubernetesStanding


@contextlib.contextmanager
def under(
    standing: KubernetesStanding, asked: Conditions, client: KubernetesPod, server: KubernetesPod, cell: Cell | None = None
) -> Iterator[list[dict[str, Any]]]:
    """As Standing.under."""
    records: list[dict[str, Any]] = []
    with contextlib.ExitStack() as stack:
        if asked.policy is not None:
            records += stack.enter_context(policies.applied(standing, asked.policy, server, cell))
        if asked.offload is not None:
            records += stack.enter_context(features.applied(standing, asked.offload, client, server))
        yield records
