"""policy-effect's own programs, on loopback: each datagram from another port, and counted where
nobody reads it.
"""

from __future__ import annotations

import math
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cnibench.workloads import policy_effect
from cnibench.workloads._common import sockets


def send(target: str, port: int, first: int, seconds: float) -> subprocess.CompletedProcess[str]:
    argv = [
        sys.executable,
        "-I",
        "-S",
        "-c",
        policy_effect._SEND,
        *policy_effect.sending(target, port, first, seconds),
    ]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True)


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_no_source_port_is_used_twice(address: str) -> None:
    """Beginning near the end of the range, so that it goes on at its start."""
    with socket.socket(
        socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM
    ) as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        one.bind((address, 0))
        first, port = len(policy_effect._SOURCES) - 5, one.getsockname()[1]
        send(address, port, first, 0.3)
        one.setblocking(False)
        sources = []
        try:
            while True:
                sources.append(one.recvfrom(200)[1][1])
        except BlockingIOError:
            pass
    assert 3 < len(sources) == len(set(sources)) <= policy_effect.most(0.3)
    places = [
        (source - policy_effect._SOURCES.start - first) % len(policy_effect._SOURCES)
        for source in sources
    ]
    assert places == sorted(places)
    assert places[0] < len(sources) + 50  # a few may be others' at the time
    assert all(source in policy_effect._SOURCES for source in sources)


def test_the_ports_last_for_a_sample() -> None:
    assert policy_effect.most(0.1) == 501
    assert policy_effect.most(policy_effect._RUNS) < len(policy_effect._SOURCES) / 2
    now = number = 0.0
    while now < 60:  # as the sender reckons
        now += max(policy_effect._GAP, now * policy_effect._SHARE)
        number += 1
    assert number <= policy_effect.most(60) < number + 50
    assert math.isfinite(policy_effect.most(1e6))


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_the_receivers_kernel_counts_what_nobody_reads(address: str) -> None:
    """The column ``drops`` of its own socket: other programs of this machine have UDP, too."""
    with socket.socket(
        socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM
    ) as free:
        free.bind((address, 0))
        port = free.getsockname()[1]
    table = Path(f"/proc/net/udp{'6' if ':' in address else ''}")
    argv = [sys.executable, "-I", "-S", "-c", policy_effect._RECEIVE, address, str(port)]
    with subprocess.Popen(argv) as receiver:
        try:
            end = time.monotonic() + 30
            while not sockets(table.read_text(), port, policy_effect._UNCONNECTED):
                assert receiver.poll() is None
                assert time.monotonic() < end
                time.sleep(0.01)
            send(address, port, 0, 0.3)
            (line,) = [
                line
                for line in table.read_text().splitlines()
                if line.split()[1].endswith(f":{port:04X}")
            ]
            assert 3 < int(line.split()[12]) <= policy_effect.most(0.3)
        finally:
            receiver.kill()


def test_what_cannot_be_sent_is_said_once() -> None:
    """To a broadcast address, which takes an option that the sender's sockets do not have."""
    done = send("255.255.255.255", 5401, 0, 0.05)
    assert len(done.stderr.splitlines()) == 1
