"""What comes over the WebSocket of a command in a container, in pieces of any size."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Iterator

import pytest
from kubernetes import client
from websocket._url import get_proxy_info

from cnibench.clusters.kubernetes.api.exec import Stream, _proxy

LIMIT = 20.0  # s
# As a kubelet (Kubernetes 1.34.4) sends it when a command has ended with 3.
FAILED = {
    "metadata": {},
    "status": "Failure",
    "message": "command terminated with non-zero exit code",
    "reason": "NonZeroExitCode",
    "details": {"causes": [{"reason": "ExitCode", "message": "3"}]},
}


def message(data: bytes, kind: int = 2) -> bytes:
    """As servers send them: not masked."""
    size = len(data)
    if size < 126:
        return struct.pack(">BB", 0x80 | kind, size) + data
    if size < 1 << 16:
        return struct.pack(">BBH", 0x80 | kind, 126, size) + data
    return struct.pack(">BBQ", 0x80 | kind, 127, size) + data


def exactly(end: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        part = end.recv(size - len(found))
        assert part
        found += part
    return found


def sent(end: socket.socket) -> tuple[int, bytes]:
    """(kind, content) of the next message of a client."""
    first, size = exactly(end, 2)
    assert size & 0x80, "messages of clients are masked (RFC 6455, 5.3)"
    size &= 0x7F
    if size == 126:
        (size,) = struct.unpack(">H", exactly(end, 2))
    elif size == 127:
        (size,) = struct.unpack(">Q", exactly(end, 8))
    mask, data = exactly(end, 4), exactly(end, size)
    whole = int.from_bytes((mask * (size // 4 + 1))[:size], "big")
    return first & 0xF, (int.from_bytes(data, "big") ^ whole).to_bytes(size, "big")


@pytest.fixture
def ends() -> Iterator[tuple[Stream, socket.socket]]:
    ours, theirs = socket.socketpair()
    theirs.settimeout(LIMIT)
    stream = Stream(ours)
    yield stream, theirs
    stream.close()
    theirs.close()


def all_of(stream: Stream) -> bytes:
    found = b""
    while part := stream.read(1000):
        found += part
    return found


def test_output_errors_and_the_status_are_told_apart(ends: tuple[Stream, socket.socket]) -> None:
    stream, server = ends
    large = b"x" * 70_000
    text = message(b"\x01" + b"one ") + message(b"\x02bad") + message(b"\x01" + large)
    text += message(b"\x01") + message(b"\x03" + json.dumps(FAILED).encode()) + message(b"", 8)

    def send() -> None:
        for at in range(0, 300):
            server.sendall(text[at : at + 1])
        server.sendall(text[300:])

    sender = threading.Thread(target=send)
    sender.start()
    assert all_of(stream) == b"one " + large
    sender.join()
    assert (stream.said(), stream.code, stream.status.reason) == ("bad", 3, "NonZeroExitCode")


def test_what_is_written_arrives_while_output_comes(ends: tuple[Stream, socket.socket]) -> None:
    """Neither end waits for the other, however much is under way in both directions."""
    stream, server = ends
    given, got = bytes(range(256)) * 8000, bytearray()

    def echo() -> None:
        while len(got) < len(given):
            _, data = sent(server)
            assert data[0] == 0
            got.extend(data[1:])
            server.sendall(message(b"\x01" + data[1:]))
        server.sendall(message(b"\x03" + json.dumps({"status": "Success"}).encode()))
        server.shutdown(socket.SHUT_WR)

    thread = threading.Thread(target=echo)
    thread.start()
    stream.write(given)
    assert all_of(stream) == given == bytes(got)
    thread.join()
    assert stream.code == 0
    with pytest.raises(BrokenPipeError):
        stream.write(b"more")


def test_a_ping_is_answered_and_an_end_is_said(ends: tuple[Stream, socket.socket]) -> None:
    stream, server = ends
    server.sendall(message(b"there?", 9))
    reader = threading.Thread(target=all_of, args=(stream,))
    reader.start()
    assert sent(server) == (10, b"there?")
    stream.end()
    assert sent(server) == (8, struct.pack(">H", 1000))
    reader.join(LIMIT)
    assert not reader.is_alive()


def test_a_connection_that_breaks_has_no_code(ends: tuple[Stream, socket.socket]) -> None:
    stream, server = ends
    server.sendall(message(b"\x01half")[:4])
    server.close()
    assert all_of(stream) == b""
    assert stream.code is None
    assert stream.status.message == "the connection was lost"


@pytest.mark.parametrize(
    ("no_proxy", "through"),
    [
        ("", True),
        ("10.2.0.0/16, example.org", True),
        ("example.org, 10.1.0.0/16", False),
        ("10.1.2.3:6443", False),
    ],
)
def test_a_command_takes_the_way_that_requests_take(no_proxy: str, through: bool) -> None:
    proxy = "http://me:p%40ss@proxy.example.org:3128"
    configuration = client.Configuration("https://10.1.2.3:6443", proxy=proxy, no_proxy=no_proxy)
    given = _proxy(configuration)
    where = (given["http_proxy_host"], given["http_proxy_port"], given["http_proxy_auth"])
    found = get_proxy_info("10.1.2.3", True, *where, given["http_no_proxy"])
    assert found == (("proxy.example.org", 3128, ("me", "p@ss")) if through else (None, 0, None))
