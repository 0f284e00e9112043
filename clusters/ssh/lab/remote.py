"""The lab's side on one machine: opened, asked, closed."""

from __future__ import annotations

from typing import Any

from cnibench.clusters.kubernetes.connection.gateway import Gateway
from cnibench.clusters.kubernetes.nodes.conversation import ProgramConversation
from cnibench.clusters.ssh.lab import payload
from cnibench.clusters.ssh.lab.channel import Channel, there
from cnibench.clusters.ssh.machine import Machine
from cnibench.errors import ClusterError
from cnibench.model.profile import Profile
from cnibench.system import carried

_ASK = 120.0  # s: a deployment is made
# Runs the module that its argument names, of the folders that clusters/lab/remote/boot.py found.
_MAIN = (
    "import os, runpy, sys; sys.path[:0] = os.environ['CNIBENCH_PATHS'].split(os.pathsep);"
    " runpy.run_module(sys.argv[1], run_name='__main__')"
)
_PROGRAM = "cnibench.clusters.lab.remote.program"


class Remote:
    """``own`` is 0 on the clients' machine and 1 on the servers'; ``device`` is its NIC."""

    def __init__(self, machine: Machine, own: int, device: str) -> None:
        self.machine = machine
        self.own = own
        self.device = device
        self.name = "ab"[own]
        self.features: dict[str, bool] = {}  # of the NIC
        self.absent: list[str] = []  # programs of workloads
        self._gateway: Gateway | None = None
        self._program: ProgramConversation | None = None
        self._others: dict[str, ProgramConversation] = {}

    @property
    def gateway(self) -> Gateway:
        assert self._gateway is not None
        return self._gateway

    def open(self, python: payload.Interpreter, run: str, options: dict[str, Any]) -> None:
        """From here on it has a tree of namespaces there. Call it in the main thread: what it
        starts ends with its thread. Raises ClusterError.
        """
        archive = payload.archive(libraries=not python.folder)
        channel = Channel(self.machine, python.path, python.folder, archive)
        what = f"the lab on {self.machine.address}"
        self._gateway = Gateway(channel, "", "", what, there(python.path))
        try:
            self._gateway.open()
        except ClusterError:
            said = next(iter(channel.dropped), "").partition(" is lost: ")[2]
            if not said:
                raise
            raise ClusterError(
                f"{self.machine.address}: {said}", "wait for its end, or see what the machine says"
            ) from None
        argv = [python.path, "-I", "-S", "-u", "-c", _MAIN, _PROGRAM]
        self._program = ProgramConversation(self.name, self._gateway, argv)
        self.ask("begin", own=self.own, device=self.device, run=run, options=options)

    @property
    def opened(self) -> bool:
        return self._program is not None

    @property
    def lost(self) -> str:
        """Why it is gone, '' while it is there."""
        if self._program is not None and self._program.ended:
            dropped = self.gateway.access.dropped
            return dropped[0] if dropped else f"the lab on {self.machine.address} has ended"
        return ""

    def ask(self, do: str, **request: Any) -> dict[str, Any]:
        """Raises what it raised there, ClusterError, LimitError."""
        assert self._program is not None
        return self._program.ask({"do": do, **request}, _ASK)

    def check(self, profile: Profile, settings: dict[str, str]) -> list[dict[str, str]]:
        found: list[dict[str, str]] = self.ask("check", profile=_plain(profile), settings=settings)[
            "problems"
        ]
        return found

    def make(self, label: str, profile: Profile, number: int) -> dict[str, Any]:
        """Its half of a deployment."""
        return self.ask("make", label=label, profile=_plain(profile), deployment=number)

    def converse(self, main: str, archive: bytes) -> ProgramConversation:
        """A program of cnibench's there, one for all deployments: what is driven in turns is driven
        by one.
        """
        known = self._others.get(main)
        if known is None or known.ended:
            argv = carried.command(self.gateway.there.python, main)
            known = ProgramConversation(self.name, self.gateway, argv, archive)
            self._others[main] = known
        return known

    def close(self) -> None:
        """Everything there ends, and is gone when this returns. May be called twice."""
        gateway, self._gateway, self._program = self._gateway, None, None
        self._others.clear()
        if gateway is not None:
            gateway.close()


def _plain(profile: Profile) -> dict[str, Any]:
    return profile.model_dump(mode="json", by_alias=True)
