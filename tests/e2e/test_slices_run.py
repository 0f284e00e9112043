"""``cnibench run --method slices`` in the lab, from the command line to the report."""

from __future__ import annotations

import ctypes
import json
import math
import os
import resource
import signal
import subprocess
import time
import uuid
from pathlib import Path

import pytest
from _commands import PROGRAM
from _slices_commands import MARK, command, lines, marked

from cnibench.rundir.reader import RunReader
from cnibench.rundir.verification import verify
from cnibench.stats.robust import trimmed

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the lab's real-time priority needs root")
LIMIT = 300.0


def test_one_profile_under_two_labels(tmp_path: Path) -> None:
    done = subprocess.run(
        command(tmp_path, "--workload", "tcp-rr,tcp-stream", "--blocks", "3", "--duration", "1s"),
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    assert done.returncode == 0, done.stderr
    (run,) = tmp_path.iterdir()
    samples = lines(run / "samples.jsonl")
    assert {one["method"] for one in samples} == {"slices"}
    assert {one["duration"] for one in samples} == {1.0}
    assert {one["warmup_time"] for one in samples} == {0.0}
    assert {one["congestion_control"] for one in samples} == {"cubic"}
    assert {one["metric"] for one in samples if one["workload"] == "tcp-rr"} == {
        "transaction_rate",
        "latency_mean",
        "cpu_per_transaction",
        "cpu_user_per_transaction",
        "cpu_system_per_transaction",
        "cpu_softirq_per_transaction",
    }
    stream = [one for one in samples if one["workload"] == "tcp-stream"]
    assert {one["metric"] for one in stream} == {
        "throughput",
        "cpu_per_byte",
        "cpu_user_per_byte",
        "cpu_system_per_byte",
        "cpu_softirq_per_byte",
    }
    assert {one["params"]["message"] for one in stream} == {1 << 20}  # what iperf3 really writes
    checks = lines(run / "crosscheck.jsonl")
    assert sorted((one["label"], one["workload"], one["block"]) for one in checks) == [
        (label, workload, 0) for label in "ab" for workload in ("tcp-rr", "tcp-stream")
    ]
    for one in checks:
        assert one["value"] > 0
        assert one["reason"] or one["found"][one["metric"]] > 0
    tools = {(one["workload"], one["tool"], one["tool_priority"]) for one in checks}
    assert tools == {("tcp-rr", "tcp-rr", "real-time"), ("tcp-stream", "iperf3-tcp", "real-time")}
    assert not list(run.glob("raw/*/*.interrupted-*"))
    events = lines(run / "events.jsonl")
    installed = [
        (one["label"], one["block"]) for one in events if one["event"] == "profile-installed"
    ]
    assert sorted(installed) == [(label, block) for label in "ab" for block in range(3)]
    (raw,) = (run / "raw").glob("a.inter.tcp-rr.*")
    for block in range(3):
        slices = lines(raw / str(block) / "slices.jsonl")
        assert len({one["round"] for one in slices}) == len(slices) == 50
    rates = {
        (one["label"], one["block"]): math.log(one["value"])
        for one in samples
        if one["metric"] == "transaction_rate"
    }
    ratio, _ = trimmed([rates["a", block] - rates["b", block] for block in range(3)])
    assert abs(ratio) < 0.1
    assert "method slices" in (run / "report.md").read_text()


def test_cycles_come_from_rounds_of_their_own(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            *[word for word in command(tmp_path) if word != "--no-perf"],
            *("--workload", "tcp-rr,tcp-stream", "--blocks", "2", "--duration", "1s"),
        ],
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    assert done.returncode == 0, done.stderr
    (run,) = tmp_path.iterdir()
    records = lines(run / "cpp.jsonl")
    assert sorted((one["label"], one["workload"], one["block"]) for one in records) == [
        (label, workload, block)
        for label in "ab"
        for workload in ("tcp-rr", "tcp-stream")
        for block in range(2)
    ]
    assert {one["params"]["message"] for one in records if "message" in one["params"]} == {1 << 20}
    assert all(one["counted"] >= 10 and one["packets"] > 1000 for one in records)
    samples = [one for one in lines(run / "samples.jsonl") if one["window"] == "cpp"]
    assert {one["method"] for one in samples} == {"slices"}
    assert {"cycles_per_packet", "cycles_per_byte"} <= {one["metric"] for one in samples}
    for block in range(2):  # one recording for all cells
        assert len(list((run / "raw").glob(f"*/{block}/perf.*.data.gz"))) == 1
    assert {path.stat().st_mode & 0o777 for path in (run / "raw").glob("*/*/*")} == {0o600}
    assert verify(RunReader(run), raw=True) == []
    shown = "cycles per packet by component" in (run / "report.md").read_text()
    assert shown == any(not one.get("disturbed") for one in records)


def test_what_cannot_be_paused_is_said_before_the_run(tmp_path: Path) -> None:
    done = subprocess.run(
        command(tmp_path, "--workload", "tcp-rr,http", "--dry-run"),
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    assert done.returncode == 0, done.stderr
    assert "note: http is measured in windows, not in slices: a slice has too few" in done.stdout
    assert not list(tmp_path.iterdir())


def test_a_cluster_without_slices_refuses_them(tmp_path: Path) -> None:
    done = subprocess.run(
        command(tmp_path, "--cluster", "namespace"), capture_output=True, text=True, timeout=LIMIT
    )
    assert done.returncode == 2
    assert "cannot measure in slices" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_nothing_is_left_after_a_signal(tmp_path: Path, number: signal.Signals) -> None:
    """No process, stopped ones included, and a run directory that is intact."""
    mark = uuid.uuid4().hex
    running = subprocess.Popen(
        command(tmp_path, "--workload", "tcp-rr", "--blocks", "2", "--duration", "60s"),
        env={**os.environ, MARK: mark},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )

    def stopped() -> bool:
        """Is a load generator stopped, so that the rounds have begun?"""
        for pid in marked(mark):
            try:
                text = Path(f"/proc/{pid}/stat").read_text()
            except OSError:
                continue
            if "(netperf) T" in text:
                return True
        return False

    try:
        end = time.monotonic() + 60
        while not stopped() and time.monotonic() < end:
            time.sleep(0.05)
        assert stopped() or marked(mark)
        time.sleep(1.0)
    finally:
        running.send_signal(number)
        _, said = running.communicate(timeout=LIMIT)
    assert running.returncode == (-number if number == signal.SIGKILL else 130)
    assert number == signal.SIGKILL or "--resume" in said
    end = time.monotonic() + 10
    while marked(mark) and time.monotonic() < end:
        time.sleep(0.05)
    assert marked(mark) == []
    (run,) = tmp_path.iterdir()
    assert verify(RunReader(run), raw=True) == []


def policies(mark: str) -> set[tuple[str, bool]]:
    """Each program with that mark, and whether a thread of it has real-time priority."""
    found = set()
    for pid in marked(mark):
        for task in Path(f"/proc/{pid}/task").glob("*"):
            try:
                name = (task / "comm").read_text().strip()
                policy = os.sched_getscheduler(int(task.name)) & ~os.SCHED_RESET_ON_FORK
            except (FileNotFoundError, ProcessLookupError):
                continue
            known = name if name in ("netperf", "netserver") else "cnibench"
            found.add((known, policy in (os.SCHED_RR, os.SCHED_FIFO)))
    return found


@pytest.mark.parametrize(("asked", "length"), [("real-time", "1s"), ("normal", "4s")])
def test_the_priority_that_was_asked_for_is_in_force(
    tmp_path: Path, asked: str, length: str
) -> None:
    """In the samples, and in the kernel while they are measured. At normal priority a machine with
    other work disturbs many slices, so there are more of them.
    """
    mark, seen = uuid.uuid4().hex, set[tuple[str, bool]]()
    plain = ["--placement", "inter", "--no-perf", "--workload", "tcp-rr", "--blocks", "1"]
    with subprocess.Popen(
        [
            *(*PROGRAM, "run", "--cni", "veth-baseline", "--out", str(tmp_path), *plain),
            *("--duration", length, "--priority", asked),
        ],
        env={**os.environ, MARK: mark},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        end = time.monotonic() + LIMIT
        while running.poll() is None and time.monotonic() < end:
            seen |= policies(mark)
            time.sleep(0.05)
        _, said = running.communicate(timeout=1)
    assert running.returncode == 0, said
    (run,) = tmp_path.iterdir()
    samples = lines(run / "samples.jsonl")
    assert {(one["method"], one["status"], one["priority"]) for one in samples} == {
        ("slices", "ok", asked)
    }
    assert {one["priority"] for one in lines(run / "slices.jsonl")} == {asked}
    manifest = json.loads((run / "plan.json").read_text())
    assert manifest["plan"]["priority"] == asked
    assert {one["priority"] for one in manifest["cells"]} == {asked}
    real_time = {name for name, policy in seen if policy}
    assert real_time == ({"netperf", "netserver", "cnibench"} if asked == "real-time" else set())
    assert {name for name, _ in seen} == {"netperf", "netserver", "cnibench"}


def unprivileged() -> None:
    """Without the right to real-time priority."""
    resource.setrlimit(resource.RLIMIT_RTPRIO, (0, 0))
    ctypes.CDLL(None).prctl(24, 23, 0, 0, 0)  # PR_CAPBSET_DROP, CAP_SYS_NICE


def test_a_resumed_run_must_have_the_priority_that_was_asked_for(tmp_path: Path) -> None:
    plain = ["--workload", "tcp-rr", "--blocks", "2", "--duration", "60s"]
    with subprocess.Popen(
        command(tmp_path, *plain, "--priority", "real-time"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as running:
        end = time.monotonic() + 60
        while not list(tmp_path.glob("*/events.jsonl")) and time.monotonic() < end:
            time.sleep(0.1)
        running.send_signal(signal.SIGINT)
        assert running.wait(LIMIT) == 130
    (run,) = tmp_path.iterdir()
    done = subprocess.run(
        [*PROGRAM, "run", "--resume", str(run)],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        preexec_fn=unprivileged,
    )
    assert done.returncode == 3, done.stderr
    assert "real-time priority was refused (Operation not permitted)" in done.stderr
    assert "CAP_SYS_NICE" in done.stderr


def test_without_real_time_priority(tmp_path: Path) -> None:
    """Its slices say so; where they are then too short for the machine, the message does."""
    done = subprocess.run(
        command(tmp_path, "--workload", "tcp-rr", "--blocks", "1", "--duration", "4s"),
        capture_output=True,
        text=True,
        timeout=LIMIT,
        preexec_fn=unprivileged,
    )
    (run,) = tmp_path.iterdir()
    refused = "real-time priority was refused (Operation not permitted)"
    if done.returncode == 0:
        assert {one["priority"] for one in lines(run / "slices.jsonl")} == {refused}
        assert {one["priority"] for one in lines(run / "samples.jsonl")} == {"normal"}
        report = (run / "report.md").read_text().split()
        how = "to what is measured in slices: run it with CAP_SYS_NICE"
        assert f"{refused} {how}" in " ".join(report[:100])
    elif done.returncode == 1:  # some of them
        failed = [one for one in lines(run / "samples.jsonl") if one["status"] != "ok"]
        assert failed
        assert all(refused in one["reason"] for one in failed)
    else:
        assert done.returncode == 2, done.stderr
        assert refused in done.stderr
        assert "remedy: run it with CAP_SYS_NICE" in done.stderr
    assert verify(RunReader(run), raw=True) == []


def test_an_interruption_of_the_cross_checks_costs_no_sample(tmp_path: Path) -> None:
    plain = ("--workload", "tcp-rr", "--blocks", "2")
    with subprocess.Popen(
        command(tmp_path, *plain), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stderr is not None
        said = next((line for line in running.stderr if line.startswith("cross-check of ")), "")
        running.send_signal(signal.SIGINT)
        rest = running.stderr.read()
    assert said, rest
    assert running.returncode == 130, rest
    (run,) = tmp_path.iterdir()
    reader = RunReader(run)
    assert reader.done() == {(cell.id, 0) for cell in reader.plan.cells}
    assert {one.status for one in reader.samples()} == {"ok"}
    assert list(reader.records("crosscheck")) == []
    assert verify(reader, raw=True) == []
    done = subprocess.run(
        [*PROGRAM, "run", "--resume", str(run)], capture_output=True, text=True, timeout=LIMIT
    )
    assert done.returncode == 0, done.stderr
    reader = RunReader(run)
    assert {(one.block, one.attempt) for one in reader.samples()} == {(0, 1), (1, 1)}
    checks = list(reader.records("crosscheck"))
    assert sorted((one["label"], one["block"]) for one in checks) == [("a", 1), ("b", 1)]
    assert verify(reader, raw=True) == []
