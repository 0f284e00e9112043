"""The kernel's TCP connections of a network namespace: sock_diag(7), struct inet_diag_msg of
include/uapi/linux/inet_diag.h and struct tcp_info of include/uapi/linux/tcp.h.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from cnibench.errors import MeasureError, UnsupportedError

ESTABLISHED = 1 << 1
LISTEN = 1 << 10
OPEN = ESTABLISHED | 1 << 2 | 1 << 8  # SYN_SENT and CLOSE_WAIT, too: a client's until it closes
# FIN_WAIT1, CLOSE_WAIT and LAST_ACK, too: a server's until all that it sent has arrived
ACCEPTED = ESTABLISHED | 1 << 4 | 1 << 8 | 1 << 9

_SOCK_DIAG, _BY_FAMILY, _ERROR, _DONE = 4, 20, 2, 3
_REQUEST, _DUMP = 0x1, 0x300
_INFO, _CONGESTION = 2, 4  # INET_DIAG_INFO, INET_DIAG_CONG
_WANTED = 1 << (_INFO - 1) | 1 << (_CONGESTION - 1)
_HERE, _PEER = 4, 6  # offsets of the ports in struct inet_diag_msg
# Offsets in struct tcp_info.
_UNACKED, _BYTES_ACKED, _BYTES_RECEIVED, _NOTSENT = 24, 120, 128, 144
_ESTABLISHED = 1  # include/net/tcp_states.h
_LEAST_INFO = 148  # bytes: a kernel that lacks the last of them is older than 4.6
_LARGEST = 1 << 20


@dataclass(frozen=True)
class Connection:
    """What the kernel has of one connection. Bytes that the peer acknowledged, that were received
    from it, and that were sent or queued and not acknowledged yet; ``id`` is struct
    inet_diag_sockid.
    """

    id: bytes
    acked: int
    received: int
    pending: int
    congestion_control: str


class SockDiag:
    """A socket for questions about the TCP sockets of the namespace in which it is made: about
    connections to one port of the other end or of this one, and who listens on it. It works from
    anywhere afterwards.
    """

    def __init__(self, port: int, ip: int) -> None:
        """Raises UnsupportedError when the kernel has no sock_diag."""
        self._port = port
        self._family = socket.AF_INET6 if ip == 6 else socket.AF_INET
        try:
            self._sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG)
        except OSError as error:
            raise UnsupportedError(
                f"this kernel does not report a connection's counters ({error.strerror})",
                "use --method windows, or a kernel with CONFIG_INET_DIAG",
            ) from None
        self._sock.settimeout(2.0)

    def connections(self, states: int) -> list[Connection]:
        """All to the port of the other end, in these states. Raises UnsupportedError,
        MeasureError.
        """
        return self._with_port(states, _PEER)

    def accepted(self, states: int) -> list[Connection]:
        """All to the port here, in these states. Raises UnsupportedError, MeasureError."""
        return self._with_port(states, _HERE)

    def listened(self) -> bool:
        """Does a socket listen on the port here? Raises UnsupportedError, MeasureError."""
        ports = [struct.unpack_from("!H", body, _HERE)[0] for body in self._listed(LISTEN)]
        return self._port in ports

    def connection(self, id: bytes) -> Connection:
        """One of them now. Raises MeasureError when it has ended."""
        self._ask(_REQUEST, 1, 0, id)
        data = self._receive()
        (kind,) = struct.unpack_from("=4xH", data)
        if kind == _ERROR:
            (number,) = struct.unpack_from("=i", data, 16)
            gone = -number in (errno.ENOENT, errno.ESTALE)
            raise _ended() if gone else _unreadable(os.strerror(-number))
        return _connection(data[16:])

    def close(self) -> None:
        """May be called twice."""
        self._sock.close()

    def _with_port(self, states: int, at: int) -> list[Connection]:
        return [
            _connection(body)
            for body in self._listed(states)
            if struct.unpack_from("!H", body, at)[0] == self._port
        ]

    def _ask(self, flags: int, number: int, states: int, id: bytes) -> None:
        head = struct.pack("=IHHII", 72, _BY_FAMILY, flags, number, 0)
        body = struct.pack("=BBBBI", self._family, socket.IPPROTO_TCP, _WANTED, 0, states)
        try:
            self._sock.send(head + body + id)
        except OSError as error:
            raise _unreadable(error.strerror or str(error)) from None

    def _receive(self) -> bytes:
        try:
            return self._sock.recv(_LARGEST)
        except OSError as error:
            raise _unreadable(error.strerror or str(error)) from None

    def _listed(self, states: int) -> Iterator[bytes]:
        self._ask(_REQUEST | _DUMP, 0, states, bytes(48))
        for kind, body in self._answers():
            if kind == _ERROR:
                (number,) = struct.unpack_from("=i", body)
                raise UnsupportedError(
                    "this kernel does not list TCP connections:"
                    f" {os.strerror(-number) if number else 'no answer'}",
                    "use --method windows, or a kernel with CONFIG_INET_TCP_DIAG",
                )
            yield body

    def _answers(self) -> Iterator[tuple[int, bytes]]:
        """The messages of a dump up to its end: type and body."""
        while True:
            data, at = self._receive(), 0
            while at + 16 <= len(data):
                length, kind = struct.unpack_from("=IH", data, at)
                if kind == _DONE:
                    return
                yield kind, data[at + 16 : at + length]
                at += (length + 3) & ~3


def _connection(message: bytes) -> Connection:
    """Out of struct inet_diag_msg and its attributes. Raises MeasureError when the connection has
    ended: the kernel keeps no tcp_info of one that waits for its last packets. UnsupportedError.
    """
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
        return Connection(message[4:52], acked, received, unacked + unsent, algorithm)
    if message[1] != _ESTABLISHED:
        raise _ended()
    raise UnsupportedError(
        "this kernel's tcp_info does not have bytes_acked and notsent_bytes",
        "use --method windows, or Linux 4.6 or newer",
    )


def _ended() -> MeasureError:
    return MeasureError(
        "its connection has ended", "is something between client and server that ends connections?"
    )


def _unreadable(why: str) -> MeasureError:
    return MeasureError(f"a connection's counters cannot be read: {why}", "use --method windows")
