"""What the kernel has counted for a load: by connection (sock_diag(7), struct tcp_info of
include/uapi/linux/tcp.h), or by network namespace (/proc/net/snmp, /proc/net/snmp6).

A counter is made inside its Pod's namespace and is read from anywhere afterwards.
"""

from __future__ import annotations

import abc
import errno
import os
import socket
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from cnibench.errors import MeasureError, UnsupportedError

_SOCK_DIAG, _BY_FAMILY, _ERROR, _DONE = 4, 20, 2, 3
_REQUEST, _DUMP = 0x1, 0x300
_INFO, _CONGESTION = 2, 4  # INET_DIAG_INFO, INET_DIAG_CONG
_ESTABLISHED = 1 << 1
# Offsets in struct tcp_info.
_UNACKED, _BYTES_ACKED, _BYTES_RECEIVED, _NOTSENT = 24, 120, 128, 144
_LEAST_INFO = 148  # bytes: a kernel that lacks the last of them is older than 4.6
_LARGEST = 1 << 20

_WANTED = 1 << (_INFO - 1) | 1 << (_CONGESTION - 1)

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


@dataclass(frozen=True)
class _Seen:
    """One connection's counters."""

    acked: int
    received: int
    pending: int
    congestion_control: str


class Connections(Counter):
    """Bytes of the new TCP connections to one port: acknowledged by the peer, or received from it.

    Made in the client's namespace, where other loads may have connections to that port already.
    ``expected`` new ones make it begin.
    """

    def __init__(self, port: int, ip: int, direction: Direction, expected: int) -> None:
        """Raises UnsupportedError when the kernel has no sock_diag."""
        self._direction = direction
        self._port, self._expected = port, expected
        try:
            self._sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG)
        except OSError as error:
            raise UnsupportedError(
                f"this kernel does not report a connection's counters ({error.strerror})",
                "use --method windows, or a kernel with CONFIG_INET_DIAG",
            ) from None
        self._sock.settimeout(2.0)
        family = socket.AF_INET6 if ip == 6 else socket.AF_INET
        try:
            self._family = family
            self._head = struct.pack("=BBBBI", family, socket.IPPROTO_TCP, _WANTED, 0, 0)
            self._others = set(self._dump())
            self._which: tuple[bytes, ...] = ()
        except BaseException:
            self._sock.close()
            raise

    def begin(self) -> None:
        found = [one for one in self._dump() if one not in self._others]
        if len(found) < self._expected:
            raise MeasureError(
                f"{len(found)} of {self._expected} connections to port {self._port} are established"
            )
        self._which = tuple(found)

    def read(self) -> int:
        return sum(
            one.acked if self._direction == "acked" else one.received for one in self._each()
        )

    def congestion_control(self) -> str:
        return ",".join(sorted({one.congestion_control for one in self._each()}))

    def in_flight(self) -> int:
        return sum(one.pending for one in self._each())

    def close(self) -> None:
        self._sock.close()

    def _each(self) -> list[_Seen]:
        found = []
        for number, which in enumerate(self._which, 1):
            head = struct.pack("=IHHII", 72, _BY_FAMILY, _REQUEST, number, 0)
            try:
                self._sock.send(head + self._head + which)
                data = self._sock.recv(_LARGEST)
            except OSError as error:
                raise MeasureError(f"a connection's counters cannot be read: {error}") from None
            (kind,) = struct.unpack_from("=4xH", data)
            if kind == _ERROR:
                (number,) = struct.unpack_from("=i", data, 16)
                gone = -number in (errno.ENOENT, errno.ESTALE)
                raise MeasureError(
                    "its connection has ended" if gone else f"sock_diag: {os.strerror(-number)}"
                )
            found.append(_info(data[16:]))
        return found

    def _dump(self) -> list[bytes]:
        """struct inet_diag_sockid of each established connection to that port."""
        head = struct.pack("=IHHII", 72, _BY_FAMILY, _REQUEST | _DUMP, 0, 0)
        body = struct.pack("=BBBBI", self._family, socket.IPPROTO_TCP, 0, 0, _ESTABLISHED)
        self._sock.send(head + body + bytes(48))
        found: list[bytes] = []
        while True:
            data, at = self._sock.recv(_LARGEST), 0
            while at + 16 <= len(data):
                length, kind = struct.unpack_from("=IH", data, at)
                if kind == _DONE:
                    return found
                if kind == _ERROR:
                    (number,) = struct.unpack_from("=i", data, at + 16)
                    raise UnsupportedError(
                        "this kernel does not list TCP connections:"
                        f" {os.strerror(-number) if number else 'no answer'}",
                        "use --method windows, or a kernel with CONFIG_INET_TCP_DIAG",
                    )
                which = data[at + 20 : at + 68]
                if struct.unpack_from("!H", which, 2)[0] == self._port:
                    found.append(which)
                at += (length + 3) & ~3


def _info(message: bytes) -> _Seen:
    """Out of struct inet_diag_msg and its attributes. Raises UnsupportedError."""
    at, algorithm, info = 72, "", b""
    while at + 4 <= len(message):
        length, kind = struct.unpack_from("=HH", message, at)
        if kind == _INFO and length - 4 >= _LEAST_INFO:
            info = message[at + 4 : at + length]
        elif kind == _CONGESTION:
            algorithm = message[at + 4 : at + length].rstrip(b"\0").decode(errors="replace")
        at += max(4, (length + 3) & ~3)
    if info:
        (acked,) = struct.unpack_from("=Q", info, _BYTES_ACKED)
        (received,) = struct.unpack_from("=Q", info, _BYTES_RECEIVED)
        (unacked,) = struct.unpack_from("=I", info, _UNACKED)
        (unsent,) = struct.unpack_from("=I", info, _NOTSENT)
        return _Seen(acked, received, unacked + unsent, algorithm)
    raise UnsupportedError(
        "this kernel's tcp_info does not have bytes_acked and notsent_bytes",
        "use --method windows, or Linux 4.6 or newer",
    )


class Namespace(Counter):
    """One figure of the IP, TCP or UDP counters of the namespace in which this is made."""

    def __init__(self, group: str, name: str, ip: int = 4) -> None:
        """``group`` and ``name`` as in /proc/net/snmp (``Udp``, ``InDatagrams``); TCP's count both
        families. Raises UnsupportedError.
        """
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
        text = os.pread(self._fd, _LARGEST, 0).decode()
        try:
            return _pairs(text)[self._key] if self._key else _table(text, self._group)[self._name]
        except (KeyError, ValueError):
            raise MeasureError(
                f"the kernel's counters have no {self._group} {self._name}"
            ) from None

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _table(text: str, group: str) -> Mapping[str, int]:
    """A group of /proc/net/snmp: a line of names, then a line of values."""
    lines = [line.split()[1:] for line in text.splitlines() if line.startswith(f"{group}:")]
    names, values = lines if len(lines) == 2 else ([], [])
    return dict(zip(names, map(int, values), strict=True))


def _pairs(text: str) -> Mapping[str, int]:
    """/proc/net/snmp6: one NAME VALUE a line."""
    words: Sequence[list[str]] = [line.split() for line in text.splitlines()]
    return {one[0]: int(one[1]) for one in words if len(one) == 2}
