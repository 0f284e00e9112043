"""Services that are made, or get another endpoint, while somebody tries to reach them."""

from __future__ import annotations

import abc
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Literal

from cnibench.model.cell import Cell
from cnibench.testbed.capability import Capability
from cnibench.testbed.place import Pod

Change = Literal["service", "endpoint"]


@dataclass(frozen=True)
class Coming:
    """A change that is prepared: ``make`` writes it, after which the server answers at
    ``address``, ``port``. It may return before that is so.
    """

    address: str
    port: int
    make: Callable[[], None]


class ServiceChanges(Capability):
    """Leads a Service to a server that it did not lead to before."""

    title = "Services that change"

    @abc.abstractmethod
    def service_change(
        self, cell: Cell, server: Pod, port: int, change: Change
    ) -> AbstractContextManager[Coming]:
        """A Service of its own for the server's ``port``, to be made (``service``), or there
        already before an endpoint that nobody has, which the server takes the place of
        (``endpoint``). It is gone at the block's end. Raises UnsupportedError, ClusterError.
        """
