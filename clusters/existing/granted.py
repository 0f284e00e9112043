"""The rights that a run takes on a cluster that somebody else made, and which of them its user
lacks.
"""

from __future__ import annotations

from collections.abc import Iterable

from cnibench.clusters.kubernetes.api.access import Access
from cnibench.clusters.kubernetes.ownership.safety import Allowed
from cnibench.clusters.kubernetes.pods import paths
from cnibench.clusters.kubernetes.rights import preflight
from cnibench.clusters.kubernetes.rights.table import Level, Use, rights
from cnibench.model import conditions
from cnibench.model.cell import Cell
from cnibench.testbed.capabilities.access_rights import Lacking


def level(allowed: Allowed) -> Level:
    """Of what the user allowed."""
    return "install" if allowed.install or allowed.replace else "measure"


def uses(cells: Iterable[Cell], pull_secret: str = "") -> set[Use]:
    """What these cells do that others do not."""
    found: set[Use] = {"pull-secret"} if pull_secret else set()
    for cell in cells:
        asked = conditions.of(cell.params)
        policy = asked.policy if asked else None
        if paths.through_service(cell.path):
            found.add("service")
        if (asked and asked.services) or cell.workload == "service-change":
            found.add("changed-service")
        if policy or cell.workload == "policy-effect":
            found.add("policy")
        if policy and (policy.api == "cni" or policy.layer == "L7"):
            found.add("cni-policy")
    return found


def lacking(access: Access, level: Level, cells: Iterable[Cell], pull_secret: str) -> Lacking:
    """All that the user of the context lacks, asked of the API server."""
    wanted = rights(level, uses(cells, pull_secret), pull_secret)
    return preflight.lacking(access, level, wanted, pull_secret=pull_secret)
