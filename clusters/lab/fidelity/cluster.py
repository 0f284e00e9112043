"""The lab with two deployments of one profile: the model's, and the one that the agent makes."""

from __future__ import annotations

from typing import Any, ClassVar

from cnibench.certificates.format import Difference
from cnibench.clusters.lab.cluster import LabCluster
from cnibench.clusters.lab.deployment import LabDeployment
from cnibench.clusters.lab.fidelity.comparison import compare
from cnibench.clusters.lab.fidelity.deployment import AgentDeployment, Setup
from cnibench.errors import ClusterError
from cnibench.model.profile import Profile
from cnibench.system.interrupt import cleaning_up
from cnibench.testbed.cluster import Options

MODEL, AGENT = "model", "agent"  # labels


class AgentCluster(LabCluster):
    """``deploy`` makes both and compares them; a run then measures what is there."""

    elsewhere: ClassVar[str] = ""  # a certificate is of the running kernel

    def __init__(self, options: Options, setup: Setup) -> None:
        super().__init__(options)
        self.setup = setup
        self.differences: list[Difference] = []
        self.lines = 0
        self.chains: dict[str, str] = {}  # the names that the agent drew, and the model's
        self.version = ""  # of the agent
        self._ready: dict[str, LabDeployment] = {}

    def deploy(self, profile: Profile) -> None:
        """Raises ClusterError; nothing stays then."""
        try:
            model = self._ready[MODEL] = super().install(MODEL, profile)
            made = self._ready[AGENT] = AgentDeployment(
                AGENT, profile, self.options, 2, self.setup, like=model
            )
            self._deployments.append(made)
            self.version = made.version
            self.differences, self.lines, self.chains = compare(
                model, made, self.setup.adapter.chains
            )
        except BaseException as error:
            with cleaning_up(error):
                self.__exit__(type(error))
            raise

    def install(self, label: str, profile: Profile) -> LabDeployment:
        """What ``deploy`` made. Raises ClusterError when that was removed."""
        return self._ready[label]

    def require_agent(self) -> None:
        """Raises ClusterError when a process of the agent's deployment ended before its time: what
        was measured is not the agent's then.
        """
        if ended := self._ready[AGENT].datapath.alive():
            raise ClusterError(
                f"{ended}; what was measured until then is no certificate",
                self.setup.adapter.remedy(),
            )

    def environment(self) -> dict[str, Any]:
        facts = super().environment()
        facts.pop("certificates", None)  # this run makes one
        return facts
