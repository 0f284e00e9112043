"""One command in a container over a WebSocket of its own: what it is given and what it prints are
binary messages that begin with the number of a channel (v5.channel.k8s.io, v4 on servers before
Kubernetes 1.30).
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import ssl
import struct
import threading
from collections import deque
from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote, urlencode, urlsplit

from cnibench.clusters.kubernetes.api.client import (
    UNREACHABLE,
    Answer,
    Api,
    UnusableError,
    answered,
)

_PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_STDIN, _STDOUT, _STDERR, _ERROR = range(4)
_BINARY, _TEXT, _CLOSE, _PING, _PONG = 0x2, 0x1, 0x8, 0x9, 0xA  # RFC 6455, 5.2
_CONNECTING = 10.0  # s
_PART = 1 << 18  # bytes that are read at once
_MESSAGE = 1 << 16  # bytes of a message that we send
_MOST_SAID = 1 << 16  # bytes of stderr that are kept


class RefusedError(Exception):
    """The API server or the node does not run the command."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.message or answer.reason)
        self.answer = answer


class Stream:
    """A running command. ``read`` and ``wait`` belong to one thread, which moves all bytes; every
    other method may be called by any.
    """

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(0.0)
        self._socket = connection
        self._outgoing: deque[memoryview] = deque()
        self._lock = threading.Lock()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._data = bytearray()  # frames that are not whole yet
        self._output = bytearray()
        self._said = bytearray()
        self._ended = False
        self._closed = False
        self.status = Answer(0, reason=UNREACHABLE, message="the connection was lost")

    def write(self, data: bytes | memoryview) -> None:
        """To its standard input. Raises BrokenPipeError when the connection has ended."""
        view = memoryview(data)
        with self._lock:
            if self._ended or self._closed:
                raise BrokenPipeError
            for first in range(0, len(view), _MESSAGE):
                part = bytes((_STDIN,)) + view[first : first + _MESSAGE]
                self._outgoing.append(memoryview(_frame(part, _BINARY)))
            os.eventfd_write(self._wake, 1)

    def read(self, size: int) -> bytes:
        """At most so many bytes of its standard output, b'' at its end."""
        while not self._output and not self._ended:
            self._move()
        data = bytes(self._output[:size])
        del self._output[:size]
        return data

    def said(self) -> str:
        """What it printed to its standard error, as far as it has come."""
        return self._said.decode(errors="replace")

    @property
    def code(self) -> int | None:
        """With which code the command has ended; None when that is not known."""
        if self.status.body.get("status") == "Success":
            return 0
        for one in (self.status.body.get("details") or {}).get("causes") or ():
            if one.get("reason") == "ExitCode":
                return int(one["message"])
        return None

    def end(self) -> None:
        """Ends the connection; ``read`` returns what has come, and then b''. May be called
        twice."""
        with self._lock:
            if not self._closed:
                self._closed = True
                os.eventfd_write(self._wake, 1)

    def close(self) -> None:
        """Frees the descriptors, after the reading thread has come to the end."""
        self.end()
        with self._lock:
            self._ended = True
            with contextlib.suppress(OSError):
                self._socket.close()
            if self._wake >= 0:
                os.close(self._wake)
                self._wake = -1

    def _move(self) -> None:
        """Waits until something can be read or written, and does it."""
        try:
            with self._lock:
                waiting, closed = bool(self._outgoing), self._closed
            if closed:
                self._farewell()
                return
            poll = select.poll()
            poll.register(self._socket, select.POLLIN | (select.POLLOUT if waiting else 0))
            poll.register(self._wake, select.POLLIN)
            poll.poll()
            with contextlib.suppress(BlockingIOError):
                os.eventfd_read(self._wake)
            self._send()
            self._receive()
        except (OSError, ValueError, struct.error):
            self._ended = True

    def _farewell(self) -> None:
        self._ended = True
        with contextlib.suppress(OSError):
            self._socket.settimeout(1.0)
            self._socket.sendall(_frame(struct.pack(">H", 1000), _CLOSE))
            self._socket.shutdown(socket.SHUT_RDWR)

    def _send(self) -> None:
        while True:
            with self._lock:
                if not self._outgoing:
                    return
                first = self._outgoing[0]
            try:
                sent = self._socket.send(first)
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return
            with self._lock:
                if sent == len(first):
                    self._outgoing.popleft()
                else:
                    self._outgoing[0] = first[sent:]

    def _receive(self) -> None:
        while not self._ended:
            try:
                data = self._socket.recv(_PART)
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return
            if not data:
                self._ended = True
            self._data += data
            self._take()

    def _take(self) -> None:
        """All whole frames."""
        at = 0
        while len(self._data) - at >= 2:
            kind, size, begin = self._data[at] & 0xF, self._data[at + 1] & 0x7F, at + 2
            if size >= 126:
                width = 2 if size == 126 else 8
                if len(self._data) < begin + width:
                    break
                size = int.from_bytes(self._data[begin : begin + width], "big")
                begin += width
            if len(self._data) < begin + size:
                break
            self._message(kind, self._data[begin : begin + size])
            at = begin + size
        del self._data[:at]

    def _message(self, kind: int, data: bytearray) -> None:
        if kind == _CLOSE:
            self._ended = True
        elif kind == _PING:
            with self._lock:
                self._outgoing.append(memoryview(_frame(bytes(data), _PONG)))
        elif kind not in (_BINARY, _TEXT, 0) or not data:
            return
        elif data[0] == _STDOUT:
            self._output += memoryview(data)[1:]
        elif data[0] == _STDERR:
            self._said += memoryview(data)[1 : 1 + max(0, _MOST_SAID - len(self._said))]
        elif data[0] == _ERROR:
            with contextlib.suppress(ValueError):
                body = json.loads(data[1:])
                reason, message = str(body.get("reason") or ""), str(body.get("message") or "")
                self.status = Answer(int(body.get("code") or 0), body, reason, message)


def run(
    api: Api, namespace: str, pod: str, argv: Sequence[str], *, container: str = "", given: bool
) -> Stream:
    """Starts it; ``given``: it has a standard input. Raises RefusedError."""
    from websocket import WebSocket, WebSocketBadStatusException, WebSocketException

    asked = [("stdout", "true"), ("stderr", "true"), *(("command", word) for word in argv)]
    asked += [("stdin", "true")] if given else []
    asked += [("container", container)] if container else []
    path = f"/api/v1/namespaces/{namespace}/pods/{pod}/exec?{urlencode(asked)}"
    try:
        configuration = api.configuration
        made = WebSocket(sslopt=_tls(configuration))
        made.connect(
            "ws" + configuration.host.removeprefix("http") + path,
            header=[f"{key}: {value}" for key, value in api.headers().items()],
            subprotocols=list(_PROTOCOLS),
            timeout=_CONNECTING,
            suppress_origin=True,
            **_proxy(configuration),
        )
    except WebSocketBadStatusException as error:
        raise RefusedError(answered(error.status_code, error.resp_body or b"")) from None
    except (UnusableError, OSError, ValueError, WebSocketException) as error:
        raise RefusedError(Answer(0, reason=UNREACHABLE, message=str(error))) from None
    assert made.sock is not None
    return Stream(made.sock)


def _frame(data: bytes, kind: int) -> bytes:
    """Masked, as clients send them."""
    from websocket import ABNF

    return bytes(ABNF.create_frame(data, kind).format())


def _tls(configuration: Any) -> dict[str, Any]:
    """As the client's own connections are checked."""
    found: dict[str, Any] = {"cert_reqs": ssl.CERT_NONE}
    if configuration.verify_ssl:
        found = {"cert_reqs": ssl.CERT_REQUIRED}
        if configuration.ssl_ca_cert:
            found["ca_certs"] = configuration.ssl_ca_cert
    else:
        found["check_hostname"] = False
    for key, value in (
        ("certfile", configuration.cert_file),
        ("keyfile", configuration.key_file),
        ("server_hostname", configuration.tls_server_name),
    ):
        if value:
            found[key] = value
    return found


def _proxy(configuration: Any) -> dict[str, Any]:
    """The way that the client's own connections take."""
    from kubernetes.client.rest import should_bypass_proxies

    if not configuration.proxy:
        return {}
    direct = should_bypass_proxies(configuration.host, configuration.no_proxy or "")
    proxy = urlsplit(configuration.proxy)
    found: dict[str, Any] = {
        "proxy_type": proxy.scheme if proxy.scheme.startswith("socks") else "http",
        "http_proxy_host": proxy.hostname,
        "http_proxy_port": proxy.port or 80,
        "http_no_proxy": ["*" if direct else ""],
    }
    if proxy.username:
        found["http_proxy_auth"] = (unquote(proxy.username), unquote(proxy.password or ""))
    return found
