"""Programs that are really stopped while they are measured: the sample is marked, and an undisturbed one is not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from test_workloads import situation, values

from cnibench.clusters.lab.stand import Stand
from cnibench.registry import provider
from cnibench.sampling import Measured, measure
from cnibench.system import heartbeat

MakeStand = Callable[..., Stand]
STOPPED = 1.0  # s
LIMIT = 30.0


def pids(name: str) -> list[int]:
    """Processes of this tree of namespaces with that name."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if (path / "comm").read_text().strip() == name:
                found.append(int(path.name))
        except OSError:
            continue
    return found


@contextmanager
def stopping(*names: str, seconds: float = STOPPED, after: float = 0.4) -> Iterator[list[str]]:
    """Stops the programs, all of a name, for so long, some time after the first of them was there."""
    done: list[str] = []

    def work() -> None:
        end = time.monotonic() + LIMIT
        while not all(pids(name) for name in names) and time.monotonic() < end:
            time.sleep(0.02)
        time.sleep(after)
        victims = [pid for name in names for pid in pids(name)]
        for pid in victims:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(seconds)
        for pid in victims:
            os.kill(pid, signal.SIGCONT)
        done.extend(names)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield done
    finally:
        thread.join()


def sample(make_stand: MakeStand, raw: Path, workload: str, collectors: tuple[str, ...] = (), **more: Any) -> Measured:
    params = {"payload": 1000} if workload == "http" else {}
    s = situation(make_stand("veth-baseline"), workload, raw, placement="intra", duration=2.0, **params, **more)
    return measure(s, provider("workloads", workload), [provider("collectors", name) for name in collectors])


def stalls(measured: Measured) -> dict[str, Any]:
    (record,) = [record for name, record in measured.findings.records if name == "stalls"]
    return record


@pytest.mark.parametrize(
    ("workload", "victim"),
    [("tcp-rr", "netperf"), ("tcp-rr", "netserver"), ("iperf3-tcp", "iperf3"), ("http", "nginx"), ("http", "ab")],
)
def test_a_program_that_was_stopped_marks_the_sample(make_stand: MakeStand, tmp_path: Path, workload: str, victim: str) -> None:
    with stopping(victim) as done:
        measured = sample(make_stand, tmp_path, workload)
    assert done, "nothing was stopped"
    assert f"{victim} on the machine that measures was stopped for" in measured.disturbed
    assert values(measured.findings), "its figures are kept"
    record = stalls(measured)
    assert record["disturbed"] == measured.disturbed
    assert 0.8 * STOPPED < record["longest_stop"] < 1.5 * STOPPED + 0.5


def test_perf_that_was_stopped_marks_the_sample(make_stand: MakeStand, tmp_path: Path) -> None:
    with stopping("perf", after=0.8):
        measured = sample(make_stand, tmp_path, "tcp-stream", ("perf",))
    assert "perf on the machine that measures was stopped for" in measured.disturbed


def test_a_short_stop_is_seen_and_measured(make_stand: MakeStand, tmp_path: Path) -> None:
    with stopping("netperf", seconds=0.1):
        measured = sample(make_stand, tmp_path, "tcp-rr")
    assert "netperf on the machine that measures was stopped for" in measured.disturbed
    assert 0.03 < stalls(measured)["longest_stop"] < 0.5


def test_the_harness_that_was_stopped_marks_the_sample(make_stand: MakeStand, tmp_path: Path) -> None:
    """Somebody outside of what is stopped must do it: a shell, which is no child of ours once its parent has ended."""
    script = f"(sleep 0.8; kill -STOP {os.getpid()}; sleep {STOPPED}; kill -CONT {os.getpid()}) >/dev/null 2>&1 &"
    stand = make_stand("veth-baseline")
    s = situation(stand, "tcp-rr", tmp_path, placement="intra", duration=2.0)
    subprocess.run(["setsid", "sh", "-c", script], check=True)
    measured = measure(s, provider("workloads", "tcp-rr"), [])
    assert "was stopped for" in measured.disturbed
    assert stalls(measured)["longest_stop"] > 0.5 * STOPPED


def test_everything_at_once_that_was_stopped_marks_the_sample(make_stand: MakeStand, tmp_path: Path) -> None:
    """As a frozen node or a paused virtual machine: the heartbeat is stopped, too, and sees that it was not woken."""
    with stopping("netperf", "netserver", heartbeat.NAME) as done:
        measured = sample(make_stand, tmp_path, "tcp-rr")
    assert done
    assert stalls(measured)["longest_gap"] > 0.5 * STOPPED
    assert "everything stood still on the machine that measures for" in measured.disturbed


@pytest.mark.parametrize("load", [0, 12])
def test_an_ordinary_machine_disturbs_nothing(make_stand: MakeStand, tmp_path: Path, load: int) -> None:
    busy = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(load)]
    try:
        measured = [sample(make_stand, tmp_path / str(number), "tcp-rr") for number in range(2)]
    finally:
        for process in busy:
            process.kill()
            process.wait()
    assert [one.disturbed for one in measured] == ["", ""]
