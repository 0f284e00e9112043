"""A deployment of the lab between two machines, each with one half: its Pods and its life."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cnibench.clusters.ssh.lab.places import SideNode, SidePod
from cnibench.clusters.ssh.lab.remote import Remote
from cnibench.errors import ClusterError, CnibenchError
from cnibench.model.cell import Cell, Placement
from cnibench.model.profile import Profile
from cnibench.system.interrupt import cleaning_up
from cnibench.testbed.capabilities.node_devices import NodeDevices
from cnibench.testbed.capabilities.pods.controlled import ControlledPods, Conversation
from cnibench.testbed.cluster import Options
from cnibench.testbed.deployment import Deployment, Fidelity
from cnibench.testbed.place import Node, Pod

_PAIR = {"intra": ("a0", "a1"), "inter": ("a0", "b0")}  # names of Pods


class Pair(Deployment, ControlledPods, NodeDevices):
    """``remotes`` are the two sides, the clients' first; ``tunnels`` the tunnel device on each."""

    def __init__(
        self, label: str, profile: Profile, options: Options, remotes: Sequence[Remote], number: int
    ) -> None:
        """Makes both halves. Raises ClusterError; nothing stays then."""
        assert profile.datapath is not None
        self.label = label
        self.profile = profile
        self.options = options
        self.claim = profile.datapath
        self.fidelity: Fidelity = "baseline" if profile.cni == "none" else "datapath-model"
        self.remotes = tuple(remotes)
        self._nodes: list[SideNode] = []
        self._pods: dict[str, SidePod] = {}
        self._roles: dict[str, str] = {}
        try:
            made = [remote.make(label, profile, number) for remote in self.remotes]
            if made[0]["pods"] != made[1]["pods"]:
                raise ClusterError(f"{label}: the two machines made different Pods")
        except BaseException as error:
            with cleaning_up(error):
                self.remove()
            raise
        one = made[0]
        self.proxy = one["proxy"]
        self.mtu: int = one["mtu"]
        self.path_mtu: int = one["path_mtu"]
        self.tunnels: list[str] = one["tunnels"]
        self.settings: dict[str, Any] = one["settings"]
        self.unheld: list[str] = sorted({said for each in made for said in each["unheld"]})
        for remote, node in zip(self.remotes, one["nodes"], strict=True):
            self._nodes.append(SideNode(remote.name, remote.gateway, node["netns"], node["wire"]))
        for pod in one["pods"]:
            name = pod["name"]
            self._pods[name] = SidePod(
                name, self._nodes[pod["node"]], pod["netns"], {4: pod["address"]}, pod["interface"]
            )
            self._roles[name] = pod["role"]

    def side_of(self, pod: Pod) -> Remote:
        """The side that a Pod is on."""
        return self.remotes[self._nodes.index(self._pods[pod.name].node)]

    def nodes(self) -> tuple[SideNode, ...]:
        return tuple(self._nodes)

    def pair(self, placement: Placement, number: int = 0) -> tuple[SidePod, SidePod]:
        client, server = _PAIR[placement]
        return self._pods[client], self._pods[server]

    def pairs_for(self, cells: Sequence[Cell]) -> list[tuple[SidePod, SidePod]]:
        return [self.pair(cell.placement) for cell in cells]

    def stranger(self, node: Node) -> SidePod:
        """A Pod there that the policies of an enforcing profile do not let in."""
        return next(
            pod
            for name, pod in self._pods.items()
            if pod.node is node and self._roles[name] == "stranger"
        )

    def reset_state(self) -> None:
        if self.broken:
            raise ClusterError(self.broken)
        for remote in self.remotes:
            remote.ask("reset", label=self.label)

    def alive(self) -> str:
        if self.broken:
            return self.broken
        for remote in self.remotes:
            if remote.lost:
                return remote.lost
            try:
                if died := remote.ask("alive", label=self.label)["died"]:
                    return f"node {remote.name}: {died}"
            except CnibenchError as error:
                return error.message
        return ""

    def underlay(self) -> Mapping[str, str]:
        return {node.name: node.wire for node in self._nodes}

    def tunnel_on(self, node: Node, family: int) -> str:
        return self.tunnels[[one.name for one in self._nodes].index(node.name)]

    def controlled(self, pods: Sequence[Pod]) -> list[Pod]:
        return list(pods)

    def process(self, pod: Pod) -> int:
        return self._pods[pod.name].pid

    def started(self, pod: Pod) -> frozenset[int]:
        return frozenset(one.pid for one in self._pods[pod.name].programs if one.poll() is None)

    def converse(self, node: Node, main: str, archive: bytes) -> Conversation:
        number = [one.name for one in self._nodes].index(node.name)
        return self.remotes[number].converse(main, archive)

    def remove(self) -> None:
        failures = []
        for place in (*self._pods.values(), *self._nodes):
            place.leave()
        for remote in self.remotes:
            if remote.opened and not remote.lost:
                try:
                    remote.ask("remove", label=self.label)
                except CnibenchError as error:
                    failures.append(f"{remote.machine.address}: {error.message}")
        if failures:
            raise ClusterError(
                f"{self.label}: not all of it could be removed: {'; '.join(failures)}",
                "it is removed when the connection ends",
            )
