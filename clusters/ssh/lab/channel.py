"""A program on a machine that is talked to over ssh: how a gateway (kubernetes/connection) reaches
the lab's side there.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import cnibench
from cnibench.clusters.kubernetes.connection.opener import There
from cnibench.clusters.ssh.machine import Machine
from cnibench.errors import ClusterError, CnibenchError
from cnibench.system import process as programs
from cnibench.system.carried import RUN
from cnibench.system.process import Errors

_BOOT = Path(cnibench.__file__).parent / "clusters" / "lab" / "remote" / "boot.py"
_END = 15.0  # s that the other end has to remove what it made


@dataclass(frozen=True)
class Nothing:
    """ssh says why it ended on its standard error."""

    message: str = ""


class SshStream:
    """A command of a machine. ``read`` belongs to one thread."""

    status = Nothing()

    def __init__(self, argv: Sequence[str]) -> None:
        """Raises MissingError. The command ends with the thread that starts it."""
        self._errors = Errors()
        self._lock = threading.Lock()
        self._process, self._given, self._answer = programs.converse(argv, self._errors)

    def write(self, data: bytes | memoryview) -> None:
        rest = memoryview(data)
        with self._lock:
            try:
                while rest:
                    rest = rest[self._given.write(rest) :]
            except (OSError, ValueError):
                raise BrokenPipeError from None

    def read(self, size: int) -> bytes:
        return os.read(self._answer.fileno(), size)

    def said(self) -> str:
        try:
            return self._errors.text()
        except ValueError:  # it was closed
            return ""

    def end(self) -> None:
        """Ends its standard input, and with it all of it; waits until it has ended."""
        with self._lock:
            self._given.close()
        try:
            self._process.wait(_END)
        except CnibenchError:
            self._process.kill()

    def close(self) -> None:
        """What it holds goes with this object: ``said`` is asked for once more."""


def there(python: str) -> There:
    """A machine with that interpreter."""
    return There(
        python,
        "see what the machine says: ssh to it, and run python3 there",
        "install it on the machine",
        "is the machine still there? What was made on it for the run is gone; start it again",
        start=120.0,  # cnibench is sent there, unpacked and imported
        tries=1,
    )


class Channel:
    """Opens the lab's side on one machine, once: what it has made is lost with the connection."""

    def __init__(self, machine: Machine, python: str, folder: str, archive: bytes) -> None:
        """``folder`` has the libraries there, '' where ``archive`` brings them."""
        self.dropped: list[str] = []
        self._machine = machine
        self._python = python
        self._folder = folder
        self._archive = archive
        self._started = False

    def start(
        self, namespace: str, pod: str, argv: Sequence[str], *, given: bool, what: str
    ) -> SshStream:
        if self._started:
            why = self.dropped[0] if self.dropped else f"the connection to {what} is lost"
            raise ClusterError(why, there(self._python).lost)
        self._started = True
        boot = [self._python, "-I", "-S", "-u", "-c", RUN, self._folder or "-", *argv]
        stream = SshStream(self._machine.ssh(boot))
        source = _BOOT.read_bytes()
        try:
            stream.write(f"{len(source):08d}".encode() + source + self._archive)
        except BrokenPipeError:
            pass  # it has ended, and says why
        return stream

    def hidden(self, text: str) -> str:
        return text
