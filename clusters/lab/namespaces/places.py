"""Nodes and Pods of the lab: places where commands run, each a network namespace."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Literal

from cnibench.clusters.lab.namespaces.netns import Namespace
from cnibench.system import process as programs
from cnibench.system.process import Done, Process
from cnibench.testbed.place import Node, Place, Pod

_PLAIN = {"LANG": "C", "LC_ALL": "C"}
Role = Literal[
    "bench", "stranger"
]  # whom the policies of an enforcing profile let in, and whom not


def _canonical(address: str, rest: str = "") -> str:
    """An IPv6 address as RFC 5952 writes it, so that it compares equal to what the kernel and the
    tap say.
    """
    return f"{ipaddress.IPv6Address(address)}{rest}"


class LabPlace(Place):
    """Commands enter the namespace with nsenter; files of /proc/net are read by the calling thread,
    without a process.
    """

    def __init__(self, name: str, ns: Namespace) -> None:
        self.name = name
        self.ns = ns

    def spawn(
        self, argv: Sequence[str], *, stdout: Path | None = None, stderr: Path | None = None
    ) -> Process:
        return programs.spawn(self.ns.enter(argv), stdout=stdout, stderr=stderr, env=_PLAIN)

    def run(
        self, argv: Sequence[str], *, timeout: float, input: str | None = None, check: bool = True
    ) -> Done:
        return self.ns.run(argv, timeout=timeout, input=input, check=check)

    def read_text(self, path: str) -> str:
        return self.ns.read(path)

    def entered(self) -> AbstractContextManager[None]:
        return self.ns.inside()


class LabNode(LabPlace, Node):
    """One of the two nodes. ``number`` is 0 or 1; ``addresses`` are its own on the wire; ``wire``
    its device there.

    ``subnets`` are the prefixes of its Pods, ``gateways`` the first address of each (what a CNI
    gives its bridge).
    """

    def __init__(self, name: str, ns: Namespace, number: int) -> None:
        super().__init__(name, ns)
        self.disk = f"/run/cnibench/disks/{ns.name}"  # the tree's own memory
        self.number = number
        self.wire = "eth0"
        self.addresses: Mapping[int, str] = {
            4: f"192.168.100.{number + 1}",
            6: f"fd00:100::{number + 1}",
        }
        self.subnets: Mapping[int, str] = {
            4: f"10.244.{number}.0/24",
            6: _canonical(f"fd00:10:244:{number}::", "/64"),
        }
        self.gateways: Mapping[int, str] = {
            4: f"10.244.{number}.1",
            6: _canonical(f"fd00:10:244:{number}::1"),
        }


class LabPod(LabPlace, Pod):
    """A Pod. ``number`` counts the Pods of its node from 0; ``host_end`` is the name of its veth
    end on the node.
    """

    def __init__(
        self,
        name: str,
        ns: Namespace,
        node: LabNode,
        number: int,
        role: Role,
        families: Sequence[int],
        interface: str = "eth0",
    ) -> None:
        super().__init__(name, ns)
        self.node: LabNode = node
        self.number = number
        self.role: Role = role
        self.interface = interface
        self.host_end = f"veth{number}"
        v6 = _canonical(f"fd00:10:244:{node.number}::{number + 2:x}")
        plan = {4: f"10.244.{node.number}.{number + 2}", 6: v6} if interface else node.addresses
        self.addresses: Mapping[int, str] = {family: plan[family] for family in families}
