"""What makes a connection to where our runner is to be: the API server's exec, or another way to
start a program and talk to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


class Outcome(Protocol):
    """How a connection has ended, in words."""

    @property
    def message(self) -> str: ...


class Stream(Protocol):
    """A running command. ``read`` belongs to one thread."""

    @property
    def status(self) -> Outcome: ...

    def write(self, data: bytes | memoryview) -> None:
        """To its standard input. Raises BrokenPipeError when the connection has ended."""

    def read(self, size: int) -> bytes:
        """At most so many bytes of its standard output, b'' at its end."""

    def said(self) -> str:
        """What it printed to its standard error, as far as it has come."""

    def end(self) -> None:
        """Ends the connection. May be called twice."""

    def close(self) -> None:
        """Frees what it holds, after the reading thread has come to the end."""


class Opener(Protocol):
    """``dropped`` names the connections that were lost."""

    dropped: list[str]

    def start(
        self, namespace: str, pod: str, argv: Sequence[str], *, given: bool, what: str
    ) -> Stream:
        """Starts a command; ``given``: with a standard input. Raises ClusterError."""

    def hidden(self, text: str) -> str:
        """``text`` without anything secret."""


@dataclass(frozen=True)
class There:
    """The other end: its interpreter, and remedies: where nothing can be run, where a program is
    not there, where the connection is gone. ``start`` is how many seconds it has to begin,
    ``tries`` how often that is tried.
    """

    python: str
    no_command: str
    no_program: str
    lost: str
    start: float = 30.0
    tries: int = 3


POD = There(
    "python3",
    "does its image have python3?",
    "use the images of 'cnibench images build'",
    "is the Pod still there? kubectl get pods",
)
