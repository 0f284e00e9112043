"""Small exchanges between two places, by sockets of this thread made in their namespaces: no
process, milliseconds each.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import socket
import struct
import time
from collections.abc import Iterator
from typing import NamedTuple

from cnibench.clusters.lab.namespaces.netns import Namespace

_IP_MTU_DISCOVER, _IPV6_MTU_DISCOVER, _PMTUDISC_DO = 10, 23, 2
_HEADERS = {4: 28, 6: 48}  # IP and UDP
_AF = {4: socket.AF_INET, 6: socket.AF_INET6}


def _socket(ns: Namespace, family: int, kind: int) -> socket.socket:
    with ns.inside():
        sock = socket.socket(_AF[family], kind)
    sock.setblocking(False)
    return sock


def stream(
    client: Namespace,
    server: Namespace,
    target: str,
    family: int,
    size: int,
    limit: float = 3.0,
    *,
    via: tuple[str, int] | None = None,
    port: int = 0,
) -> str:
    """Sends ``size`` bytes over TCP, client to server. '' when all arrived within ``limit``
    seconds, else what went wrong. ``via``: the client connects to that address and port, which
    stand for the server's ``port``.
    """
    end = time.monotonic() + limit
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(_socket(server, family, socket.SOCK_STREAM))
        try:
            if port:  # a workload's: nothing of the probe may stay on it
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((target, port))
            listener.listen(1)
            sender = stack.enter_context(_socket(client, family, socket.SOCK_STREAM))
            sender.connect_ex(via or listener.getsockname())
            if not reached(listener, limit):
                return f"no TCP connection within {limit:g} s"
            receiver = stack.enter_context(listener.accept()[0])
            receiver.setblocking(False)
            if port:
                receiver.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            left_to_send, left_to_get, block = size, size, bytes(65536)
            poll = select.poll()
            poll.register(receiver, select.POLLIN)
            poll.register(sender, select.POLLOUT)
            while left_to_get:
                rest = end - time.monotonic()
                events = dict(poll.poll(rest * 1000)) if rest > 0 else {}
                if not events:
                    return f"{size - left_to_get} of {size} bytes arrived within {limit:g} s"
                if sender.fileno() in events:
                    left_to_send -= sender.send(block[: min(left_to_send, len(block))])
                    if not left_to_send:
                        poll.unregister(sender)
                if receiver.fileno() in events:
                    got = len(receiver.recv(1 << 20))
                    if not got:
                        return "the connection ended early"
                    left_to_get -= got
        except OSError as error:
            return f"{errno.errorcode.get(error.errno or 0, '?')}: {error.strerror}"
    return ""


def connects(client: Namespace, target: str, port: int, family: int, limit: float = 3.0) -> str:
    """Opens a TCP connection to whoever listens there, and resets it. '' when it was made within
    ``limit`` seconds, else what went wrong.
    """
    with _socket(client, family, socket.SOCK_STREAM) as sender:
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sender.connect_ex((target, port))
        poll = select.poll()
        poll.register(sender, select.POLLOUT)
        if not poll.poll(limit * 1000):
            return f"no TCP connection within {limit:g} s"
        code = sender.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        return os.strerror(code) if code else ""


class Datagram(NamedTuple):
    """One that was sent, unless ``refused`` says why not. It has ``until`` on the monotonic clock
    to arrive, ``limit`` s in all.
    """

    receiver: socket.socket
    refused: str
    until: float
    limit: float

    def missing(self) -> str:
        """'' when it arrived, else why not."""
        if self.refused:
            return self.refused
        rest = max(0.0, self.until - time.monotonic())
        return "" if reached(self.receiver, rest) else f"not within {self.limit:g} s"


@contextlib.contextmanager
def sent(
    client: Namespace, server: Namespace, target: str, family: int, packet: int, limit: float
) -> Iterator[Datagram]:
    """One UDP datagram that makes an IP packet of ``packet`` bytes, with DF."""
    with (
        _socket(server, family, socket.SOCK_DGRAM) as receiver,
        _socket(client, family, socket.SOCK_DGRAM) as sender,
    ):
        if family == 4:
            sender.setsockopt(socket.IPPROTO_IP, _IP_MTU_DISCOVER, _PMTUDISC_DO)
        else:
            sender.setsockopt(socket.IPPROTO_IPV6, _IPV6_MTU_DISCOVER, _PMTUDISC_DO)
        refused = ""
        try:
            receiver.bind((target, 0))
            sender.sendto(bytes(packet - _HEADERS[family]), receiver.getsockname())
        except OSError as error:
            refused = f"{errno.errorcode.get(error.errno or 0, '?')}"
        yield Datagram(receiver, refused, time.monotonic() + limit, limit)


def datagram(
    client: Namespace, server: Namespace, target: str, family: int, packet: int, limit: float = 1.0
) -> str:
    """``sent``: '' when it arrived, else why not."""
    with sent(client, server, target, family, packet, limit) as one:
        return one.missing()


@contextlib.contextmanager
def attempt(
    client: Namespace, server: Namespace, target: str, family: int, port: int = 0
) -> Iterator[tuple[socket.socket, socket.socket]]:
    """A TCP connection that is begun and left open: (connecting socket, listening socket);
    ``reached`` says how it went.
    """
    with (
        _socket(server, family, socket.SOCK_STREAM) as listener,
        _socket(client, family, socket.SOCK_STREAM) as sender,
    ):
        listener.bind((target, port))
        listener.listen(1)
        sender.connect_ex(listener.getsockname())
        yield sender, listener


def reached(sock: socket.socket, limit: float) -> bool:
    """Has a connection or a datagram reached the socket within ``limit`` seconds? (poll(2): there
    may be thousands of open files.)
    """
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(limit * 1000))
