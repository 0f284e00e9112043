"""A setting that was asked for and does not hold, or could not be read back, is said; samples that
differ in one are neither pooled nor compared.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cnibench.analysis.build import analyse
from cnibench.errors import MeasureError, UsageError
from cnibench.model.coordinates import NONE, UNREAD
from cnibench.planning.plan import build_plan
from cnibench.run.checks import congestion, cpus
from cnibench.run.slices import priority
from cnibench.run.windows import sample
from cnibench.rundir.reader import RunReader
from cnibench.rundir.writer import RunWriter
from cnibench.system import process as programs
from cnibench.testbed.cluster import Options
from tests.unit._call import call
from tests.unit._here import Here
from tests.unit._local_cluster import Local, cell, manifest, runner
from tests.unit._runs import synthetic

NOBODY = 65534
PLAIN: dict[str, Any] = {"cpp": False, "workloads": ("tcp-rr",), "placements": ("intra",)}


def a_context(asked: str, of_lab: bool = True) -> Any:
    here = Here(of_lab=of_lab)
    return SimpleNamespace(client=here, server=here, congestion_control=asked)


def a_workload(port: int) -> Any:
    return SimpleNamespace(data_port=lambda s: port)


def test_a_connection_that_ended_unread_is_not_what_was_asked_for() -> None:
    with programs.spawn(["true"]) as client:
        client.wait(10)
        assert sample._congestion([a_context("cubic")], a_workload(1), [client]) == [UNREAD]
        assert sample._congestion([a_context("cubic")], a_workload(0), [client]) == [NONE]


def test_a_connection_that_stays_unread_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample, "_SEEN", 0.05)
    with (
        programs.spawn(["sleep", "60"]) as client,
        pytest.raises(MeasureError, match="could not be read: within 0 s there was none on port 1"),
    ):
        sample._congestion([a_context("cubic")], a_workload(1), [client])
    with programs.spawn(["sleep", "60"]) as client:
        assert sample._congestion([a_context("")], a_workload(1), [client]) == [UNREAD]


@pytest.mark.parametrize(
    ("of_lab", "remedy"),
    [(True, "changed the Pods' routes"), (False, "leave --congestion-control")],
)
def test_the_remedy_is_that_of_the_place(of_lab: bool, remedy: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):
            peer, _ = server.accept()
            with peer, pytest.raises(MeasureError, match="and nosuch was asked for") as error:
                congestion.of_sample(a_context("nosuch", of_lab), port, 1.0)
    assert remedy in error.value.remedy


def change(run: RunReader, what: Callable[[dict[str, Any]], dict[str, Any]]) -> RunReader:
    file = run.path / "samples.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    file.write_text("".join(json.dumps(line | what(line)) + "\n" for line in lines))
    return RunReader(run.path)


def unread(line: dict[str, Any]) -> dict[str, Any]:
    """x was never read, y in every second block."""
    missing = line["label"] == "x" or line["block"] % 2
    return {"congestion_control": UNREAD if missing else "cubic"}


def test_samples_that_were_not_read_back_stay_in_their_cells(tmp_path: Path) -> None:
    run = change(synthetic(tmp_path, {"x": 1.0, "y": 1.1}, blocks=8, **PLAIN), unread)
    found = analyse([run])
    assert {(one.label, one.n, one.failed) for one in found.results} == {("x", 8, 0), ("y", 8, 0)}
    assert {one.n for one in found.pairs} == {8}
    assert found.unread == {"congestion_control": 12}
    assert found.summary[0] == (
        "Settings that were not read back: congestion control of 12 of 16 samples."
    )
    shown = " ".join(call(["report", str(run.path)]).stdout.split())
    assert "not read back: congestion control of 12 of 16 samples" in shown


def test_runs_are_pooled_where_one_was_not_read_back(tmp_path: Path) -> None:
    one, other = (
        change(
            synthetic(tmp_path, {"x": 1.0}, name=name, seed=seed, blocks=4, **PLAIN),
            lambda line, value=value: {"congestion_control": value},  # type: ignore[misc]
        )
        for name, seed, value in (("one", 1, "cubic"), ("other", 2, UNREAD))
    )
    found = analyse([one, other])
    assert {(r.n, r.tried, r.congestion_control) for r in found.results} == {(2, 8, "cubic")}
    third = change(
        synthetic(tmp_path, {"x": 1.0}, name="third", seed=3, blocks=4, **PLAIN),
        lambda line: {"congestion_control": "bbr"},
    )
    refused = call(["report", str(one.path), str(other.path), str(third.path)])
    assert refused.exit_code == 2
    assert "congestion control: cubic against bbr" in refused.stderr


def test_samples_of_one_cell_that_differ_are_not_pooled(tmp_path: Path) -> None:
    """As after a resumption where real-time priority is refused."""
    run = change(
        synthetic(tmp_path, {"x": 1.0, "y": 1.1}, blocks=8, **PLAIN),
        lambda line: {"priority": "real-time" if line["block"] < 5 else "normal"},
    )
    found = analyse([run])
    assert {(one.label, one.priority, one.n, one.failed) for one in found.results} == {
        ("x", "real-time", 5, 0),
        ("y", "real-time", 5, 0),
        ("x", "normal", 3, 0),
        ("y", "normal", 3, 0),
    }
    assert found.summary[0] == (
        "The samples of 2 cells differ in priority (normal and real-time); they are not pooled."
    )
    refused = call(["compare", f"{run.path}:x", f"{run.path}:y"])
    assert refused.exit_code == 2
    assert "priority within one cell: real-time against normal" in refused.stderr


def as_nobody(code: str) -> str:
    """What a program without privileges prints, which has this interpreter's modules."""
    done = subprocess.run(
        [sys.executable, "-c", f"import os; {code}"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        preexec_fn=lambda: os.setpriority(os.PRIO_PROCESS, 0, 3),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_refused_priority_is_said() -> None:
    found = as_nobody(
        "from cnibench.system.process import *; from cnibench.system import process;"
        f" os.setgid({NOBODY}); os.setuid({NOBODY});"
        " process.ahead(); print(process.priority_refused());"
        " os.setpriority(os.PRIO_PROCESS, 0, 9);"
        " print(run(['nice'], timeout=9).stdout.strip(), process.priority_refused()[1:])"
    )
    assert found.splitlines() == [
        "['nice value of cnibench itself: -10 was asked for, 3 (Permission denied)']",
        "9 ['nice value of the programs that cnibench starts: 3 was asked for, 9"
        " (Permission denied)']",
    ]


def test_a_refused_real_time_priority_is_said() -> None:
    found = as_nobody(
        "from cnibench.run.slices.priority import *; import resource;"
        " resource.setrlimit(resource.RLIMIT_RTPRIO, (0, 0));"
        f" os.setgid({NOBODY}); os.setuid({NOBODY});"
        " print(raised([os.getpid()], CLIENT)); said = ahead().__enter__(); print(said)"
    )
    assert found.splitlines() == ["real-time priority was refused (Operation not permitted)"] * 2


@pytest.mark.skipif(os.geteuid() != 0, reason="real-time priority is for root")
def test_a_granted_real_time_priority_is_read_back(monkeypatch: pytest.MonkeyPatch) -> None:
    with programs.spawn(["sleep", "60"]) as child:
        if said := priority.raised([child.pid], priority.CLIENT):
            pytest.skip(said)
        assert priority.priority_of(child.pid) == "real-time"
        monkeypatch.setattr(os, "sched_setscheduler", lambda *_: None)
    with programs.spawn(["sleep", "60"]) as child:
        assert priority.priority_of(child.pid) == "normal"
        assert priority.raised([child.pid], priority.CLIENT) == (
            "real-time priority was refused (it did not hold)"
        )


def test_a_program_that_may_run_elsewhere_is_not_pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpus, "_PINNED", 0.1)
    last = max(os.sched_getaffinity(0))
    with programs.spawn(["taskset", "-c", str(last), "sleep", "60"]) as child:
        cpus.check_pinned(child.pid, last, "its client")
        with pytest.raises(MeasureError, match=f"on the CPUs {last}, and {last + 1} was asked for"):
            cpus.check_pinned(child.pid, last + 1, "its client")
    cpus.check_pinned(child.pid, last, "its client")  # one that has ended is another's concern


@pytest.mark.parametrize(
    ("pinned", "siblings", "said"),
    [
        ([(1, 1)], {}, ""),
        ([(None, None)], {}, ""),
        ([(0, 1)], {0: 0, 1: 1}, ""),
        ([(0, 1)], {0: 0, 1: 0}, "two threads of one core"),
        ([(0, 1)], {0: 0}, "not known here"),
    ],
)
def test_client_and_server_on_one_core_are_said(
    pinned: list[tuple[int | None, int | None]], siblings: dict[int, int], said: str
) -> None:
    found = cpus.doubts(pinned, siblings)
    assert len(found) == bool(said)
    assert said in "".join(found)


def test_settings_of_all_sessions_come_first_in_the_report(tmp_path: Path) -> None:
    """What an earlier session could not set, a resumed one does not forget."""
    plan = manifest([cell("a")], 1)
    with RunWriter.create(tmp_path / "run", plan) as writer:
        runner(
            writer, Local(Options()), environment={"unheld": ["one"]}, recorded={"unheld": ["zero"]}
        ).run()
        events = (tmp_path / "run" / "events.jsonl").read_text()
    assert events.count("setting-does-not-hold") == 1
    assert RunReader(tmp_path / "run").environment["unheld"] == ["one", "zero"]


def test_a_wire_rate_beyond_the_queue_is_refused() -> None:
    with pytest.raises(UsageError, match="expected at most 34G"):
        build_plan({"cni": ["host"], "wire_rate": "100G"})
