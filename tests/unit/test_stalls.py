"""From what was seen to stand still to the reason why a sample is no measurement; and what the
heartbeat's words become.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cnibench.run.checks import stall_monitor, stalls
from cnibench.run.checks.stalls import Evidence, Stall, disturbed
from cnibench.system import heartbeat
from cnibench.system.process import spawn

HERE = "in the server's Pod (node b)"
QUIET = Evidence(taken=2.0, longest=3.0)


def stall(kind: stalls.Kind, seconds: float, what: str = "netperf") -> Stall:
    return Stall(kind, what, HERE, 0.5, seconds)


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (
            replace(QUIET, stalls=(stall("stopped", 1.0),)),
            "netperf in the server's Pod (node b) was stopped for 1.00 s of 2.00 s",
        ),
        (replace(QUIET, stalls=(stall("stopped", 0.1),)), "was stopped for 0.10 s"),
        (replace(QUIET, stalls=(stall("frozen", 1.0),)), "was frozen for"),
        (
            replace(QUIET, taken=60.0, longest=90.0, stalls=(stall("stopped", 0.12),)),
            "was stopped for 0.12 s of 60.0 s",
        ),
        (
            replace(QUIET, stalls=(stall("gap", 1.0, ""),)),
            "everything in the server's Pod (node b) stalled for 1.00 s",
        ),
        (replace(QUIET, stalls=(stall("gap", 0.1, ""),)), "for 0.10 s"),
        (
            replace(QUIET, stalls=(stall("starved", 0.9),)),
            "netperf in the server's Pod (node b) got no CPU for 0.90 s",
        ),
        (
            replace(QUIET, stalls=(stall("stopped", 0.3), stall("stopped", 0.2))),
            "for 0.50 s of 2.00 s in 2 pieces",
        ),
        (replace(QUIET, steal=0.25), "gave 25% of its CPU time to others"),
        (replace(QUIET, throttled=0.8), "a CPU quota held its programs back for 0.80 s of 2.00 s"),
        (Evidence(taken=17.0, longest=9.0), "the client took 17.0 s, and 9.00 s is the longest"),
        (
            replace(QUIET, unseen=(HERE,)),
            "the heartbeat in the server's Pod (node b) did not answer",
        ),
    ],
)
def test_what_disturbs_is_named(seen: Evidence, words: str) -> None:
    assert words in disturbed(seen)
    assert seen.record(disturbed(seen))["disturbed"] == disturbed(seen)


def test_our_own_machine_needs_no_name() -> None:
    seen = replace(
        QUIET,
        stalls=(Stall("stopped", "perf", "", 0, 1.0), Stall("gap", "", "", 1, 0.5)),
        unseen=("",),
    )
    assert (
        disturbed(seen)
        == "perf was stopped for 1.00 s of 2.00 s; everything on this machine stalled for 0.50"
        " s of 2.00 s; the heartbeat on this machine did not answer"
    )


@pytest.mark.parametrize(
    "seen",
    [
        QUIET,
        replace(QUIET, stalls=(stall("stopped", 0.01),)),
        replace(QUIET, taken=60.0, longest=90.0, stalls=(stall("stopped", 0.08),)),
        replace(QUIET, stalls=tuple(stall("gap", 0.09, "") for _ in range(10))),
        replace(QUIET, taken=10.0, longest=15.0, stalls=(stall("gap", 0.15, ""),)),
        replace(QUIET, stalls=tuple(stall("starved", 0.7) for _ in range(3))),
        replace(QUIET, steal=0.05, throttled=0.05),
        Evidence(taken=4.9, longest=3.0),
    ],
)
def test_what_a_busy_machine_shows_does_not_disturb(seen: Evidence) -> None:
    assert disturbed(seen) == ""


KINDS = st.sampled_from(["stopped", "frozen", "gap", "starved"])
STALLS = st.lists(
    st.builds(
        Stall,
        KINDS,
        st.sampled_from(["netperf", "perf"]),
        st.just(HERE),
        st.floats(0, 5),
        st.floats(0, 20),
    ),
    max_size=6,
)
SEEN = st.builds(
    Evidence,
    taken=st.floats(0.1, 100),
    longest=st.floats(0.1, 200),
    stalls=STALLS.map(tuple),
    steal=st.floats(0, 1),
    throttled=st.floats(0, 200),
)


@given(
    SEEN, st.builds(Stall, KINDS, st.just("ab"), st.just(HERE), st.floats(0, 5), st.floats(0, 20))
)
def test_more_evidence_never_makes_a_disturbed_sample_undisturbed(
    seen: Evidence, more: Stall
) -> None:
    worse = replace(seen, stalls=(*seen.stalls, more))
    assert disturbed(worse) or not disturbed(seen)
    assert msgspec.json.decode(msgspec.json.encode(worse.record("x")))["disturbed"] == "x"


@given(SEEN)
def test_the_order_of_stalls_does_not_matter(seen: Evidence) -> None:
    assert bool(disturbed(seen)) == bool(disturbed(replace(seen, stalls=seen.stalls[::-1])))


@given(st.floats(0.5, 100), KINDS)
def test_half_of_the_time_always_disturbs(taken: float, kind: stalls.Kind) -> None:
    """Below a second a stretch without a CPU may be ordinary load."""
    seen = Evidence(taken, stalls=(stall(kind, max(0.5 * taken, stalls.STARVED_LEAST)),))
    assert disturbed(seen)


def test_the_heartbeat_sees_a_stopped_process_and_its_own_gap(tmp_path: Path) -> None:
    """It watches its parent and its parent's descendants: here a program with a sleep."""
    text = Path(heartbeat.__file__).read_text()
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, text], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        sleeping, beating = map(int, parent.stdout.readline().split())
        assert parent.stdout.readline() == "ready\n"
        for pid in (sleeping, beating):
            subprocess.run(["kill", "-STOP", str(pid)], check=True)
            time.sleep(0.4)
            subprocess.run(["kill", "-CONT", str(pid)], check=True)
        time.sleep(0.3)
        subprocess.run(["kill", "-INT", str(beating)], check=True)
        told = msgspec.json.decode(parent.stdout.readline())
    (stop,) = told["stops"]
    assert stop[0] == "sleep"
    assert stop[3] == "stopped"
    assert stop[2] - stop[1] > 0.3
    assert max(until - since - waited for since, until, waited in told["gaps"]) > 0.3
    assert [line[0] for line in told["counters"]] == sorted(line[0] for line in told["counters"])
    assert told["started"] < stop[1] < stop[2] <= told["end"]


PARENT = """
import subprocess, sys
sleep = subprocess.Popen(["sleep", "60"], stdout=subprocess.DEVNULL)
beat = subprocess.Popen([sys.executable, "-I", "-S", "-c", sys.argv[1], "0.02"], stdout=subprocess.PIPE)
print(sleep.pid, beat.pid, flush=True)
for line in beat.stdout:
    sys.stdout.write(line.decode())
    sys.stdout.flush()
sleep.kill()
"""  # noqa: E501


def test_the_signal_ends_the_heartbeat_even_where_it_is_ignored() -> None:
    """A shell's background job starts with SIGINT ignored."""
    text = Path(heartbeat.__file__).read_text()
    beat = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", text, "0.02"],
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )
    assert beat.stdout is not None
    assert beat.stdout.readline() == "ready\n"
    beat.send_signal(signal.SIGINT)
    assert msgspec.json.decode(beat.stdout.read())["end"] > 0
    assert beat.wait(10) == 0


@pytest.mark.parametrize("ended", [False, True])
def test_a_heartbeat_that_ended_too_early_saw_nothing(tmp_path: Path, ended: bool) -> None:
    """What it noted until then tells nothing of the rest."""
    text = stall_monitor.PROGRAM.read_text(encoding="utf-8")
    out = tmp_path / "out"
    with spawn([sys.executable, "-I", "-S", "-c", text, "0.02"], stdout=out) as process:
        heart = stall_monitor._Heart("", out, process, True)
        stall_monitor.Watch(heart, {}).await_ready()
        start = time.monotonic()
        if ended:
            process.interrupt()
            process.wait(10.0)
        span = (start, time.monotonic() + 0.01, 100.0)
        (seen,) = stall_monitor.Watch(heart, {}).evidence([span])
    assert seen.unseen == (("",) if ended else ())
    assert ("did not answer" in disturbed(seen)) == ended
