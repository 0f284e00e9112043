"""A kind of cluster that has no machine to run on."""

from __future__ import annotations

from typing import Any

from cnibench.errors import ClusterError
from cnibench.model.profile import Profile
from cnibench.testbed.cluster import Cluster, Problem, Wire
from cnibench.testbed.deployment import Deployment


class Nowhere(Cluster):
    kind = "nowhere"

    @property
    def testbed(self) -> str:
        return "nowhere"

    @property
    def wire(self) -> Wire:
        return "none"

    def missing(self) -> list[Problem]:
        return [Problem("", "a machine", "there is none")]

    def check(self, profile: Profile) -> list[Problem]:
        return []

    def install(self, label: str, profile: Profile) -> Deployment:
        raise ClusterError("nothing can be installed nowhere")

    def environment(self) -> dict[str, Any]:
        return {}

    def __exit__(self, *error: object) -> None:
        return None


PROVIDER = Nowhere
