"""Programs that are stopped while a slice is measured: what the looks find, and what it makes of
the slice and of the sample.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cnibench.run.checks.node_load import NodeLoad
from cnibench.run.checks.stalls import Evidence
from cnibench.run.checks.stalls import disturbed as sample_disturbed
from cnibench.run.slices.evidence import evidence, left_out
from cnibench.run.slices.looks import EVERY, Look, Programs, Stop, stops, watch
from cnibench.run.slices.readings.clocks import Clocks
from cnibench.run.slices.readings.machine import Machine, Spent, apart, used
from cnibench.run.slices.readings.quota import during
from cnibench.run.slices.rounds import disturbed, kept, values
from cnibench.run.slices.slice import Slice
from cnibench.system.usage import Share
from tests.unit._slices import slice_of

CALM = Share(0.0, 0.0, 0.0)
HALTED = frozenset({("netserver", "stopped")})


def a_slice(number: int, rate: float = 100.0, cell: str = "a", **more: object) -> Slice:
    return slice_of(cell, number, rate, **more)


def stopped(number: int, start: float, end: float, rate: float = 50.0) -> Slice:
    return a_slice(number, rate, stops=(Stop("netserver", "stopped", start, end),))


def reason(slices: list[Slice]) -> str:
    return sample_disturbed(evidence(slices, 3.0, CALM, cpus=2))


@pytest.fixture
def sleeper() -> Iterator[int]:
    with subprocess.Popen(["sleep", "60"]) as process:
        time.sleep(0.05)
        yield process.pid
        process.kill()


def test_a_stop_of_one_look_ends_halfway_to_its_neighbours() -> None:
    looks = [Look(1_000_000_000 + n * 4_000_000) for n in range(6)]
    assert stops(looks, 1_000_000_000, 0.02) == ()
    looks[2] = replace(looks[2], halted=HALTED)
    (one,) = stops(looks, 1_000_000_000, 0.02)
    assert (one.what, one.kind) == ("netserver", "stopped")
    assert (one.start, one.end) == pytest.approx((0.006, 0.010))


def test_a_slice_that_was_stopped_throughout_is_one_stop() -> None:
    looks = [Look(n * 4_000_000, HALTED) for n in range(6)]
    assert stops(looks, 0, 0.0201) == (Stop("netserver", "stopped", 0.0, 0.0201),)


def test_alternate_looks_are_several_stops_and_half_of_the_time() -> None:
    looks = [Look(n * 4_000_000, HALTED if n % 2 else frozenset()) for n in range(6)]
    found = stops(looks, 0, 0.02)
    assert len(found) == 3
    assert sum(one.end - one.start for one in found) == pytest.approx(0.01)


def test_a_program_stopped_every_four_milliseconds_is_seen(sleeper: int) -> None:
    programs, ended = Programs([sleeper]), threading.Event()

    def work() -> None:
        while not ended.is_set():
            os.kill(sleeper, signal.SIGSTOP)
            time.sleep(0.004)
            os.kill(sleeper, signal.SIGCONT)
            time.sleep(0.004)

    before = [stops(watch(programs, time.monotonic_ns(), 0.02), 0, 0.02) for _ in range(5)]
    assert before == [()] * 5
    thread = threading.Thread(target=work)
    thread.start()
    try:
        found = []
        for _ in range(20):
            start = time.monotonic_ns()
            looks = watch(programs, start, 0.02)
            found.append(stops(looks, start, (looks[-1].at - start) / 1e9))
    finally:
        ended.set()
        thread.join()
        programs.close()
    assert sum(map(bool, found)) >= 10  # a busy machine may delay who stops it
    assert {(one.what, one.kind) for its in found for one in its} == {("sleep", "stopped")}


def test_looks_are_close_and_the_last_is_at_the_end(sleeper: int) -> None:
    programs = Programs([sleeper, 1 << 30])  # one of them has ended
    start = time.monotonic_ns()
    looks = watch(programs, start, 0.02)
    programs.close()
    assert looks[-1].at - start >= 20_000_000
    assert 2 <= len(looks) <= 0.02 / EVERY + 2
    assert len(watch(Programs(()), time.monotonic_ns(), 0.0)) == 1


def test_a_look_that_comes_late_has_a_gap_without_the_wait_for_a_cpu() -> None:
    """Stopped for a time, a program that looks has not waited for a CPU."""
    code = (
        "import time; from cnibench.run.slices.looks import Programs, watch\n"
        "print('ready', flush=True)\n"
        "print(max(one.late for one in watch(Programs(()), time.monotonic_ns(), 1.0)))"
    )
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.2)
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.4)
        process.send_signal(signal.SIGCONT)
        late = float(process.stdout.read())
        # a busy machine may continue it late, and have it wait before it is stopped
        assert 0.1 < late < 5.0


def test_a_slice_with_a_stop_a_gap_or_another_load_is_left_out() -> None:
    calm = [a_slice(n) for n in range(10)]
    bad = [stopped(10, 0.006, 0.010), a_slice(11, gap=0.006), a_slice(12, beside=True)]
    assert disturbed([*calm, *bad, a_slice(13, gap=0.002)]) == [False] * 10 + [True] * 3 + [False]
    found = values([["a"]], [*calm, *bad])["a"]
    assert (found.left_out, found.spoilt) == (3, False)
    assert found.rate == pytest.approx(100.0)


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ([(0.0, 0.0015)], ""),  # 0.75 % of ten slices
        ([(0.0, 0.0025)], "netserver was stopped for 0.00 s of 0.20 s"),
        ([(0.006, 0.016)] * 3, "netserver was stopped for 0.03 s of 0.20 s in 3 pieces"),
        ([(0.006, 0.02), (0.0, 0.02), (0.0, 0.006)], "netserver was stopped for 0.04 s of 0.20 s"),
    ],
)
def test_one_percent_of_the_slices_disturbs_the_sample(
    bad: list[tuple[float, float]], words: str
) -> None:
    """However long the other cells' turns took."""
    slices = [a_slice(n) for n in range(10 - len(bad))]
    slices += [stopped(len(slices) + n, *one) for n, one in enumerate(bad)]
    assert reason(slices) == words


def test_the_record_has_the_longest_stop_across_slices() -> None:
    slices = [a_slice(0), stopped(1, 0.006, 0.02), stopped(2, 0.0, 0.02), a_slice(3, gap=0.004)]
    record = evidence(slices, 3.0, CALM, cpus=2).record("")
    assert record["longest_stop"] == pytest.approx(0.034)
    assert record["longest_gap"] == pytest.approx(0.004)
    assert (record["taken"], record["slices"]) == (3.0, pytest.approx(0.08))
    (one,) = record["stalls"]
    assert (one["kind"], one["what"], one["at"]) == ("stopped", "netserver", pytest.approx(0.106))


def test_steal_is_that_of_the_cpus_of_the_load_in_steps_of_the_counter() -> None:
    machine = Machine()
    one, other = Spent({}, {0: 5, 1: 7, 2: 3}), Spent({}, {0: 6, 1: 9, 2: 2, 3: 8})
    assert machine.steal(one, other, {0, 1, 2}) == 0.03  # CPU 2's fell; CPU 3 is new
    assert machine.steal(one, other, {1}) == 0.02
    assert machine.steal(None, other, {1}) is None
    machine.close()


def test_what_others_used_is_what_neither_the_load_nor_cnibench_did() -> None:
    machine = Machine()
    one, other = Spent({}, {}, used=100, own=5_000_000), Spent({}, {}, used=104, own=8_000_000)
    assert machine.others(one, other, 0.022) == pytest.approx(0.015)
    assert machine.others(one, replace(other, used=102), 0.022) == pytest.approx(-0.005)
    assert machine.others(one, None, 0.022) is None
    machine.close()


def test_softirqs_count_as_they_are_in_the_clocks_of_programs() -> None:
    """A kernel whose ticks account them has none in interrupts (the sixth figure)."""
    by_ticks, exact = b"cpu  100 20 30 900 5 0 40 7 0 0", b"cpu  100 20 30 900 5 8 40 7 0 0"
    assert (apart(by_ticks), used(by_ticks, False)) == (False, 190)
    assert (apart(exact), used(exact, True)) == (True, 150)


def test_a_program_that_is_not_ours_is_counted_and_one_of_ours_is_not() -> None:
    code = "import time; print(flush=True)\nwhile True: pass"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as busy:
        assert busy.stdout is not None
        busy.stdout.readline()
        alone, with_it = Machine(), Machine(beside=[busy.pid])
        clock = Clocks([busy.pid])
        first = (alone.read(), with_it.read(), clock.read()[0])
        while clock.read()[0] - first[2] < 400_000_000:
            time.sleep(0.02)
        last = (alone.read(), with_it.read(), clock.read()[0])
        busy.kill()
    if not first[0] or not last[0]:
        pytest.skip("a reading of /proc/stat takes long here")
    ran = (last[2] - first[2]) / 1e9
    seen, less = alone.others(first[0], last[0], 0.0), with_it.others(first[1], last[1], 0.0)
    assert seen is not None
    assert less is not None
    assert seen > 0.7 * ran  # others may run as well
    assert seen - less > 0.7 * ran
    for one in (alone, with_it, clock):
        one.close()


def test_what_others_used_of_a_sample_is_the_sum_over_its_own_slices() -> None:
    """Whatever all rounds had; one below 0 is a step of the counter, and the sum is not."""
    busy = Share(1.5, 0.0, 0.0)
    slices = [a_slice(n, others=0.014 if n % 2 else -0.006) for n in range(10)]
    assert evidence(slices, 3.0, busy, cpus=2).others == pytest.approx(0.2)
    assert evidence(slices[:1], 3.0, busy, cpus=2).others == 0.0
    unknown = [*slices, a_slice(10)]
    assert evidence(unknown, 3.0, busy, cpus=2).others == 1.5


def test_nodes_on_this_machine_are_one_machine() -> None:
    slices = [a_slice(n, others=0.01) for n in range(10)]
    seen = evidence(slices, 3.0, CALM, cpus=2, nodes={"a", "b"})
    (load,) = seen.node_load
    assert (load.node, load.cpus, load.estimate) == ("a+b", os.cpu_count(), True)
    assert load.others == seen.others == pytest.approx(0.5)


def test_on_other_machines_the_nodes_of_the_cell_say_what_others_used() -> None:
    """Whatever the machine said that drove the rounds, which sees one of them."""
    slices = [a_slice(n, others=0.01) for n in range(10)]
    loads = (NodeLoad("a", 0.4, 8), NodeLoad("b", 0.5, 16))

    def seen(*nodes: str, loads: tuple[NodeLoad, ...] = loads) -> Evidence:
        return evidence(slices, 3.0, CALM, cpus=2, nodes=set(nodes), loads=loads)

    assert seen("a", "b").node_load == loads
    assert seen("a", "b").others == 0.4  # the larger share
    assert seen("b").node_load == loads[1:]
    assert seen("a", "b", loads=()).others is None
    assert seen("b", loads=(NodeLoad("a+b", 0.4, 8),)).others == 0.4


def test_programs_beside_the_load_are_watched_as_well(sleeper: int) -> None:
    machine = Machine(beside=[sleeper])
    os.kill(sleeper, signal.SIGSTOP)
    while "T" not in Path(f"/proc/{sleeper}/stat").read_text().rpartition(")")[2][:3]:
        time.sleep(0.001)
    looks = watch(Programs(()), time.monotonic_ns(), 0.005, machine.beside)
    machine.close()
    assert {look.halted for look in looks} == {frozenset({("sleep", "stopped")})}


@pytest.mark.parametrize(
    ("readings", "beyond", "seconds"),
    [
        ((1.0, 1.0, 1.0), 0.001, 0.0),
        ((1.0, 1.008, 1.008), 0.001, 0.008),
        # counted when it was over, after the slice: what is longer than that lies within it
        ((1.0, 1.0, 1.03), 0.02, 0.01),
        ((1.0, 1.002, 1.012), 0.02, 0.002),
        ((1.0, None, 1.0), 0.001, None),
    ],
)
def test_throttling_of_a_slice(
    readings: tuple[float | None, float | None, float | None], beyond: float, seconds: float | None
) -> None:
    found = during(readings, beyond)
    assert found == (None if seconds is None else pytest.approx(seconds))


@pytest.mark.parametrize("cause", ["steal", "throttled"])
def test_a_slice_that_lost_much_to_host_or_quota_is_left_out(cause: str) -> None:
    slices = [a_slice(n, **{cause: 0.01 * (n == 3)}) for n in range(6)]
    assert disturbed(slices) == [n == 3 for n in range(6)]
    assert not any(disturbed([a_slice(n, **{cause: 0.004}) for n in range(6)]))
    assert not any(disturbed([a_slice(n, **{cause: None}) for n in range(6)]))


def test_steal_and_throttling_of_a_sample_are_those_of_its_own_slices() -> None:
    """The others' rounds lost much, this cell's did not; and the other way round."""
    lost = Share(0.0, 0.5, 2.0)
    calm = [a_slice(n, steal=0.0, throttled=0.0) for n in range(10)]
    assert sample_disturbed(evidence(calm, 3.0, lost, cpus=2)) == ""
    slices = [a_slice(n, steal=0.01 * (n < 5), throttled=0.002) for n in range(10)]
    assert reason(slices) == (
        "the machine's host gave 12% of its CPU time to others (steal);"
        " a CPU quota held its programs back for 0.02 s of 0.20 s"
    )


def test_where_slices_do_not_know_them_all_rounds_say_it() -> None:
    seen = evidence([a_slice(n) for n in range(10)], 4.0, Share(0.0, 0.2, 1.0), cpus=2)
    assert (seen.steal, seen.throttled) == (0.2, pytest.approx(0.05))


def test_frozen_programs_and_gaps_have_words_of_their_own() -> None:
    frozen = a_slice(1, stops=(Stop("nginx", "frozen", 0.0, 0.02),))
    assert reason([a_slice(0), frozen]) == "nginx was frozen for 0.02 s of 0.04 s"
    paused = a_slice(1, seconds=0.52, gap=0.5)
    assert reason([a_slice(0), paused]) == "cnibench on this machine stalled for 0.50 s of 0.54 s"


def test_a_sample_without_calm_slices_has_a_value_and_is_disturbed() -> None:
    """Its own cell's only: the others' rounds are not the worse for it."""
    bad = [stopped(n, 0.0, 0.01, rate=50.0 + n) for n in range(8)]
    good = [a_slice(n, 80.0, cell="b") for n in range(8)]
    found = values([["a", "b"]], [*bad, *good])
    assert 50.0 < found["a"].rate < 58.0
    assert found["b"].rate == pytest.approx(80.0)
    assert left_out(found["a"]) == "8 of 8 slices were disturbed"
    assert left_out(found["b"]) == ""
    assert kept(bad) == bad
    assert values([["a"]], [replace(one, units=0.0) for one in bad]) == {}
