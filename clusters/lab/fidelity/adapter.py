"""What an adapter is: it says how one CNI's agent is started on a node, what it needs from the API
server, when it is ready, and by which CNI plugin Pods are made.
"""

from __future__ import annotations

import abc
import contextlib
import http.client
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from cnibench.clusters.lab.builders.base import Datapath
from cnibench.clusters.lab.namespaces.places import LabNode, LabPod
from cnibench.model.profile import Profile

Object = dict[str, Any]  # of Kubernetes
_ANSWER = 5.0  # s


@dataclass(frozen=True)
class Site:
    """A node's side of it: where the agent's files are. ``folder`` is this node's alone."""

    node: LabNode
    folder: Path
    kubeconfig: Path
    program: Path  # the agent's


def healthy(site: Site, port: int, path: str, headers: Mapping[str, str]) -> bool:
    """Does the agent say so at that port of its node?"""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_ANSWER)
    with contextlib.suppress(OSError, http.client.HTTPException), contextlib.closing(connection):
        with site.node.ns.inside():
            connection.connect()
        connection.request("GET", path, headers=dict(headers))
        return connection.getresponse().status == 200
    return False


class Adapter(abc.ABC):
    """One agent. ``model`` is the datapath that the profile has in the lab, not built: its options
    decide how the agent is started.
    """

    name: ClassVar[str]  # of the program
    models: ClassVar[tuple[str, ...]]  # datapath models that this agent makes
    tried: ClassVar[str] = ""  # the versions that the project ran; '': none
    version: ClassVar[tuple[str, ...]] = ("--version",)  # what makes it print its version
    inside: ClassVar[str]  # where its project's image has it
    plugins: ClassVar[tuple[str, ...]] = ()  # CNI plugins that make the Pods
    private: ClassVar[tuple[str, ...]] = ()  # folders below /run of which each node has its own
    definitions: ClassVar[tuple[str, ...]] = ()  # CustomResourceDefinitions that it waits for
    beside: ClassVar[tuple[str, ...]] = ()  # what lies beside the program, in its folder
    runs: ClassVar[Mapping[str, str]] = {}  # programs that it runs: the Debian package that has it
    # Pattern of a rule that leads to a chain whose name is another at each start of the agent: its
    # groups are what the chain is for, and the name.
    chains: ClassVar[str] = ""

    def __init__(self, model: Datapath) -> None:
        self.model = model

    @classmethod
    def unsupported(cls, profile: Profile) -> str:
        """Why the agent cannot make this profile here; '' when it can."""
        return ""

    @classmethod
    def apart(cls, profile: Profile) -> Sequence[str]:
        """What is the same in both, beyond kube-proxy's rules: what ``complete`` makes."""
        return ()

    @classmethod
    def remedy(cls) -> str:
        """What to do when the program ends, or does not get as far as it should."""
        return f"{cls.name} says more when you run it yourself; see docs/fidelity.md"

    def objects(self) -> Sequence[Object]:
        """What the API server needs to have beside nodes and Pods, in this order."""
        return ()

    def annotations(self, node: LabNode) -> Mapping[str, str]:
        """Of a node's object, as its kubelet or operator would have written them."""
        return {}

    def files(self, site: Site) -> Mapping[Path, str]:
        """Configuration files of the agent, with their content."""
        return {}

    @abc.abstractmethod
    def arguments(self, site: Site) -> Sequence[str]:
        """Of the program."""

    def environment(self, site: Site) -> Mapping[str, str]:
        """Variables beside those of cnibench."""
        return {}

    @abc.abstractmethod
    def ready(self, site: Site) -> bool:
        """Has the agent got so far that Pods can be made on this node?"""

    def complete(self, node: LabNode) -> None:
        """Makes on a node that the agent is ready on what other programs make, as the model has
        it.
        """
        return

    def network(self, site: Site, pod: LabPod) -> Mapping[str, Any]:
        """The CNI configuration that the Pod is made with: ``type`` names the plugin."""
        raise NotImplementedError

    def ports(self, pod: LabPod) -> str:
        """The name that the plugin gives the node's end of the Pod's veth pair; '': it draws one,
        and says which.
        """
        return ""
