"""A kind of cluster that has no machine to run on."""

from __future__ import annotations

from typing import Any

from cnibench.cluster import Cluster, Problem, Standing, Wire
from cnibench.errors import ClusterError
from cnibench.profile import Profile


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

    def install(self, label: str, profile: Profile) -> Standing:
        raise ClusterError("nothing can be installed nowhere")

    def environment(self) -> dict[str, Any]:
        return {}

    def __exit__(self, *error: object) -> None:
        return None


PROVIDER = Nowhere
