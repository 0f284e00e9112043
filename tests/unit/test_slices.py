"""Rounds of slices as pure functions, and the kernel's counters on a real connection."""

from __future__ import annotations

import contextlib
import math
import os
import random
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from cnibench.errors import MeasureError
from cnibench.run.slices import rounds
from cnibench.run.slices.readings.clocks import Clocks, Modes, descendants
from cnibench.run.slices.readings.counters import Connections, Namespace, Opened
from cnibench.run.slices.readings.machine import Machine, Spent
from cnibench.run.slices.rounds import disturbed, modes, values
from cnibench.run.slices.slice import Slice, order
from cnibench.stats.robust import trimmed
from tests.unit._slices import slice_of

CELLS = ["a", "b", "c", "d"]


def drifting(rates: dict[str, float], number: int, noise: float, seed: int) -> list[Slice]:
    """Slices of cells whose machine gets slower by half over the rounds."""
    dice = random.Random(seed)
    return [
        slice_of(cell, r, rate * (1 - 0.5 * r / number) * math.exp(dice.gauss(0, noise)))
        for r in range(number)
        for cell, rate in rates.items()
    ]


def test_order_is_a_permutation_that_the_seed_gives() -> None:
    orders = [order(CELLS, r, 0, 7) for r in range(200)]
    assert all(sorted(one) == CELLS for one in orders)
    assert orders == [order(CELLS, r, 0, 7) for r in range(200)]
    assert order(CELLS, 0, 0, 7) == ["d", "c", "a", "b"]  # on every machine
    first = [one[0] for one in orders]
    assert all(25 <= first.count(cell) <= 75 for cell in CELLS)
    assert orders != [order(CELLS, r, 1, 7) for r in range(200)]


def test_ratios_are_those_of_the_rounds_and_drift_does_not_enter() -> None:
    found = values([["a", "b"]], drifting({"a": 1000.0, "b": 900.0}, 40, 0.01, 3))
    assert found["a"].rate / found["b"].rate == pytest.approx(1000 / 900, rel=0.008)
    assert 600 < found["a"].rate < 800  # the mean of what was measured, not of its beginning
    assert found["a"].half < 0.01
    assert found["a"].rounds == 40
    assert found["a"].left_out == 0


def test_a_value_alone_is_the_mean_of_its_rates() -> None:
    found = values([["a"]], [slice_of("a", r, 500.0) for r in range(10)])
    assert found["a"].rate == pytest.approx(500.0)
    assert found["a"].cpu == pytest.approx(0.016 / (500.0 * 0.02))
    assert found["a"].seconds == pytest.approx(0.2)


def test_a_value_alone_has_the_interval_of_its_own_slices() -> None:
    """No other cell shows what a round did to it: nothing is taken off its rates."""
    slices = drifting({"a": 1000.0}, 40, 0.05, 3)
    alone = values([["a"]], slices)["a"]
    assert alone.half == trimmed([math.log(one.rate) for one in slices])[1] > 0.05
    half_of_it = [*slices, *(slice_of("b", r, 900.0) for r in range(20))]
    assert values([["a", "b"]], half_of_it)["a"].half > 0.01


def test_a_few_bad_slices_do_not_move_the_ratio() -> None:
    slices = drifting({"a": 1000.0, "b": 900.0}, 40, 0.01, 5)
    good = values([["a", "b"]], slices)
    spoilt = [
        replace(one, units=one.units * 0.1) if one.cell == "a" and one.round % 8 == 0 else one
        for one in slices
    ]
    found = values([["a", "b"]], spoilt)
    assert found["a"].rate / found["b"].rate == pytest.approx(
        good["a"].rate / good["b"].rate, rel=0.005
    )


def test_disturbed_slices_are_marked_and_left_out() -> None:
    calm = [slice_of("a", r, 100.0, waited=0.001) for r in range(10)]
    assert disturbed(calm) == [False] * 10
    waits, late, nothing = (
        replace(calm[0], waited=0.009),
        replace(calm[0], seconds=0.04),
        replace(calm[0], units=0.0),
    )
    assert disturbed([*calm, waits, late, nothing]) == [False] * 10 + [True] * 3
    found = values([["a"]], [*calm, replace(waits, round=10), replace(nothing, round=11)])
    assert found["a"].left_out == 2
    assert found["a"].rate == pytest.approx(100.0)
    usually = [slice_of("a", r, 100.0, waited=0.012) for r in range(10)]
    assert disturbed(usually) == [False] * 10  # client and server on one CPU wait for each other


def test_cpu_time_has_that_of_programs_that_forward_packets() -> None:
    one = slice_of("a", 0, 1000.0, daemons=0.016)
    assert one.cpu == pytest.approx(2 * slice_of("a", 0, 1000.0).cpu)


def test_too_few_good_slices_make_no_value() -> None:
    assert values([["a"]], [slice_of("a", r, 100.0) for r in range(rounds.FEWEST - 1)]) == {}
    assert values([["a"]], []) == {}


def test_the_interval_covers_the_truth_as_often_as_it_says() -> None:
    def covers(seed: int) -> bool:
        dice = random.Random(seed)
        mean, half = trimmed([dice.gauss(0.0, 1.0) for _ in range(25)])
        return abs(mean) <= half

    assert 0.92 <= sum(covers(seed) for seed in range(1000)) / 1000 <= 0.98


@pytest.fixture
def connection() -> Iterator[tuple[socket.socket, socket.socket]]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname())
        other, _ = server.accept()
        with client, other:
            yield client, other


def counting(made: Sequence[socket.socket], direction: str) -> Connections:
    return Connections(made[0].getpeername()[1], 4, direction, 1)  # type: ignore[arg-type]


def test_a_connection_of_control_has_the_congestion_control_that_it_likes() -> None:
    """iperf3's has the machine's default, whatever its streams were asked to have."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
        counter = Connections(address[1], 4, "received", 2, control=1)
        try:
            control, data = (socket.create_connection(address, timeout=5) for _ in range(2))
            data.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")
            peers = [server.accept()[0] for _ in range(2)]
            counter.begin()
            for peer in peers:
                peer.sendall(b"x" * 500)
            assert (control.recv(1), data.recv(1)) == (b"x", b"x")
            assert counter.congestion_control() == "", "neither carries data yet"
            left = 100_000
            sender = next(one for one in peers if one.getpeername() == data.getsockname())
            sender.sendall(b"x" * left)
            while left > 0:
                left -= len(data.recv(1 << 16))
            assert counter.congestion_control() == "reno"
        finally:
            counter.close()
            for one in (control, data, *peers):
                one.close()


def test_opened_counts_the_connections_of_this_namespace() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        counter = Opened(port, 4)
        try:
            assert counter.congestion_control() == ""
            first = counter.read()
            clients = [socket.create_connection(("127.0.0.1", port), timeout=5) for _ in range(3)]
            assert counter.read() - first >= 3  # this machine's other programs may connect, too
            asked = clients[0].getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
            assert counter.congestion_control() == asked.rstrip(b"\0").decode()
            for client in clients:
                client.close()
        finally:
            counter.close()


@pytest.mark.parametrize("refused", [True, False])
def test_connections_that_were_refused_or_reset_are_not_counted(refused: bool) -> None:
    """ab goes on after them, and faster than after an answer."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
        counter = Opened(address[1], 4)
        try:
            if refused:
                server.close()
            first = counter.read()
            for _ in range(200):
                with socket.socket() as client:
                    if client.connect_ex(address) == 0:
                        peer, _ = server.accept()
                        peer.setsockopt(
                            socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
                        )
                        peer.close()
                        with pytest.raises(ConnectionResetError):
                            client.recv(1)
            assert counter.read() - first < 100  # other programs of this machine connect, too
        finally:
            counter.close()


@pytest.mark.parametrize("ip", [4, 6])
def test_a_namespace_counts_datagrams_that_a_program_received(ip: int) -> None:
    family, address = (socket.AF_INET, "127.0.0.1") if ip == 4 else (socket.AF_INET6, "::1")
    with (
        socket.socket(family, socket.SOCK_DGRAM) as server,
        socket.socket(family, socket.SOCK_DGRAM) as client,
    ):
        try:
            server.bind((address, 0))
        except OSError:
            pytest.skip("this machine has no IPv6")
        server.settimeout(5)
        counter = Namespace("Udp", "InDatagrams", ip)
        try:
            first = counter.read()
            for _ in range(4):
                client.sendto(b"x", server.getsockname()[:2])
                server.recv(1)
            assert counter.read() - first >= 4
        finally:
            counter.close()


def test_connections_count_bytes_of_both_directions(
    connection: tuple[socket.socket, socket.socket],
) -> None:
    client, other = connection
    port = client.getpeername()[1]
    before = counting(connection, "received")  # made before, its connection is another's
    with pytest.raises(MeasureError, match=f"0 of 1 connections to port {port}"):
        before.begin()
    before.close()
    counters = []
    for direction in ("received", "acked"):
        counter = counting(connection, direction)
        counter._others.clear()
        counter.begin()
        counters.append(counter)
    first = [counter.read() for counter in counters]
    client.sendall(b"x" * 70_000)
    other.sendall(b"y" * 5_000)
    left = 70_000
    while left:
        left -= len(other.recv(left))
    end = time.monotonic() + 5
    while counters[1].in_flight() and time.monotonic() < end:
        time.sleep(0.001)
    assert counters[0].read() - first[0] == 5_000
    assert counters[1].read() - first[1] == 70_000
    assert counters[1].in_flight() == 0
    client.close()
    other.close()
    time.sleep(0.05)
    with pytest.raises(MeasureError, match="ended"):
        counters[0].read()
    for counter in counters:
        counter.close()


def test_in_flight_is_what_the_peer_does_not_take(
    connection: tuple[socket.socket, socket.socket],
) -> None:
    client, _ = connection
    counter = counting(connection, "acked")
    counter._others.clear()
    counter.begin()
    client.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            client.send(b"x" * 65536)
    assert counter.in_flight() > 0
    counter.close()


def test_clocks_know_busy_programs_from_idle_ones() -> None:
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    idle = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        assert {busy.pid, idle.pid} <= descendants(os.getpid())
        time.sleep(0.3)
        clocks = [Clocks([one.pid]) for one in (busy, idle)]
        began = time.monotonic_ns()
        first = [clock.read() for clock in clocks]
        time.sleep(0.5)
        last = [clock.read() for clock in clocks]
        passed = time.monotonic_ns() - began  # more than 0.5 s on a busy machine
        ran = [after[0] - before[0] for before, after in zip(first, last, strict=True)]
        waited = last[0][1] - first[0][1]
        assert 0.3e9 < ran[0] + waited < passed + 0.2e9
        assert ran[1] < 0.1e9
    finally:
        for one in (busy, idle):
            one.kill()
            one.wait()
    assert clocks[0].read()[0] >= 0  # a program that has ended is no error
    for clock in clocks:
        clock.close()


def test_cpu_time_is_split_by_the_share_of_user_space() -> None:
    slices = [slice_of("a", n, 1000.0, softirq=0.01 * (n % 2)) for n in range(10)]
    found = modes(2e-5, 0.25, slices)
    assert found["user"] + found["system"] == pytest.approx(2e-5)
    assert found["user"] == pytest.approx(5e-6)
    assert found["softirq"] == pytest.approx(0.05 / (10 * 20))
    assert modes(2e-5, None, [slice_of("a", 0, 1000.0)]) == {}


def test_a_program_in_user_space_and_one_in_the_kernel_are_told_apart() -> None:
    shares = []
    for body in ("while True: pass", "import os\nwhile True: os.pread(fd, 1 << 20, 0)"):
        code = f"import os; fd = os.open('/dev/zero', os.O_RDONLY)\n{body}"
        with subprocess.Popen([sys.executable, "-c", code]) as program:
            clock = Modes([program.pid])
            while sum(clock.read()) < 60:  # ticks of 10 ms
                assert program.poll() is None
                time.sleep(0.01)
            user, system = clock.read()
            shares.append(user / (user + system))
            clock.close()
            program.kill()
    assert shares[0] > 0.5 > shares[1]


def test_softirqs_of_other_cpus_are_counted_apart() -> None:
    machine = Machine()
    one, other = Spent({0: 5, 1: 7}, {}), Spent({0: 6, 1: 10}, {})
    assert machine.softirqs(one, other, {1}) == (0.03, 0.01)
    assert machine.softirqs(None, other, {0}) == (None, None)
    first, last = machine.read(), machine.read()
    if first and last:  # else a reading takes long on this machine
        assert first.softirq.keys() == last.softirq.keys()
        assert min(machine.softirqs(first, last, {0})) >= 0  # type: ignore[type-var]
    machine.close()
    assert machine.read() is None
    machine.close()
