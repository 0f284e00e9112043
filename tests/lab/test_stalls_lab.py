"""Programs that are really stopped while they are measured: the sample is marked, and an
undisturbed one is not.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cnibench.clusters.lab.deployment import LabDeployment
from cnibench.clusters.lab.namespaces.places import LabPod
from cnibench.registry import provider
from cnibench.run.provenance import Measured
from cnibench.run.windows.sample import measure
from cnibench.system import heartbeat
from tests._each_workload import values
from tests.lab._samples import context

MakeDeployment = Callable[..., LabDeployment]
STOPPED = 1.0  # s
LIMIT = 30.0


def pids(name: str) -> list[int]:
    """Our descendants with that name: others may be measuring here, too."""
    known: dict[int, tuple[str, int]] = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            known[int(path.name)] = heartbeat.fields((path / "stat").read_bytes())
        except (OSError, IndexError):
            continue

    def ours(pid: int) -> bool:
        while pid and pid != os.getpid():
            pid = known.get(pid, ("", 0))[1]
        return pid == os.getpid()

    return [pid for pid, (comm, _) in known.items() if comm == name and ours(pid)]


@contextmanager
def stopping(*names: str, seconds: float = STOPPED, after: float = 0.4) -> Iterator[list[str]]:
    """Stops the programs, all of a name, for so long, some time after the first of them was
    there.
    """
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


def sample(
    make_deployment: MakeDeployment,
    raw: Path,
    workload: str,
    collectors: tuple[str, ...] = (),
    duration: float = 2.0,
    **more: Any,
) -> Measured:
    params = {"payload": 1000} if workload == "http" else {}
    s = context(
        make_deployment("veth-baseline"),
        workload,
        raw,
        placement="intra",
        duration=duration,
        **params,
        **more,
    )
    return measure(
        s, provider("workloads", workload), [provider("collectors", name) for name in collectors]
    )


def stalls(measured: Measured) -> dict[str, Any]:
    (record,) = [record for name, record in measured.measurements.records if name == "stalls"]
    return record


@pytest.mark.parametrize(
    ("workload", "victim"),
    [
        ("tcp-rr", "netperf"),
        ("tcp-rr", "netserver"),
        ("iperf3-tcp", "iperf3"),
        ("http", "nginx"),
        ("http", "ab"),
    ],
)
def test_a_program_that_was_stopped_marks_the_sample(
    make_deployment: MakeDeployment, tmp_path: Path, workload: str, victim: str
) -> None:
    with stopping(victim) as done:
        measured = sample(make_deployment, tmp_path, workload)
    assert done, "nothing was stopped"
    assert f"{victim} was stopped for" in measured.disturbed
    assert values(measured.measurements), "its figures are kept"
    record = stalls(measured)
    assert record["disturbed"] == measured.disturbed
    assert 0.8 * STOPPED < record["longest_stop"] < 1.5 * STOPPED + 0.5


def test_perf_that_was_stopped_marks_the_sample(
    make_deployment: MakeDeployment, tmp_path: Path
) -> None:
    with stopping("perf", after=0.8):
        measured = sample(make_deployment, tmp_path, "tcp-stream", ("perf",))
    assert "perf was stopped for" in measured.disturbed


def test_a_short_stop_is_seen_and_measured(make_deployment: MakeDeployment, tmp_path: Path) -> None:
    with stopping("netperf", seconds=0.1):
        measured = sample(make_deployment, tmp_path, "tcp-rr")
    assert "netperf was stopped for" in measured.disturbed
    assert 0.03 < stalls(measured)["longest_stop"] < 0.5


def test_the_harness_that_was_stopped_marks_the_sample(
    make_deployment: MakeDeployment, tmp_path: Path
) -> None:
    """Somebody outside of what is stopped must do it: a shell, which is no child of ours once its
    parent has ended.
    """
    script = (
        f"(sleep 0.8; kill -STOP {os.getpid()}; sleep {STOPPED}; kill -CONT {os.getpid()})"
        " >/dev/null 2>&1 &"
    )
    deployment = make_deployment("veth-baseline")
    s = context(deployment, "tcp-rr", tmp_path, placement="intra", duration=2.0)
    subprocess.run(["setsid", "sh", "-c", script], check=True)
    measured = measure(s, provider("workloads", "tcp-rr"), [])
    assert "was stopped for" in measured.disturbed
    assert stalls(measured)["longest_stop"] > 0.5 * STOPPED


def test_everything_at_once_that_was_stopped_marks_the_sample(
    make_deployment: MakeDeployment, tmp_path: Path
) -> None:
    """As a frozen node or a paused virtual machine: the heartbeat is stopped, too, and sees that it
    was not woken.
    """
    with stopping("netperf", "netserver", heartbeat.NAME) as done:
        measured = sample(make_deployment, tmp_path, "tcp-rr")
    assert done
    assert stalls(measured)["longest_gap"] > 0.5 * STOPPED
    assert "everything on this machine stalled for" in measured.disturbed


@pytest.mark.parametrize("load", [0, 12])
def test_an_ordinary_machine_disturbs_nothing(
    make_deployment: MakeDeployment, tmp_path: Path, load: int
) -> None:
    busy = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(load)]
    try:
        # beside so many programs, seconds pass before the collectors begin
        duration = 6.0 if load else 2.0
        measured = [
            sample(make_deployment, tmp_path / str(number), "tcp-rr", duration=duration)
            for number in range(2)
        ]
    finally:
        for process in busy:
            process.kill()
            process.wait()
    assert [one.disturbed for one in measured] == ["", ""]


def test_a_frozen_cgroup_marks_the_sample(make_deployment: MakeDeployment, tmp_path: Path) -> None:
    """What a container engine's ``pause`` does to a program's cgroup, the heartbeat outside of
    it.
    """
    freezer = next(
        (
            path
            for path in (Path("/sys/fs/cgroup/freezer"), Path("/sys/fs/cgroup"))
            if (path / "cgroup.procs").exists()
        ),
        None,
    )
    if freezer is None:
        pytest.skip("no cgroups here")
    group = freezer / f"cnibench-test-stalls-{os.getpid()}"
    group.mkdir()
    control, on, off = (
        ("freezer.state", "FROZEN", "THAWED")
        if (group / "freezer.state").exists()
        else ("cgroup.freeze", "1", "0")
    )

    def freeze() -> None:
        while not (found := pids("netserver")):
            time.sleep(0.02)
        time.sleep(0.4)
        for pid in found:
            (group / "cgroup.procs").write_text(str(pid))
        (group / control).write_text(on)
        time.sleep(STOPPED)
        (group / control).write_text(off)

    thread = threading.Thread(target=freeze)
    thread.start()
    try:
        measured = sample(make_deployment, tmp_path, "tcp-rr")
    finally:
        thread.join()
        end = time.monotonic() + LIMIT
        while (group / "cgroup.procs").read_text() and time.monotonic() < end:
            time.sleep(0.05)
        group.rmdir()
    assert "netserver was frozen for" in measured.disturbed


def test_a_pod_on_another_machine_has_a_heartbeat_of_its_own(
    make_deployment: MakeDeployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both Pods as if they were elsewhere; all that runs in the server's stands still, ours goes
    on.
    """
    monkeypatch.setattr(LabPod, "local", False)
    deployment = make_deployment("veth-baseline")
    s = context(deployment, "tcp-rr", tmp_path, placement="inter", duration=2.0)
    namespace = s.server.run(["readlink", "/proc/self/ns/net"], timeout=5).stdout.strip()

    def freeze() -> None:
        while not pids("netperf"):
            time.sleep(0.02)
        time.sleep(0.4)
        victims = [int(path.name) for path in Path("/proc").glob("[0-9]*") if _in(path, namespace)]
        for number in (signal.SIGSTOP, signal.SIGCONT):
            for pid in victims:
                os.kill(pid, number)
            time.sleep(STOPPED * (number == signal.SIGSTOP))

    thread = threading.Thread(target=freeze)
    thread.start()
    measured = measure(s, provider("workloads", "tcp-rr"), [])
    thread.join()
    assert "everything in the server's Pod (node b) stalled for" in measured.disturbed
    assert stalls(measured)["longest_gap"] > 0.5 * STOPPED
    assert {path.name for path in tmp_path.glob("heartbeat.*.stdout")} == {
        f"heartbeat.{name}.stdout" for name in ("here", "client", "server")
    }


def _in(path: Path, namespace: str) -> bool:
    try:
        return os.readlink(path / "ns" / "net") == namespace
    except OSError:
        return False
