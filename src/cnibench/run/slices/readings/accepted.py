"""The congestion control of the connections that a load's server has: where it is the sender, as a
server of HTTP is, only its end decides how fast they are.
"""

from __future__ import annotations

from cnibench.run.slices.readings.sock_diag import ACCEPTED, SockDiag

_SHARE = 0.1  # of the bytes of the busiest connection: with less it is a control connection


class Accepted:
    """Connections to a port of the namespace in which this is made."""

    def __init__(self, port: int, ip: int) -> None:
        """Raises UnsupportedError when the kernel has no sock_diag."""
        self._kernel = SockDiag(port, ip)

    def congestion_control(self) -> str:
        """Of those that carry data just now, several joined by a comma; '' where there are none."""
        found = [
            (one.acked + one.received, one.congestion_control)
            for one in self._kernel.accepted(ACCEPTED)
        ]
        most = max((moved for moved, _ in found), default=0)
        return ",".join(sorted({name for moved, name in found if moved >= _SHARE * most}))

    def close(self) -> None:
        """May be called twice."""
        self._kernel.close()
