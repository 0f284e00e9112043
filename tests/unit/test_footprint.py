"""The footprint of processes: readings of /proc, and real processes that are watched and end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cnibench.collectors import footprint
from cnibench.collectors.footprint import Look, look
from cnibench.run.sample_context import Measurements
from cnibench.testbed.capabilities.cni_processes import CniProcesses
from cnibench.testbed.capabilities.pods.extra import ExtraPods

LIMIT = 20.0  # s
IDLE = "import time; time.sleep(60)"
HOLDER = """
import sys, time
held = b"x" * (40 << 20)
print("held", flush=True)
end = time.process_time() + 0.3
while time.process_time() < end:
    pass
time.sleep(60)
"""
# Waits for a child that computes, and tells when it has.
PARENT = """
import subprocess, sys, time
sys.stdin.readline()
subprocess.run([sys.executable, "-c", "import time\\nwhile time.process_time() < 0.3: pass"])
print("waited", flush=True)
time.sleep(60)
"""
STAT = "7 (a) b (c) S 5 2 3 4 5 6 7 8 9 10 111 222 30 4 20 0 1 0 98765 11 12"
STATUS = (
    "Name:\ta: b\nVmRSS:\t    900 kB\nRssAnon:\t     600 kB\nRssFile:\t     200 kB\nRssShmem:\t    "
    " 100 kB\n"
)


@contextmanager
def program(source: str) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(
        [sys.executable, "-c", source], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture
def holder() -> Iterator[subprocess.Popen[bytes]]:
    """A process with 40 MiB of its own that computes for 0.3 s of CPU time."""
    with program(HOLDER) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        yield process


def pod(node: str, interface: str = "eth0") -> Any:
    return SimpleNamespace(node=SimpleNamespace(name=node), interface=interface)


def under(processes: Any) -> Any:
    nodes = (SimpleNamespace(name="a"), SimpleNamespace(name="b"))
    pods = [pod("a"), pod("a"), pod("a", ""), pod("b")]
    deployment = _Deployment()
    deployment.found, deployment.made = processes, pods
    deployment.nodes = lambda: nodes
    return SimpleNamespace(deployment=deployment)


class _Deployment(CniProcesses, ExtraPods):
    fidelity = "datapath-model"
    found: Any
    made: Any
    nodes: Any

    def processes(self) -> Any:
        return self.found

    def pods(self) -> Any:
        return self.made

    def add_pods_on(self, wanted: Any) -> Any:
        raise NotImplementedError

    def read_texts(self, pods: Any, path: str) -> Any:
        raise NotImplementedError


def figures(found: Measurements) -> dict[tuple[str, str, str], float]:
    """(process, node, metric) to value."""
    return {
        (str(one.params["process"]), str(one.params.get("node", "")), one.metric): one.value
        for one in found.readings
    }


def records(found: Measurements) -> dict[str, dict[str, Any]]:
    assert {file for file, _ in found.records} == {"footprint"}
    return {
        (
            f"{record['process']} {record['node']}"
            if record["process"] == footprint.ALL
            else record["process"]
        ): record
        for _, record in found.records
    }


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_names_with_blanks_and_brackets_do_not_shift_the_fields() -> None:
    """CPU time has that of children that were waited for, memory is without pages of files."""
    assert look(STAT, STATUS) == Look(parent=5, began=98765, memory=700 << 10, user=141, system=226)
    assert look(STAT, "Name:\ta\nState:\tZ (zombie)\n") is None


def test_memory_and_cpu_of_each_process_and_of_their_node(
    holder: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[float] = []
    real = footprint._Place.look
    monkeypatch.setattr(footprint, "_EVERY", 0.02)
    monkeypatch.setattr(
        footprint._Place, "look", lambda place: (real(place), looks.append(time.monotonic()))
    )
    found = Measurements()
    with (
        program(IDLE) as other,
        footprint.PROVIDER.observe(under({"d-a": holder.pid, "e-a": other.pid}), found),
    ):
        until(
            lambda: (
                sum(
                    map(
                        int,
                        Path(f"/proc/{holder.pid}/stat")
                        .read_text()
                        .rpartition(")")[2]
                        .split()[11:13],
                    )
                )
                >= 15
            )
        )
        until(lambda: len(looks) >= 3)
    values = figures(found)
    assert set(values) == {
        (*which, metric)
        for which in (("d-a", ""), ("e-a", ""), ("all", "a"))
        for metric in ("memory", "cpu_user", "cpu_system")
    }
    assert values["d-a", "", "memory"] >= 40 << 20
    assert values["d-a", "", "cpu_user"] + values["d-a", "", "cpu_system"] > 0
    told = records(found)
    assert set(told) == {"d-a", "e-a", "all a"}
    assert {record["pods"] for record in told.values()} == {2}, (
        "those of the node, without the one on the node's own network"
    )
    for record in told.values():
        assert (
            len(record["times"])
            == len(record["values"])
            == len(record["cpu_user"])
            == len(record["cpu_system"])
            >= 3
        )
        assert record["cpu_user"][0] == 0.0
        assert record["cpu_user"] == sorted(record["cpu_user"])
    parts = zip(told["d-a"]["values"], told["e-a"]["values"], strict=True)
    assert told["all a"]["values"] == [sum(part) for part in parts]
    assert values["all", "a", "memory"] == max(told["all a"]["values"])
    assert values["all", "a", "cpu_user"] == pytest.approx(
        values["d-a", "", "cpu_user"] + values["e-a", "", "cpu_user"]
    )


def test_kube_proxy_is_in_no_total(holder: subprocess.Popen[bytes]) -> None:
    found = Measurements()
    with (
        program(IDLE) as proxy,
        footprint.PROVIDER.observe(under({"d-a": holder.pid, "kube-proxy on-a": proxy.pid}), found),
    ):
        pass
    told = records(found)
    assert set(told) == {"d-a", "kube-proxy on-a", "all a"}
    assert told["all a"]["processes"] == ["d-a"]
    assert told["all a"]["values"] == told["d-a"]["values"]


def test_the_time_of_children_counts() -> None:
    found = Measurements()
    with program(PARENT) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        with footprint.PROVIDER.observe(under({"d": parent.pid}), found):
            parent.stdin.write(b"\n")
            parent.stdin.flush()
            assert parent.stdout.readline() == b"waited\n"
    told = records(found)
    assert set(told) == {"d"}, "no total of no node"
    assert told["d"]["cpu_user"][-1] + told["d"]["cpu_system"][-1] >= 0.25


def test_a_process_that_ends_within_the_window_is_reported_and_has_no_figures(
    holder: subprocess.Popen[bytes],
) -> None:
    """Neither has the node's total; the other processes and the other node have theirs."""
    found = Measurements()
    with program(IDLE) as here, program(IDLE) as there:
        watched = {"d-a": holder.pid, "e-a": here.pid, "f-b": there.pid, "g-b": 2**22 + 1}
        with footprint.PROVIDER.observe(under(watched), found):
            holder.kill()
            holder.wait(LIMIT)
    told = records(found)
    assert told["d-a"] == {"process": "d-a", "node": "a", "pods": 2, "said": footprint.WITHIN}
    assert told["g-b"] == {"process": "g-b", "node": "b", "pods": 1, "said": footprint.BEFORE}
    assert told["all a"]["said"] == "no total: d-a ended"
    assert told["all b"]["said"] == "no total: g-b ended"
    assert {process for process, *_ in figures(found)} == {"e-a", "f-b"}
    assert len(told["e-a"]["values"]) == len(told["e-a"]["times"]) >= 2


def test_a_parent_of_one_that_ended_has_no_cpu_time() -> None:
    """What it waited for brings the time from before the window along."""
    source = (
        'import subprocess, time\nchild = subprocess.Popen(["sleep", "60"])\nprint(child.pid,'
        " flush=True)\nchild.wait()\ntime.sleep(60)"
    )
    found = Measurements()
    with program(source) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        with footprint.PROVIDER.observe(under({"d-a": parent.pid, "e-a": child}), found):
            os.kill(child, signal.SIGTERM)
            until(lambda: not Path(f"/proc/{child}").exists())
    assert set(figures(found)) == {("d-a", "", "memory")}
    assert records(found)["d-a"]["said"] == footprint.CHILD


def test_no_process_is_said_and_the_unknown_is_silent() -> None:
    found = Measurements()
    with footprint.PROVIDER.observe(under({}), found):
        pass
    assert found.records == [("footprint", {"process": "", "said": footprint.NONE})]
    nothing = Measurements()
    with footprint.PROVIDER.observe(under(None), nothing):
        pass
    assert nothing == Measurements()
