"""One machine: our scripts carried out on it as root."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from cnibench.clusters.ssh.address import Address
from cnibench.clusters.ssh.connection import Connection
from cnibench.clusters.ssh.inspection.report import PORTS, Seen, seen
from cnibench.errors import ClusterError, UnsupportedError
from cnibench.system.process import Done, Process
from cnibench.testbed.place import Node

_SCRIPTS = Path(__file__).parent / "scripts"
_SHARED = ("common.sh", "listing.sh")
# What else a script calls.
_PARTS = {
    "cni": ("claims",),
    "putback": ("ending", "claims", "processes", "devices", "rules", "settings", "files"),
}
# One of these at a time: what a lost connection left running is waited for.
_CHANGING = frozenset(("install", "copy", "image", "kubeadm", "cni", "putback"))
_INSPECT = 60.0  # s
_SILENT = 30  # s after which a run that says nothing is gone
T = TypeVar("T")


def script(name: str) -> str:
    """The text of one of our scripts, with what it shares with others."""
    parts = [f"{one}.sh" for one in _PARTS.get(name, ())]
    alone = ["alone.sh"] if name in _CHANGING else []
    names = [*_SHARED, *parts, *alone, f"{name}.sh"]
    return "\n".join((_SCRIPTS / one).read_text() for one in names)


class Machine:
    """``name`` is a for the client's, b for the server's; ``seen`` is what the last inspection
    found.
    """

    def __init__(self, name: str, address: Address) -> None:
        self.name = name
        self.address = address
        self.connection = Connection(address)
        self._root: bool | None = None
        self.seen: Seen | None = None

    def inspect(self) -> Seen:
        """Looks at the machine; nothing is changed. Raises ClusterError when it cannot be reached,
        or root's rights cannot be had there.
        """
        self.connection.open()
        said = self.run("inspect", self.address.measured, PORTS, timeout=_INSPECT)
        self.seen = seen(said.stdout)
        return self.seen

    def run(
        self, script: str, *words: str, timeout: float, file: Path | None = None, check: bool = True
    ) -> Done:
        """A script of ours, as root. It bears to be repeated. Raises ClusterError, LimitError."""
        return self.connection.run(
            self._command(script, words), timeout=timeout, file=file, check=check
        )

    @property
    def inspected(self) -> Seen:
        """What ``inspect`` found last."""
        assert self.seen is not None
        return self.seen

    def hold(self) -> bool:
        """Marks the machine as in use while the connection lasts, and again when it was renewed;
        False when another run uses it. Raises ClusterError.
        """
        return self.connection.hold(self._command("use", (str(_SILENT),)))

    def ssh(self, argv: Sequence[str]) -> list[str]:
        """The command of this machine that runs a program there as root. Raises ClusterError."""
        return self.connection.argv(f"{self._become()} {shlex.join(argv)}")

    def _command(self, name: str, words: Sequence[str]) -> str:
        arrived = 'CNIBENCH_SSH="$SSH_CONNECTION"'  # sudo passes nothing on
        text = shlex.quote(script(name))
        return f"{self._become()} env {arrived} sh -c {text} cnibench {shlex.join(words)}"

    def _become(self) -> str:
        """sudo, unless the user is root. Raises ClusterError when it asks for a password."""
        if self._root is None:
            asked = self.connection.run(
                """sh -c 'id -u; [ "$(id -u)" = 0 ] || LC_ALL=C sudo -n true'""",
                timeout=_INSPECT,
                check=False,
            )
            self._root = asked.stdout.strip() == "0"
            if not self._root and asked.returncode:
                raise no_root(str(self.address), asked.stderr)
        return "exec" if self._root else "exec sudo -n"


class MachinePlace(Node):
    """A machine as a place where commands run, as root."""

    local = False
    of_lab = False

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.name = machine.name

    def spawn(
        self, argv: Sequence[str], *, stdout: Path | None = None, stderr: Path | None = None
    ) -> Process:
        raise UnsupportedError(f"{self.name}: nothing is measured through ssh itself")

    def run(
        self, argv: Sequence[str], *, timeout: float, input: str | None = None, check: bool = True
    ) -> Done:
        return self.machine.run("exec", *argv, timeout=timeout, check=check)

    def read_text(self, path: str) -> str:
        return self.machine.run("read", path, timeout=_INSPECT).stdout


def no_root(machine: str, said: str) -> ClusterError:
    """Why this user gets no rights of root, by what sudo said."""
    last = said.strip().splitlines()[-1:] or ["sudo failed"]
    why = (
        "sudo asks for a password"
        if "password is required" in said
        else "sudo is not installed"
        if "not found" in said
        else "this user may not use sudo"
    )
    return ClusterError(
        f"{machine}: {why} ({last[0]})",
        "log in as root (ssh://root@...), or let this user: 'USER ALL=(ALL) NOPASSWD: ALL' in"
        " /etc/sudoers.d",
    )


def on_both(machines: Sequence[Machine], what: Callable[[Machine], T]) -> list[T]:
    """On all of them at the same time. Raises what it raised for the first that failed, when all
    have ended.
    """
    with ThreadPoolExecutor(max_workers=len(machines)) as pool:
        return [one.result() for one in [pool.submit(what, machine) for machine in machines]]
