"""What slices take of this machine, tried before anything is deployed."""

from __future__ import annotations

import os
import socket

from cnibench.errors import CnibenchError, NoSlicesError
from cnibench.run.slices.readings.clocks import Clocks
from cnibench.run.slices.readings.counters import Namespace
from cnibench.run.slices.readings.sock_diag import ESTABLISHED, SockDiag
from cnibench.run.slices.room import require as require_room


def require(cells: int) -> None:
    """Raises NoSlicesError when the load generators of so many cells have no room, or the kernel
    does not count what slices are counted by.
    """
    try:
        require_room(cells)
        Namespace("Tcp", "ActiveOpens").close()
        Clocks([os.getpid()]).close()
        _ask_for_a_connection()
    except CnibenchError as error:
        raise NoSlicesError(error.message, error.remedy) from None


def _ask_for_a_connection() -> None:
    """The counters of a real connection. Raises UnsupportedError, MeasureError. Without a loopback
    interface nothing is asked: the lab has its own.
    """
    try:
        server = socket.create_server(("127.0.0.1", 0))
    except OSError:
        return
    with server:
        port = server.getsockname()[1]
        kernel = SockDiag(port, 4)
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=5):
                kernel.connections(ESTABLISHED)
        finally:
            kernel.close()
