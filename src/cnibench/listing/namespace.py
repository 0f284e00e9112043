"""What a listing needs of a network namespace."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from cnibench.system.process import Done


class Namespace(Protocol):
    """``sysfs`` is a descriptor of its class/net, once it was asked for, which its owner closes."""

    sysfs: int | None

    def inside(self) -> AbstractContextManager[None]:
        """The calling thread in it."""

    def run(self, argv: Sequence[str], *, timeout: float = 20, check: bool = True) -> Done:
        """A program in it, to its end. Raises ClusterError, MissingError, LimitError."""
