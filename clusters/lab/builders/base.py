"""What a datapath builder is: it makes, from kernel objects, what one CNI in one mode makes on the
nodes and for each Pod.

Each datapath is one module of clusters/lab/datapaths whose ``PROVIDER`` is a subclass (or a tuple
of them); its ``name`` is what a profile's ``datapath.model`` says. Nothing needs undoing that goes
with its namespace.
"""

from __future__ import annotations

import abc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, ClassVar

import yaml
from pydantic import ValidationError

from cnibench.errors import InputError, UnsupportedError, UsageError
from cnibench.model.cell import Attestation
from cnibench.model.conditions import Policies
from cnibench.model.profile import Profile, Strict, explain
from cnibench.registry import provider, providers

if TYPE_CHECKING:
    from cnibench.clusters.lab.deployment import LabDeployment
    from cnibench.clusters.lab.namespaces.netns import Namespace
    from cnibench.clusters.lab.namespaces.places import LabNode, LabPod

_ROOM = "clusters.lab.datapaths"
_BESIDE = ("iptables", "nftables", "ipvs", "ebpf", "none")


class NoOptions(Strict):
    """A builder without options."""


class Datapath(abc.ABC):
    """One profile's datapath.

    ``self.deployment`` gives the nodes, ``self.profile`` what is claimed (``encapsulation``,
    ``overhead``, ``policy``), ``self.options`` the profile's ``datapath.options``, checked against
    ``Options``.
    """

    name: ClassVar[str]  # of the model
    Options: ClassVar[type[Strict]] = NoOptions
    needs: ClassVar[
        tuple[str, ...]
    ] = ()  # keys of kernel.FEATURES that this model needs, whatever the profile
    programs: ClassVar[
        Mapping[str, str]
    ] = {}  # what the model runs on the nodes, by name or path: the Debian package that has it
    super_packets: ClassVar[bool] = True  # False: Pods' own devices cut TCP into packets of the MTU
    beside_kube_proxy: ClassVar[bool] = False  # does the CNI leave Services to kube-proxy?
    # Can its two nodes be on two machines? Then it makes the same on both from the same Pods, draws
    # nothing at random, and is attested by packets alone.
    between_machines: ClassVar[bool] = False
    sandbox: ClassVar[bool] = True  # False: Pods are the nodes' own namespaces

    @classmethod
    def proxies(cls, options: Any) -> tuple[str, ...]:
        """How Services may be implemented beside a model with these options (modules of
        clusters/lab/proxies), the usual way first.
        """
        return _BESIDE if cls.beside_kube_proxy else ("none",)

    @classmethod
    def no_services(cls, options: Any, proxy: str) -> str:
        """Why Pods cannot reach Services through it; '' when they can."""
        return "nothing implements Services in its model" if proxy == "none" else ""

    def __init__(self, deployment: LabDeployment, options: Any) -> None:
        self.deployment = deployment
        self.profile = deployment.profile
        self.options = options

    @property
    def tunnel(self) -> str:
        """The name of the tunnel device on both nodes, '' when there is none."""
        return ""

    def tunnel_on(self, node: LabNode, family: int) -> str:
        """The tunnel device that a node's Pod packets of one family leave through, where it differs
        by node or family.
        """
        return self.tunnel

    @abc.abstractmethod
    def build(self) -> None:
        """The nodes' part: bridges, tunnel devices, routes between nodes, base rules. Raises
        ClusterError.
        """

    @abc.abstractmethod
    def connect(self, pod: LabPod) -> Iterator[str]:
        """One Pod's part, as the CNI's ADD does it: a generator that yields the name of each step
        *after* it is done.

        Usual names: ``link``, ``address``, ``routes``, ``policy``. Time is taken between the
        yields. Raises ClusterError.
        """

    def batch(self) -> AbstractContextManager[None]:
        """Around several ``connect`` at once: what a daemon writes for all Pods of a node is loaded
        once, when the block is left.
        """
        return nullcontext()

    def disconnect(self, pod: LabPod) -> None:  # noqa: B027 - most builders have nothing to undo
        """Undoes what of ``connect`` does not go with the Pod's namespace: its rules, routes, map
        entries.
        """

    def remove(self) -> None:  # noqa: B027
        """Undoes what does not go with the nodes' namespaces: processes, pinned maps."""

    def reset_state(self) -> None:  # noqa: B027
        """Called between cells: forgets the connections that the datapath itself keeps (tables of
        eBPF programs).
        """

    def alive(self) -> str:
        """'' while every process that the datapath needs runs, else which one died."""
        return ""

    def namespaces(self) -> Mapping[str, Namespace]:
        """Namespaces of its own beside those of nodes and Pods, by name: they are attested, too."""
        return {}

    def policies(self, asked: Policies | None) -> float:
        """Puts these policy entries beside the profile's own on both nodes, in place of earlier
        ones (None: none); the seconds it took.

        Raises UnsupportedError, ClusterError.
        """
        if asked is None:
            return 0.0
        raise UnsupportedError(
            f"{self.deployment.label}: its datapath has no packet filter to put policies in"
        )

    def policies_found(self) -> Mapping[str, int]:
        """Entries of ``policies`` that the kernel has, read back: place (node, or node and family)
        to their number.
        """
        return {}

    def policies_expected(self, asked: Policies | None) -> int:
        """What ``policies_found`` says in each place when all of ``asked`` is there."""
        return 0

    def deny(self, port: int | None) -> None:
        """Denies UDP to that port of every Pod from now on; None: no longer. Raises
        UnsupportedError, ClusterError.
        """
        if port is not None:
            raise UnsupportedError(
                f"{self.deployment.label}: its datapath has no packet filter to put a policy in"
            )

    def underlay_features(self, node: LabNode) -> dict[str, bool]:
        """Offload features (kernel names) that this profile itself sets on the node's device on the
        wire, after the wire's own model.
        """
        return {}

    def on_wire(self, pod: LabPod, family: int, *, opener: bool, source: bool) -> str:
        """The address that stands for a Pod in the innermost packet on the wire, where a datapath
        rewrites it: masqueraded, or translated to a locator.

        ``opener``: did this Pod open the connection? ``source``: is it the packet's sender?
        """
        return pod.addresses[family]

    def checks(self) -> Sequence[Attestation]:
        """Attestations that only this datapath has, beyond those of attestation/; use
        ``self.deployment.attestation(...)`` to make each.
        """
        return ()


def builders() -> dict[str, type[Datapath]]:
    """Model name to builder."""
    return providers(_ROOM)


def builder_of(
    profile: Profile, settings: Mapping[str, str] | None = None
) -> tuple[type[Datapath], Strict]:
    """The builder of a profile's datapath and its checked options, ``settings`` (``--set
    KEY=VALUE``) over them. Raises InputError.
    """
    if profile.datapath is None:
        raise InputError(
            f"{profile.name} has no datapath model for the lab",
            "use --cluster kind or existing for it",
        )
    try:
        found: type[Datapath] = provider(_ROOM, profile.datapath.model)
    except UsageError:
        raise InputError(
            f"{profile.name}: datapath.model: there is no '{profile.datapath.model}'",
            f"there are: {', '.join(sorted(builders()))}",
        ) from None
    try:
        changed = {key: yaml.safe_load(value) for key, value in (settings or {}).items()}
        return found, found.Options.model_validate({**profile.datapath.options, **changed})
    except yaml.YAMLError:
        raise InputError(
            f"{profile.name}: a value of --set cannot be read",
            "write a plain number, word, true or false",
        ) from None
    except ValidationError as error:
        said = explain(f"{profile.name}: datapath.options", error)
        raise InputError(
            said.message, f"its options are: {', '.join(found.Options.model_fields) or 'none'}"
        ) from None
