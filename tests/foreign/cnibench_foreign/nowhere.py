"""A kind of cluster that has no machine to run on."""

from __future__ import annotations

from typing import Any

from cnibench.errors import ClusterError
from cnibench.model.profile import Profile
from cnibench.testbed.cluster import Cluster, Options, Problem, Wire
from cnibench.testbed.deployment import Deployment


class Nowhere(Cluster):
    kind = "nowhere"

    testbed = "nowhere"
    wire: Wire = "none"

    def missing(self) -> list[Problem]:
        return [Problem("", "a machine", "there is none")]

    def check(self, profile: Profile, options: Options | None = None) -> list[Problem]:
        return []

    def install(self, label: str, profile: Profile) -> Deployment:
        raise ClusterError("nothing can be installed nowhere")

    def environment(self) -> dict[str, Any]:
        return {}

    def __exit__(self, *error: object) -> None:
        return None


PROVIDER = Nowhere
