"""What the kernel has counted for a load: by connection, or by network namespace (/proc/net/snmp,
/proc/net/snmp6).

A counter is made inside its Pod's namespace and is read from anywhere afterwards.
"""

from __future__ import annotations

import abc
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from cnibench.errors import MeasureError, UnsupportedError
from cnibench.run.slices.readings.sock_diag import ESTABLISHED, OPEN, Connection, SockDiag

_LARGEST = 1 << 20
_CONTROL = 1 << 16  # bytes that a connection of control stays below: parameters and results
_SENT_BYTES = 8  # of the columns of /proc/net/dev

Direction = Literal["acked", "received"]


class Counter(abc.ABC):
    """Counts the work of one load since some moment in the past. Made before the load starts."""

    def begin(self) -> None:
        """Called once the client runs. Raises MeasureError while there is nothing to count yet."""
        return None

    @abc.abstractmethod
    def read(self) -> int:
        """The count now. Raises MeasureError when it cannot be read any more."""

    def congestion_control(self) -> str:
        """Of its connections, as the kernel has it; '' where there is none."""
        return ""

    def in_flight(self) -> int:
        """Bytes or segments that were sent and are not delivered yet; 0 where nobody knows."""
        return 0

    @abc.abstractmethod
    def close(self) -> None:
        """May be called twice."""


class Connections(Counter):
    """Bytes of the new TCP connections to one port: acknowledged by the peer, or received from it.

    Made in the client's namespace, where other loads may have connections to that port already.
    ``expected`` new ones make it begin. ``control`` of them carry next to nothing: a program's own,
    whose congestion control nobody asks for.
    """

    def __init__(
        self, port: int, ip: int, direction: Direction, expected: int, control: int = 0
    ) -> None:
        """Raises UnsupportedError when the kernel has no sock_diag."""
        self._direction = direction
        self._port, self._expected, self._control = port, expected, control
        self._kernel = SockDiag(port, ip)
        try:
            self._others = {one.id for one in self._kernel.connections(ESTABLISHED)}
        except BaseException:
            self._kernel.close()
            raise
        self._which: tuple[bytes, ...] = ()

    def begin(self) -> None:
        found = {one.id for one in self._kernel.connections(ESTABLISHED)} - self._others
        if len(found) < self._expected:
            raise MeasureError(
                f"{len(found)} of {self._expected} connections to port {self._port} are"
                " established",
                "is something between client and server that refuses them?",
            )
        self._which = tuple(found)

    def read(self) -> int:
        return sum(map(self._counted, self._each()))

    def congestion_control(self) -> str:
        """'' until all connections but those of control carry data."""
        each = self._each()
        if self._control:
            each = [one for one in each if self._counted(one) > _CONTROL]
            if len(each) < self._expected - self._control:
                return ""
        return ",".join(sorted({one.congestion_control for one in each}))

    def in_flight(self) -> int:
        return sum(one.pending for one in self._each())

    def close(self) -> None:
        self._kernel.close()

    def _counted(self, one: Connection) -> int:
        return one.acked if self._direction == "acked" else one.received

    def _each(self) -> list[Connection]:
        return [self._kernel.connection(id) for id in self._which]


class Namespace(Counter):
    """One figure of the IP, TCP or UDP counters of the namespace in which this is made."""

    def __init__(self, group: str, name: str, ip: int = 4, less: Sequence[str] = ()) -> None:
        """``group`` and ``name`` as in /proc/net/snmp (``Udp``, ``InDatagrams``); TCP's count both
        families. The figures ``less`` of a TCP group are taken off. Raises UnsupportedError.
        """
        self._less = less
        self._key = f"{group}6{name}" if ip == 6 and group != "Tcp" else ""
        self._group, self._name = group, name
        file = "snmp6" if self._key else "snmp"
        try:
            self._fd = os.open(f"/proc/thread-self/net/{file}", os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise UnsupportedError(
                f"/proc/net/{file}: {error.strerror}", "use --method windows"
            ) from None

    def read(self) -> int:
        try:
            text = os.pread(self._fd, _LARGEST, 0).decode()
            if self._key:
                return _pairs(text)[self._key]
            table = _table(text, self._group)
            return table[self._name] - sum(table[name] for name in self._less)
        except (KeyError, ValueError):
            raise MeasureError(
                f"the kernel's counters have no {self._group} {self._name}", "use --method windows"
            ) from None
        except OSError as error:
            raise MeasureError(
                f"the kernel's counters cannot be read: {error.strerror}", "use --method windows"
            ) from None

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class Opened(Counter):
    """The TCP connections that a namespace's programs have opened (``ActiveOpens``), for loads
    that make a connection for each transaction. Those that were refused (``AttemptFails``) or reset
    (``EstabResets``) were no transaction.
    """

    def __init__(self, port: int, ip: int) -> None:
        """Made in the client's namespace. Raises UnsupportedError."""
        self._kernel = SockDiag(port, ip)
        try:
            self._opened = Namespace("Tcp", "ActiveOpens", less=("AttemptFails", "EstabResets"))
        except BaseException:
            self._kernel.close()
            raise

    def read(self) -> int:
        return self._opened.read()

    def congestion_control(self) -> str:
        """Of the connections that the client has just now; '' between two of them."""
        return ",".join(sorted({one.congestion_control for one in self._kernel.connections(OPEN)}))

    def close(self) -> None:
        self._kernel.close()
        self._opened.close()


class Sent:
    """What a Pod has sent. Made in its namespace."""

    def __init__(self, transport: str, ip: int, interface: str) -> None:
        """Packets of ``transport`` (tcp: segments, as windows count them; udp: datagrams), bytes of
        ``interface``. Raises UnsupportedError.
        """
        self._device = f"{interface}:"
        names = {"tcp": ("Tcp", "OutSegs"), "udp": ("Udp", "OutDatagrams")}
        self._packets = Namespace(*names[transport], ip)
        try:
            self._devices = os.open("/proc/thread-self/net/dev", os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            self._packets.close()
            raise UnsupportedError(
                f"/proc/net/dev: {error.strerror}", "use --method windows"
            ) from None

    def read(self) -> tuple[int, int]:
        """(packets, bytes with link headers) so far; 0 bytes without such an interface. Raises
        MeasureError.
        """
        packets = self._packets.read()
        try:
            lines = os.pread(self._devices, _LARGEST, 0).decode().splitlines()
        except OSError as error:
            raise MeasureError(
                f"the devices' counters cannot be read: {error.strerror}", "use --method windows"
            ) from None
        for line in lines:
            if line.lstrip().startswith(self._device):
                return packets, int(line.partition(":")[2].split()[_SENT_BYTES])
        return packets, 0

    def close(self) -> None:
        self._packets.close()
        if self._devices >= 0:
            os.close(self._devices)
            self._devices = -1


@dataclass(frozen=True)
class Counted:
    """A counter as data: it is made where the Pod is, which may be another machine. ``arguments``
    are those of its class.
    """

    kind: Literal["connections", "namespace", "opened"]
    arguments: tuple[Any, ...]

    def made(self) -> Counter:
        """In the calling thread's network namespace. Raises UnsupportedError."""
        kinds: dict[str, type[Any]] = {
            "connections": Connections,
            "namespace": Namespace,
            "opened": Opened,
        }
        counter: Counter = kinds[self.kind](*self.arguments)
        return counter


def _table(text: str, group: str) -> Mapping[str, int]:
    """A group of /proc/net/snmp: a line of names, then a line of values."""
    lines = [line.split()[1:] for line in text.splitlines() if line.startswith(f"{group}:")]
    names, values = lines if len(lines) == 2 else ([], [])
    return dict(zip(names, map(int, values), strict=True))


def _pairs(text: str) -> Mapping[str, int]:
    """/proc/net/snmp6: one NAME VALUE a line."""
    words: Sequence[list[str]] = [line.split() for line in text.splitlines()]
    return {one[0]: int(one[1]) for one in words if len(one) == 2}
