"""What other programs use of a cluster's nodes: before a run, while it measures, and in reports."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cnibench.analysis import analyse
from cnibench.errors import ClusterError
from cnibench.model.node_names import named
from cnibench.reports.json_ import PROVIDER as JSON
from cnibench.reports.text import PROVIDER as TEXT
from cnibench.run.checks import busy_nodes, stall_monitor
from cnibench.run.checks.busy_nodes import BusyNodes, look, look_or_wait
from cnibench.run.checks.node_load import NodeLoad, Usage, busiest, node_loads
from cnibench.rundir.reader import RunReader
from cnibench.system import heartbeat
from cnibench.system.process import spawn
from cnibench.testbed.place import Node
from tests.unit._runs import synthetic

SPIN = "while True: pass"
A = Usage("a", "k1", "p1", 8, used=3.0, own=1.0)
B = Usage("b", "k2", "p2", 4, used=1.5, own=1.5)


def test_each_node_has_what_is_not_ours() -> None:
    assert node_loads([A, B], {"a", "b"}) == (NodeLoad("a", 2.0, 8), NodeLoad("b", 0.0, 4))
    assert node_loads([A, B], {"b"}) == (NodeLoad("b", 0.0, 4),)
    assert node_loads([A, replace(B, own=2.0)], {"b"}) == (NodeLoad("b", 0.0, 4),)


def test_nodes_on_one_machine_count_once() -> None:
    """As on kind, where cnibench runs there, too. Two readings of one machine differ a little."""
    here = Usage("", "k1", "p0", 8, used=3.1, own=0.25)
    b = Usage("b", "k1", "p2", 8, used=3.05, own=0.5)
    assert node_loads([here, A, b], {"a", "b"}) == (NodeLoad("a+b", 1.25, 8),)
    assert node_loads([here, A], {"a"}) == (NodeLoad("a", 1.75, 8),)
    assert node_loads([here], {"a"}) == ()


def test_processes_that_two_readings_see_count_once() -> None:
    assert node_loads([A, A], {"a"}) == (NodeLoad("a", 2.0, 8),)


def test_what_another_pair_uses_on_the_node_is_ours() -> None:
    other = Usage("c", "k1", "p3", 8, used=3.0, own=0.5)
    assert node_loads([A, other], {"a"}) == (NodeLoad("a", 1.5, 8),)


def test_a_kernel_that_does_not_count_says_nothing() -> None:
    assert node_loads([replace(A, used=0.0, own=0.0), B], {"a", "b"}) == (NodeLoad("b", 0.0, 4),)
    unknown = replace(A, kernel=""), replace(B, kernel="")
    assert [one.node for one in node_loads(unknown, {"a", "b"})] == ["a", "b"]


def test_the_busiest_node_has_the_largest_share() -> None:
    assert busiest((NodeLoad("a", 2.0, 64), NodeLoad("b", 1.0, 4))) == 1.0
    assert busiest(()) is None


# Linux 6.18 with two CPUs, 1.6 s apart; a program of ours, the parent of the heartbeat, spins.
STAT = b"cpu  114928 40030 34540 29783 1157 0 528 3760 0 0"
BEAT = b"""ready
{"started": 1123.162746444, "end": 1124.96848712, "cpus": 2, "kernel": "eff51a0d", "tree": "pid:[4\
026531836] 18289", "gaps": [[1124.40216, 1124.968142, 0.565958]], "stops": [], "waits": [], "counte\
rs": [[1123.162746, 37.59, 0.0, 1890.97, 0.19], [1123.425814, 37.59, 0.0, 1891.46, 0.26], [1123.69\
4256, 37.59, 0.0, 1892.0, 0.35], [1123.964086, 37.59, 0.0, 1892.54, 0.43], [1124.228204, 37.59, 0.\
0, 1893.07, 0.53], [1124.968142, 37.6, 0.0, 1894.55, 0.58], [1124.968487, 37.6, 0.0, 1894.55, 0.58\
]]}
"""
NOTES = msgspec.json.decode(BEAT.partition(b"\n")[2], type=stall_monitor._Notes)


def heart(node: str, local: bool) -> Any:
    return stall_monitor._Heart("", Path("none"), None, local, node)  # type: ignore[arg-type]


def test_the_counters_of_a_heartbeat_become_cpus_in_use() -> None:
    assert heartbeat.used(STAT) == 114928 + 40030 + 34540
    found = stall_monitor._usage((1123.4, 1124.3, 9.0), heart("a", True), (1124.97, NOTES))
    assert found is not None
    assert (found.node, found.kernel, found.cpus) == ("a", "eff51a0d", 2)
    taken = 1124.228204 - 1123.425814
    assert found.used == pytest.approx((1893.07 - 1891.46) / taken)
    assert found.own == pytest.approx((0.53 - 0.26) / taken)


def test_the_clock_of_another_machine_is_reckoned_back() -> None:
    here = stall_monitor._usage((1123.4, 1124.3, 9.0), heart("a", True), (1124.97, NOTES))
    ended = 77.0 + NOTES.end  # by our clock, which is that much ahead
    there = stall_monitor._usage((1200.4, 1201.3, 9.0), heart("a", False), (ended, NOTES))
    assert there == here
    assert stall_monitor._usage((1200.4, 1201.3, 9.0), heart("a", False), None) is None


def test_in_the_lab_others_are_all_programs_but_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stall_monitor, "_end", lambda _: (1124.97, NOTES))
    watch = stall_monitor.Watch(heart("", True), {})
    (seen,) = watch.evidence([(1123.4, 1124.3, 9.0)])
    taken = 1124.228204 - 1123.425814
    assert seen.others == pytest.approx((1893.07 - 1891.46 - (0.53 - 0.26)) / taken)
    assert seen.node_load == ()


def test_a_client_of_a_moment_has_the_figures_of_the_whole_heartbeat() -> None:
    found = stall_monitor._usage((1123.5, 1123.6, 9.0), heart("a", True), (1124.97, NOTES))
    assert found is not None
    assert found.used == pytest.approx((1894.55 - 1890.97) / (1124.968487 - 1123.162746))


def test_a_heartbeat_tells_ours_from_others(tmp_path: Path) -> None:
    """It watches this process and all that it started: one program, and another that nobody waits
    for.
    """
    text = Path(heartbeat.__file__).read_text()
    orphan = f"{sys.executable} -c '{SPIN}' > /dev/null 2>&1 & echo $!"
    other = int(subprocess.check_output(["setsid", "sh", "-c", orphan]))
    try:
        with (
            spawn([sys.executable, "-c", SPIN]) as ours,
            spawn(
                [sys.executable, "-I", "-S", "-c", text, "0.02"], stdout=tmp_path / "out"
            ) as beat,
        ):
            until(lambda: (tmp_path / "out").read_bytes().startswith(b"ready"))
            ran = seconds(ours.pid), seconds(other)
            until(lambda: seconds(ours.pid) - ran[0] > 0.5 and seconds(other) - ran[1] > 0.5)
            beat.interrupt()
            beat.wait(10.0)
        data = (tmp_path / "out").read_bytes().partition(b"\n")[2]
    finally:
        subprocess.run(["kill", "-KILL", str(other)], check=True)
    found = msgspec.json.decode(data, type=stall_monitor._Notes)
    (_, _, _, used, own), (_, _, _, used_then, own_then) = found.counters[0], found.counters[-1]
    assert own_then - own > 0.4, "it has used 0.5 s at least"
    assert used_then - used - (own_then - own) > 0.3, "so has the other program"
    assert found.kernel == heartbeat.kernel()


def test_what_ended_programs_used_stays_ours(tmp_path: Path) -> None:
    text = Path(heartbeat.__file__).read_text()
    with spawn([sys.executable, "-I", "-S", "-c", text, "0.02"], stdout=tmp_path / "out") as beat:
        until(lambda: (tmp_path / "out").read_bytes().startswith(b"ready"))
        burn = "import time\nwhile time.process_time() < 0.4: pass"
        subprocess.run([sys.executable, "-c", burn], check=True)
        beat.interrupt()
        beat.wait(10.0)
    data = (tmp_path / "out").read_bytes().partition(b"\n")[2]
    lines = msgspec.json.decode(data, type=stall_monitor._Notes).counters
    assert lines[-1][4] - lines[0][4] >= 0.35


def test_what_a_child_used_that_nobody_waits_for_stays_ours(tmp_path: Path) -> None:
    """As netserver's, which ignores SIGCHLD: its time is added to no parent's."""
    text = Path(heartbeat.__file__).read_text()
    burn = "import time\nwhile time.process_time() < 0.8: pass"
    ignoring = (
        "import signal, subprocess, sys, time; signal.signal(signal.SIGCHLD, signal.SIG_IGN);"
        f"subprocess.Popen([sys.executable, '-c', {burn!r}]).wait();"
        "print('done', flush=True); time.sleep(60)"
    )
    with (
        spawn([sys.executable, "-I", "-S", "-c", text, "0.02"], stdout=tmp_path / "out") as beat,
        spawn([sys.executable, "-c", ignoring], stdout=tmp_path / "said"),
    ):
        until(lambda: (tmp_path / "said").read_bytes() == b"done\n")
        time.sleep(0.6)
        beat.interrupt()
        beat.wait(10.0)
    data = (tmp_path / "out").read_bytes().partition(b"\n")[2]
    own = [line[4] for line in msgspec.json.decode(data, type=stall_monitor._Notes).counters]
    assert own == sorted(own)
    assert own[-1] - own[0] > 0.3, "all but what it used after the last look"


def until(what: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not what():
        assert time.monotonic() < end
        time.sleep(0.02)


def seconds(pid: int) -> float:
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


class ThisMachine(Node):
    """A node that is this machine."""

    def __init__(self, name: str) -> None:
        self.name = name

    def spawn(self, *_: Any, **more: Any) -> Any:
        raise AssertionError

    def run(self, *_: Any, **more: Any) -> Any:
        raise AssertionError

    def read_text(self, path: str) -> str:
        return Path(path).read_text()


class Unreadable(ThisMachine):
    def read_text(self, path: str) -> str:
        raise ClusterError("Permission denied: /proc/stat")


@contextmanager
def spinning() -> Iterator[int]:
    with subprocess.Popen([sys.executable, "-c", SPIN]) as program:
        until(lambda: seconds(program.pid) > 0.05)
        yield program.pid
        program.kill()


def test_a_look_sees_what_runs_on_the_nodes() -> None:
    with spinning() as pid:
        before, began = seconds(pid), time.monotonic()
        found = look([ThisMachine("a"), ThisMachine("b")], 0.5)
        ran, taken = seconds(pid) - before, time.monotonic() - began
    (load,) = found.loads
    assert load.node == "a+b"
    assert load.others > 0.5 * ran / taken


def test_busy_nodes_are_named_and_the_others_not() -> None:
    busy = BusyNodes((NodeLoad("a", 0.5, 8), NodeLoad("b", 7.25, 8), NodeLoad("c", 0.9, 1)))
    assert str(busy) == ("other programs use 7.2 of 8 CPUs of node b and 0.9 of 1 CPU of node c")
    assert (busy.disturbs, busy.programs) == (True, "b, c")
    assert not BusyNodes((NodeLoad("a", 0.5, 8),)).disturbs
    assert named("a+b") == "nodes a and b (one machine)"
    assert named("a+b+c") == "nodes a, b and c (one machine)"


BUSY = BusyNodes((NodeLoad("a", 1.9, 2),))
IDLE = BusyNodes((NodeLoad("a", 0.1, 2),))


def looks(monkeypatch: pytest.MonkeyPatch, *found: BusyNodes) -> None:
    left = list(found)
    monkeypatch.setattr(busy_nodes, "look", lambda _: left.pop(0) if len(left) > 1 else left[0])


def test_busy_nodes_are_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    looks(monkeypatch, BUSY)
    assert look_or_wait([], 0.0, said.append) == (BUSY, "")
    assert said == [
        "warning: the nodes are busy: other programs use 1.9 of 2 CPUs of node a; stop them, or"
        " wait with --wait-quiet 5m"
    ]
    looks(monkeypatch, IDLE)
    assert look_or_wait([], 0.0, said.append) == (IDLE, "")
    assert len(said) == 1


def test_nodes_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    looks(monkeypatch, BUSY, BUSY, IDLE)
    assert look_or_wait([], 60.0, said.append) == (IDLE, "")
    assert len(said) == 1
    assert said[0].startswith("waiting at most 60 s: other programs use 1.9 of 2 CPUs of node a")


def test_a_limit_that_passes_does_not_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    looks(monkeypatch, BUSY)
    found, missed = look_or_wait([], 1e-9, said.append)
    assert found == BUSY
    assert missed.startswith("--wait-quiet: after 1e-09 s the nodes were still busy: other")
    assert said[-1].startswith("warning: the nodes are busy: ")
    assert "--wait-quiet" not in said[-1]


def test_nodes_that_cannot_be_read_do_not_end_the_run() -> None:
    said: list[str] = []
    assert look_or_wait([Unreadable("a")], 0.0, said.append) == (BusyNodes(()), "")
    assert said == ["how busy the nodes are cannot be seen: Permission denied: /proc/stat"]
    assert look_or_wait([Unreadable("a")], 9.0, said.append)[1].startswith("--wait-quiet: ")


def record(where: dict[str, Any], *loads: tuple[str, float, int], **more: Any) -> dict[str, Any]:
    there = [
        {"node": node, "others": used, "cpus": cpus, "estimate": False}
        for node, used, cpus in loads
    ]
    worst = max((used / cpus, used) for _, used, cpus in loads)[1] if loads else None
    return {"schema": 1, **where, "taken": 2.0, "others": worst, "node_load": there, **more}


@pytest.fixture
def measured(tmp_path: Path) -> Callable[..., RunReader]:
    """A run whose samples of one place have such records."""

    def made(*loads: tuple[tuple[str, float, int], ...], **facts: Any) -> RunReader:
        run = synthetic(
            tmp_path, {"x": 1.0}, blocks=4, cpp=False, environment={"cpus_online": 2, **facts}
        )
        cells = [one for one in RunReader(run.path).plan.cells if one.placement == "intra"]
        where = next(msgspec.structs.asdict(one) for one in cells if one.workload == "tcp-rr")
        (run.path / "stalls.jsonl").write_bytes(
            b"".join(msgspec.json.encode(record(where, *each)) + b"\n" for each in loads)
        )
        return RunReader(run.path)

    return made


def test_a_busy_node_is_named_in_the_first_line(measured: Callable[..., RunReader]) -> None:
    quiet = ("a", 0.4, 8)
    run = measured(
        (quiet, ("b", 6.0, 16)),
        (quiet, ("b", 5.0, 16)),
        (quiet, ("b", 7.0, 16)),
        node_load=[{"node": "b", "others": 3.2, "cpus": 16, "estimate": False}],
    )
    found = analyse([run])
    assert found.summary[0] == (
        "Busy machine: other programs used 3.2 of 16 CPUs of node b before it started and at least"
        " 6.0 of 16 CPUs of node b while it measured (median, the nodes' own programs included)."
    )
    text = " ".join(TEXT.render(found).split())
    said = "used by other programs, median share of the busiest node's CPUs, at least: x 38%"
    assert text.count(said) == 1
    told = json.loads(JSON.render(found))
    assert told["others"] == 6.0
    assert [(one["node"], one["others"], one["cpus"]) for one in told["node_load"]] == [
        ("a", 0.4, 8),
        ("b", 6.0, 16),
    ]


def test_a_cell_on_one_node_of_a_shared_machine_is_of_that_machine(
    measured: Callable[..., RunReader],
) -> None:
    """As on kind: cells on one node name that node alone."""
    run = measured((("a", 0.4, 2),), (("a+b", 0.6, 2),), (("a", 0.8, 2),))
    found = analyse([run])
    assert [(one.node, one.others) for one in found.node_load] == [("a+b", 0.6)]
    assert "median share of all CPUs" in " ".join(TEXT.render(found).split())


def test_what_quiet_nodes_do_stands_beside_the_figures(measured: Callable[..., RunReader]) -> None:
    found = analyse([measured((("a+b", 0.1, 2),), (("a+b", 0.12, 2),), (("a+b", 0.14, 2),))])
    assert not any("Busy" in line for line in found.summary)
    text = " ".join(TEXT.render(found).split())
    assert "used by other programs, median share of all CPUs, at least: x 6%" in text


@pytest.mark.parametrize(
    "said",
    [
        None,
        "busy",
        [1],
        [{}],
        [{"node": "a", "others": "1", "cpus": 2}],
        [{"others": 1, "cpus": 0}],
    ],
)
def test_what_is_no_load_of_nodes_is_passed_over(tmp_path: Path, said: Any) -> None:
    """Records of earlier versions have none."""
    run = synthetic(
        tmp_path, {"x": 1.0}, blocks=4, environment={"cpus_online": 2, "node_load": said}
    )
    line = json.dumps({"schema": 1, "others": 0.1, "node_load": said}) + "\n"
    (run.path / "stalls.jsonl").write_text(line)
    found = analyse([RunReader(run.path)])
    assert (found.others, found.node_load) == (0.1, [])
    assert not any("Busy" in one for one in found.summary)
