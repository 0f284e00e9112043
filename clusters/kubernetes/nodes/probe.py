"""Small exchanges between two places of a cluster, by Python in their images, and what a node sends
meanwhile.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

from cnibench.clusters.kubernetes.nodes.places import KubernetesNode
from cnibench.errors import ClusterError
from cnibench.system import scratch
from cnibench.testbed.place import Place

PORT = 47011
_LIFE = 120  # s after which what was started ends by itself, whatever became of us
_RUN = 20.0  # s beyond a probe's own limit
_MOST = 5000  # frames of one capture

# Streams are counted to their end and the count is sent back; each datagram is answered by its
# length, or by the time when it asks for that.
_SERVER = """
import select, socket, sys, time
port, life = int(sys.argv[1]), time.time() + float(sys.argv[2])
def bind(kind):
    try:
        sock = socket.socket(socket.AF_INET6, kind)
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        where = "::"
    except OSError:
        sock, where = socket.socket(socket.AF_INET, kind), ""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind((where, port))
    return sock
datagrams, listener = bind(socket.SOCK_DGRAM), bind(socket.SOCK_STREAM)
listener.listen(8)
counts = {}
print("ready", flush=True)
while time.time() < life:
    for sock in select.select([datagrams, listener, *counts], [], [], 1)[0]:
        if sock is datagrams:
            data, source = sock.recvfrom(65536)
            sock.sendto(str(time.time_ns() if data == b"time" else len(data)).encode(), source)
        elif sock is listener:
            counts[sock.accept()[0]] = 0
        else:
            try:
                data = sock.recv(1 << 20)
            except OSError:
                data = b""
            counts[sock] += len(data)
            if not data:
                try:
                    sock.sendall(str(counts[sock]).encode())
                except OSError:
                    pass
                sock.close()
                del counts[sock]
"""
_STREAM = """
import socket, sys, time
target, port, size, limit = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
end = time.time() + limit
try:
    with socket.create_connection((target, port), timeout=limit) as sock:
        left = size
        while left > 0:
            left -= sock.send(bytes(min(left, 65536)))
        sock.shutdown(socket.SHUT_WR)
        sock.settimeout(max(end - time.time(), 0.1))
        got = sock.recv(32).decode()
    print("" if got == str(size) else "%s of %d bytes arrived" % (got or 0, size))
except TimeoutError:
    print("nothing within %g s" % limit)
except OSError as error:
    print(error.strerror or error)
"""
_DATAGRAM = """
import errno, socket, sys
target, port, size, limit = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
six = ":" in target
sock = socket.socket(socket.AF_INET6 if six else socket.AF_INET, socket.SOCK_DGRAM)
sock.setsockopt(socket.IPPROTO_IPV6 if six else socket.IPPROTO_IP, 23 if six else 10, 2)  # IP_MTU_DISCOVER = IP_PMTUDISC_DO
sock.settimeout(limit)
try:
    sock.connect((target, port))
    sock.send(bytes(size))
    print("" if sock.recv(32) == str(size).encode() else "something else came back")
except TimeoutError:
    print("not within %g s" % limit)
except OSError as error:
    print(errno.errorcode.get(error.errno, "?"))
"""  # noqa: E501
# The exchange with the shortest way there and back tells most (RFC 5905, section 8).
_CLOCK = """
import socket, sys, time
sock = socket.socket(socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET, socket.SOCK_DGRAM)
sock.settimeout(1)
best = None
try:
    sock.connect((sys.argv[1], int(sys.argv[2])))
    for _ in range(40):
        then, start = time.time_ns(), time.perf_counter_ns()
        sock.send(b"time")
        there = int(sock.recv(32))
        way = time.perf_counter_ns() - start
        best = min(best or (way, 0), (way, there - then - way // 2))
        time.sleep(0.005)
    print(best[1], best[0])
except OSError as error:
    print(error.strerror or "no answer within 1 s")
"""
# Outgoing frames (after segmentation, as they are on the wire) that name one of the addresses:
# length and the first 256 bytes.
_CAPTURE = """
import os, select, socket, sys, time
device, stop, life, most = sys.argv[1], sys.argv[2], time.time() + float(sys.argv[3]), int(sys.argv[4])
wanted = [socket.inet_pton(socket.AF_INET6 if ":" in item else socket.AF_INET, item) for item in sys.argv[5:]]
sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
sock.setsockopt(socket.SOL_SOCKET, 33, 32 << 20)  # SO_RCVBUFFORCE
sock.bind((device, 3))
print("ready", flush=True)
buffer, last = bytearray(256), False
while time.time() < life and most > 0:
    if not select.select([sock], [], [], 0.05)[0]:
        if last:
            break
        last = os.path.exists(stop)
        continue
    length, address = sock.recvfrom_into(buffer, 256, socket.MSG_TRUNC)
    data = bytes(buffer[: min(length, 256)])
    if address[2] == 4 and any(item in data for item in wanted):
        most -= 1
        print(length, data.hex())
"""  # noqa: E501


@contextlib.contextmanager
def serving(*places: Place, port: int = PORT) -> Iterator[None]:
    """Streams and datagrams to ``port`` are answered in each place. Raises ClusterError when one
    does not begin.
    """
    with contextlib.ExitStack() as stack:
        started = []
        for place in places:
            out, err = (
                stack.enter_context(scratch.nameless()),
                stack.enter_context(scratch.nameless()),
            )
            process = place.spawn(
                ["python3", "-c", _SERVER, str(port), str(_LIFE)], stdout=out, stderr=err
            )
            started.append((place, stack.enter_context(process), out, err))
        for place, process, out, err in started:
            _begun(place.name, out, err, process.poll)
        yield


def stream(client: Place, target: str, size: int, limit: float = 5.0, port: int = PORT) -> str:
    """Sends ``size`` bytes over TCP. '' when all arrived within ``limit`` seconds, else what went
    wrong.
    """
    argv = ["python3", "-c", _STREAM, target, str(port), str(size), str(limit)]
    return client.run(argv, timeout=limit + _RUN).stdout.strip()


def datagram(client: Place, target: str, packet: int, limit: float = 2.0, port: int = PORT) -> str:
    """One UDP datagram that makes an IP packet of ``packet`` bytes, with DF, and its answer. '' or
    what went wrong.
    """
    size = packet - (48 if ":" in target else 28)
    return client.run(
        ["python3", "-c", _DATAGRAM, target, str(port), str(size), str(limit)], timeout=limit + _RUN
    ).stdout.strip()


def clock(client: Place, target: str, port: int = PORT) -> tuple[float, float] | str:
    """(how far the other clock is ahead, in s, how wrong that may be), or why that is not known."""
    said = client.run(["python3", "-c", _CLOCK, target, str(port)], timeout=60).stdout.strip()
    try:
        offset, way = map(int, said.split())
    except ValueError:
        return said
    return offset * 1e-9, way * 0.5e-9


@contextlib.contextmanager
def watching(node: KubernetesNode, *addresses: str) -> Iterator[list[tuple[int, bytes]]]:
    """(length, first 256 bytes) of what leaves the node over its wire with one of the addresses in
    it; complete when the block is left.
    """
    frames: list[tuple[int, bytes]] = []
    with scratch.nameless() as out, scratch.nameless() as err:
        stop = f"/tmp/cnibench-stop-{time.monotonic_ns()}"
        argv = ["python3", "-c", _CAPTURE, node.device, stop, str(_LIFE), str(_MOST), *addresses]
        with node.spawn(argv, stdout=out, stderr=err) as process:
            _begun(f"node {node.name}", out, err, process.poll)
            try:
                yield frames
            finally:
                node.run(["touch", stop], timeout=_RUN)
                process.wait(_RUN)
                node.run(["rm", "-f", stop], timeout=_RUN)
        for line in out.read_text().splitlines()[1:]:
            length, _, data = line.partition(" ")
            frames.append((int(length), bytes.fromhex(data)))


def _begun(where: str, out: Path, err: Path, poll: object) -> None:
    deadline = time.monotonic() + _RUN
    while not out.read_text().startswith("ready"):
        ended = poll() if callable(poll) else None
        if ended is not None or time.monotonic() > deadline:
            said = err.read_text().strip().splitlines()[-1:]
            raise ClusterError(
                f"{where}: a probe did not begin: {' '.join(said) or 'it said nothing'}",
                "is python3 in the image?",
            )
        time.sleep(0.02)
