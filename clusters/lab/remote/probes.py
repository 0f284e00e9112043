"""One end of an exchange between two machines: what waits for it, what sends it, and what of it is
on the wire. By sockets of this program that are made in the namespaces of Pods.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import socket
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from cnibench.clusters.lab.attestation.capture import Packet, Tap
from cnibench.clusters.lab.namespaces import nic_wire
from cnibench.clusters.lab.namespaces.netns import Namespace
from cnibench.clusters.lab.remote.side import Side
from cnibench.errors import ClusterError

_IP_MTU_DISCOVER, _PMTUDISC_DO = 10, 2
_HEADERS = 28  # bytes: IPv4 and UDP
_ACCEPT = 30.0  # s that a receiver lives


def _socket(ns: Namespace, kind: int) -> socket.socket:
    with ns.inside():
        return socket.socket(socket.AF_INET, kind)


class Receiver:
    """Waits for one TCP stream, or for one datagram, at an address of a namespace."""

    def __init__(self, ns: Namespace, address: str, port: int, stream: bool) -> None:
        """Raises ClusterError."""
        self.got = 0  # bytes
        self.accepted = False
        self._sock = _socket(ns, socket.SOCK_STREAM if stream else socket.SOCK_DGRAM)
        try:
            self._sock.bind((address, port))
            if stream:
                self._sock.listen(1)
        except OSError as error:
            self._sock.close()
            raise ClusterError(
                f"{address}:{port} cannot be listened at: {error.strerror}"
            ) from None
        self.port = int(self._sock.getsockname()[1])
        self._sock.setblocking(False)
        self._closed, self._close = os.pipe()  # readable once the latter is closed
        self._waited = threading.Event()  # set when nobody waits at the socket any more
        work = self._stream if stream else self._datagram
        threading.Thread(target=work, daemon=True).start()

    def _comes(self) -> bool:
        """Has a connection or a datagram come before this was closed?"""
        poll = select.poll()
        poll.register(self._sock, select.POLLIN)
        poll.register(self._closed, select.POLLIN)
        try:
            ready = [number for number, _ in poll.poll(_ACCEPT * 1000)]
            return ready == [self._sock.fileno()]
        finally:
            self._waited.set()

    def _stream(self) -> None:
        with contextlib.suppress(OSError):
            if self._comes():
                peer = self._sock.accept()[0]
                self.accepted = True
                with peer:
                    peer.settimeout(_ACCEPT)
                    while data := peer.recv(1 << 20):
                        self.got += len(data)

    def _datagram(self) -> None:
        with contextlib.suppress(OSError):
            if self._comes():
                self.got += len(self._sock.recv(1 << 16))
                self.accepted = True

    def wait(self, size: int, limit: float) -> None:
        """Until ``size`` bytes have come (0: a connection), ``limit`` s at most."""
        end = time.monotonic() + limit
        while (self.got < size or not self.accepted) and time.monotonic() < end:
            time.sleep(0.002)

    def close(self) -> None:
        """The port is free afterwards: a thread that still polls a socket keeps it bound."""
        os.close(self._close)
        self._waited.wait(_ACCEPT)
        self._sock.close()
        os.close(self._closed)


def send_stream(ns: Namespace, target: tuple[str, int], size: int, limit: float) -> str:
    """Sends ``size`` bytes over TCP. '' when all of them were accepted by the other end within
    ``limit`` seconds, else what went wrong.
    """
    with _socket(ns, socket.SOCK_STREAM) as sock:
        sock.settimeout(limit)
        try:
            sock.connect(target)
            sock.sendall(bytes(size))
            sock.shutdown(socket.SHUT_WR)
            poll = select.poll()
            poll.register(sock, select.POLLIN | select.POLLHUP)
            if not poll.poll(limit * 1000):
                return f"the other end did not close within {limit:g} s"
        except TimeoutError:
            return f"no TCP connection within {limit:g} s"
        except OSError as error:
            return _words(error)
    return ""


def send_datagram(ns: Namespace, target: tuple[str, int], packet: int) -> str:
    """One UDP datagram that makes an IP packet of ``packet`` bytes, with DF; '' or why it was not
    sent.
    """
    with _socket(ns, socket.SOCK_DGRAM) as sock:
        sock.setsockopt(socket.IPPROTO_IP, _IP_MTU_DISCOVER, _PMTUDISC_DO)
        try:
            sock.sendto(bytes(packet - _HEADERS), target)
        except OSError as error:
            return _words(error)
    return ""


def _words(error: OSError) -> str:
    number = error.errno or 0
    return f"{errno.errorcode.get(number, '?')}: {os.strerror(number)}"


class Watched:
    """What leaves the machine: through the node's own device, packet for packet as the kernel has
    them, and over the NIC, where they are cut as they are on the wire or handed to the NIC whole.
    """

    def __init__(self, side: Side) -> None:
        """Raises ClusterError."""
        node = side.node
        self._taps = []
        try:
            self._taps.append(Tap(node.ns.inside(), node.wire, node.name))
            self._taps.append(Tap(nic_wire.machine(), side.nic.device, node.name))
        except BaseException:
            self.close()
            raise

    def between(self, ends: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
        """For each pair of innermost addresses: ``packets`` out of the device, ``longest`` frame
        out of the NIC. Ends watching. Raises ClusterError.
        """
        try:
            device, nic = (tap.packets() for tap in self._taps)
        finally:
            self.close()
        return [
            {
                "packets": [asdict(one) for one in _of(device, pair)],
                "longest": max((one.length for one in _of(nic, pair)), default=0),
            }
            for pair in ends
        ]

    def close(self) -> None:
        while self._taps:
            self._taps.pop().close()


def _of(packets: Sequence[Packet], pair: tuple[str, str]) -> list[Packet]:
    return [one for one in packets if (one.source, one.target) == tuple(pair)]
