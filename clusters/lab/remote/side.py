"""One machine's half of a deployment."""

from __future__ import annotations

from cnibench.clusters.lab.deployment import REFERENCES, LabDeployment
from cnibench.clusters.lab.namespaces import nic_wire
from cnibench.clusters.lab.namespaces.nic_wire import Nic
from cnibench.clusters.lab.namespaces.places import LabNode
from cnibench.model.cell import Attestation
from cnibench.model.profile import Profile
from cnibench.testbed.cluster import Options


class Side(LabDeployment):
    """The node ``own`` (0 or 1) is this machine's, with its Pods and its device on the NIC.

    The other node is made as well, so that a builder finds of both what it declares, and numbers
    and addresses are those that the other machine has. It is joined to nothing, and no traffic
    reaches it.
    """

    def __init__(
        self,
        label: str,
        profile: Profile,
        options: Options,
        number: int,
        nic: Nic,
        own: int,
        like: LabDeployment | None = None,
    ) -> None:
        """As LabDeployment."""
        self.nic = nic
        self.own = own
        super().__init__(label, profile, options, number, like)

    @property
    def node(self) -> LabNode:
        return self.nodes()[self.own]

    def _join(self) -> None:
        reference = self.number >= REFERENCES
        other = self.nodes()[1 - self.own]
        nic_wire.join(self.node, other, self.nic, self.number, reference, self.options.mtu)

    def reference(self) -> Side:
        number = self.number + REFERENCES
        return Side(self.label, self.profile, self.options, number, self.nic, self.own, like=self)

    def verify(self) -> list[Attestation]:
        """What this machine has of it, without the other node."""
        begin = f"kernel-state-{self.node.name}"
        return [one for one in super().verify() if one.check.startswith(begin)]
