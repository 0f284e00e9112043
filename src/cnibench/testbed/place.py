"""Where commands run: a node or a Pod."""

from __future__ import annotations

import abc
import errno
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import ClassVar

from cnibench.errors import ClusterError, UnsupportedError
from cnibench.system.process import Done, Process

_GONE = tuple(
    os.strerror(number) for number in (errno.ENOENT, errno.ESRCH)
)  # of a file; of a process while its file is read


class Place(abc.ABC):
    """Somewhere commands can run: a Pod, or a node's own network namespace."""

    name: str
    python: ClassVar[str] = sys.executable  # an interpreter there
    local: ClassVar[bool] = True  # are programs there descendants of this process?
    # was it made by the lab? nothing but the load runs there, and its routes name the congestion
    # control
    of_lab: ClassVar[bool] = True

    @abc.abstractmethod
    def spawn(
        self, argv: Sequence[str], *, stdout: Path | None = None, stderr: Path | None = None
    ) -> Process:
        """Starts a program there in the background, its output in files of this machine."""

    @abc.abstractmethod
    def run(
        self, argv: Sequence[str], *, timeout: float, input: str | None = None, check: bool = True
    ) -> Done:
        """Runs a program there to its end. Raises ClusterError when ``check`` and it fails,
        LimitError after ``timeout`` seconds.
        """

    @abc.abstractmethod
    def read_text(self, path: str) -> str:
        """A file as seen there, /proc/net/snmp for instance. Raises ClusterError."""

    def entered(self) -> AbstractContextManager[None]:
        """The calling thread in this place's network namespace: what it opens there stays there.
        Raises UnsupportedError where the place is not on this machine.
        """
        raise UnsupportedError(f"{self.name} is not a network namespace of this machine")

    def read_each(self, paths: Sequence[str]) -> list[str | None]:
        """Files as seen there, None for each that is gone, as those of a process are; in one
        request where each takes its time.

        Raises ClusterError.
        """
        found: list[str | None] = []
        for path in paths:
            try:
                found.append(self.read_text(path))
            except ClusterError as error:
                if not any(f"{words}: " in error.message for words in _GONE):
                    raise
                found.append(None)
        return found


class Node(Place):
    """A node; commands run in its host network namespace. ``disk`` is where they see the root of
    its own files, ``settings`` where they can write its kernel's settings.
    """

    disk: str = ""
    settings: str = "/proc/sys"


class Pod(Place):
    """A Pod; ``addresses`` maps 4 and 6 to its address, ``interface`` is its network device (''
    when it uses its node's).
    """

    node: Node
    addresses: Mapping[int, str]
    interface: str
