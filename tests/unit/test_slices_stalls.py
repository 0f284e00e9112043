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

import pytest

from cnibench.run.checks.stalls import disturbed as sample_disturbed
from cnibench.run.slices.evidence import evidence, left_out
from cnibench.run.slices.looks import EVERY, Look, Programs, Stop, stops, watch
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
    return sample_disturbed(evidence(slices, 3.0, CALM, alone=True))


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
        assert 0.3 < late < 5.0  # a busy machine may continue it late


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
    record = evidence(slices, 3.0, CALM, alone=True).record("")
    assert record["longest_stop"] == pytest.approx(0.034)
    assert record["longest_gap"] == pytest.approx(0.004)
    assert (record["taken"], record["slices"]) == (3.0, pytest.approx(0.08))
    (one,) = record["stalls"]
    assert (one["kind"], one["what"], one["at"]) == ("stopped", "netserver", pytest.approx(0.106))


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
