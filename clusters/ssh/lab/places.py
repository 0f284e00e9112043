"""Nodes and Pods of the lab on a machine: namespaces of the tree there, entered over its
connection.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from cnibench.clusters.kubernetes.connection.gateway import Gateway
from cnibench.errors import CnibenchError, LimitError
from cnibench.system.process import Done, Process
from cnibench.testbed.place import Node, Place, Pod

_LIMIT = 30.0  # s
_LOOK = 0.01  # s
_NET, _SETTINGS = "/proc/net/", "/proc/sys/net/"


class SidePlace(Place):
    """``netns`` is the file of its network namespace there."""

    local = False
    of_lab = False

    def __init__(self, name: str, gateway: Gateway, netns: str) -> None:
        self.name = name
        self.gateway = gateway
        self.netns = netns
        self.python = gateway.there.python  # type: ignore[misc]  # each machine has its own
        self.programs: list[Process] = []  # that were started there
        self._holder: Process | None = None

    @property
    def pid(self) -> int:
        """A process that stays in the namespace. Raises CnibenchError."""
        if self._holder is None:
            self._holder = self.gateway.spawn(self._entering(["sleep", "infinity"]), None, None)
            self._wait_until_inside(self._holder.pid)
        return self._holder.pid

    def _wait_until_inside(self, pid: int) -> None:
        """nsenter(1) is in the machine's namespace until it executes sleep(1)."""
        end = time.monotonic() + _LIMIT
        while self.gateway.read(f"/proc/{pid}/comm").strip() != "sleep":
            if time.monotonic() > end:
                raise LimitError(f"nothing entered {self.netns} within {_LIMIT:.0f} s")
            time.sleep(_LOOK)

    def spawn(
        self, argv: Sequence[str], *, stdout: Path | None = None, stderr: Path | None = None
    ) -> Process:
        self.programs = [one for one in self.programs if one.poll() is None]
        process = self.gateway.spawn(self._entering(argv), stdout, stderr)
        self.programs.append(process)
        return process

    def run(
        self, argv: Sequence[str], *, timeout: float, input: str | None = None, check: bool = True
    ) -> Done:
        return self.gateway.run(self._entering(argv), timeout=timeout, input=input, check=check)

    def read_text(self, path: str) -> str:
        if path.startswith(_NET):
            return self.gateway.read(f"/proc/{self.pid}/net/{path.removeprefix(_NET)}")
        if path.startswith(_SETTINGS):
            return self.run(["cat", path], timeout=_LIMIT).stdout
        return self.gateway.read(path)

    def leave(self) -> None:
        """Ends what keeps the namespace. May be called twice."""
        holder, self._holder = self._holder, None
        if holder is not None:
            try:
                holder.kill()
            except CnibenchError:  # the connection is gone, and all of it with it
                pass

    def _entering(self, argv: Sequence[str]) -> list[str]:
        return ["nsenter", f"--net={self.netns}", "--", *argv]


class SideNode(SidePlace, Node):
    """``wire`` is its device on the NIC."""

    disk = "/"

    def __init__(self, name: str, gateway: Gateway, netns: str, wire: str) -> None:
        super().__init__(name, gateway, netns)
        self.wire = wire


class SidePod(SidePlace, Pod):
    """A Pod on the one node that its machine has."""

    def __init__(
        self, name: str, node: SideNode, netns: str, addresses: Mapping[int, str], interface: str
    ) -> None:
        super().__init__(name, node.gateway, netns)
        self.node: SideNode = node
        self.addresses = addresses
        self.interface = interface
