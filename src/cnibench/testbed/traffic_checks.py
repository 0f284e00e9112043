"""Checks by traffic that the lab and clusters have in common: their names and words."""

from __future__ import annotations

from cnibench.model.cell import Attestation
from cnibench.testbed.deployment import Deployment


def arrives(deployment: Deployment, check: str, failure: str, family: int) -> Attestation:
    """A TCP stream from a client to its server; ``failure`` is '' when it arrived."""
    return deployment.attestation(
        check, "a TCP stream arrives", failure or "arrived", not failure, family
    )


def stays_inside(deployment: Deployment, astray: int, family: int) -> Attestation:
    """Traffic between Pods of one node, of which ``astray`` packets were on the wire."""
    return deployment.attestation(
        "intra-stays-inside",
        "no packet of it on the wire",
        f"{astray} packets on the wire",
        not astray,
        family,
    )
