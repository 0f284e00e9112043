"""Whether policies deny whom they do not let in: a Pod on each node of the pair that they do not
name tries to reach the servers.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from cnibench.clusters.kubernetes.nodes import probe
from cnibench.clusters.kubernetes.nodes.places import KubernetesPod
from cnibench.clusters.kubernetes.pods.measured import MeasuredPods
from cnibench.model.cell import Attestation, Placement

_PLACEMENTS: tuple[Placement, ...] = ("intra", "inter")
_WHICH = ("", "-b")  # of the strangers
_DENIAL = 2.0  # s that denied connections are given; an allowed one needs milliseconds


@dataclass(frozen=True)
class _Way:
    where: str
    """of its check"""
    stranger: KubernetesPod
    server: KubernetesPod
    family: int

    def failure(self) -> str:
        """Why nothing came through, or ''."""
        return probe.stream(self.stranger, self.server.addresses[self.family], 1, limit=_DENIAL)


def tried(deployment: MeasuredPods, enforced: bool) -> Iterator[Attestation]:
    """Whom the policies do not let in stays out, on each node and between nodes; without policies
    nobody does. ``-b`` marks the stranger on the server's node, as in the lab.

    So that the denial is the policies' and not a dead Pod's, the strangers themselves have to be
    reachable from their nodes, and the servers have to answer others.
    """
    both = deployment.add_strangers()
    here, there = (deployment.pair(placement)[1] for placement in _PLACEMENTS)
    ways = [
        _Way(f"{placement}{which}", one, server, family)
        for family in deployment.families
        for one, which, servers in zip(both, _WHICH, ((here, there), (there, here)), strict=True)
        for placement, server in zip(_PLACEMENTS, servers, strict=True)
    ]
    # At once: each that is denied takes its whole limit.
    with ThreadPoolExecutor(max_workers=len(ways)) as pool:
        failures = list(pool.map(_Way.failure, ways))
    if enforced:
        yield from _alive(deployment, both)
    for way, failure in zip(ways, failures, strict=True):
        yield (_denied if enforced else _undenied)(deployment, way, failure)


def _alive(deployment: MeasuredPods, both: list[KubernetesPod]) -> Iterator[Attestation]:
    with probe.serving(*both):
        for one, which in zip(both, _WHICH, strict=True):
            for family in deployment.families:
                alive = probe.stream(one.node, one.addresses[family], 1)
                yield deployment.attestation(
                    f"stranger-alive{which}",
                    "its node reaches it",
                    alive or "reached",
                    not alive,
                    family,
                )


def _denied(deployment: MeasuredPods, way: _Way, failure: str) -> Attestation:
    client, _ = deployment.pair("inter")
    friend = probe.stream(client, way.server.addresses[way.family], 1)
    outcome = f"denied ({failure})" if failure else "it got through"
    outcome += f"; and the client too ({friend})" if friend else ""
    return deployment.attestation(
        f"denied-{way.where}",
        "a connection that no policy allows is denied",
        outcome,
        bool(failure) and not friend,
        way.family,
    )


def _undenied(deployment: MeasuredPods, way: _Way, failure: str) -> Attestation:
    return deployment.attestation(
        f"undenied-{way.where}",
        "nothing denies any connection",
        failure or "it got through",
        not failure,
        way.family,
    )
