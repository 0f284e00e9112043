"""What else uses the machine: before a run, which may wait, and while it measures."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from cnibench.analysis import analyse
from cnibench.cli.measurement.execute import others
from cnibench.rundir.reader import RunReader
from cnibench.system import usage
from cnibench.system.process import run, spawn
from cnibench.system.usage import Busy, Share, Times, between, wait_until_quiet
from tests.unit._call import call
from tests.unit._runs import synthetic

BURN = "import time\nwhile time.process_time() < 0.4: pass"


def test_what_is_not_ours_is_others() -> None:
    one = Times(at=10.0, used=100.0, steal=5.0, own=20.0, throttled=1.0)
    other = Times(at=12.0, used=103.0, steal=5.2, own=21.0, throttled=1.5)
    cpus = os.cpu_count() or 1
    found = between(one, other)
    assert (found.others, found.throttled) == (pytest.approx(1.0), pytest.approx(0.5))
    assert found.steal == pytest.approx(0.1 / cpus)
    assert between(one, Times(12.0, 100.5, 5.0, 21.0, 1.0)) == Share(0.0, 0.0, 0.0)


def test_our_own_programs_are_ours_while_they_run_and_afterwards() -> None:
    first = usage.read()
    run([sys.executable, "-c", BURN], timeout=60)
    second = usage.read()
    assert second.own - first.own >= 0.35
    with spawn([sys.executable, "-c", f"{BURN}\ntime.sleep(60)"]):
        while usage.read().own - second.own < 0.35:
            assert usage.read().at - second.at < 60


def test_a_program_of_our_own_is_not_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage, "_NAMED", 1000)
    monkeypatch.setattr(usage, "_SMALL", 0.0)
    name = "import pathlib; pathlib.Path('/proc/self/comm').write_text('burner-of-test')\n"
    endless = f"{name}while True: pass"
    with spawn([sys.executable, "-c", endless]):
        assert "burner-of-test" not in usage.look(0.3).programs
    # one that nobody waits for is not below us any more
    orphan = f'{sys.executable} -c "$1" > /dev/null 2>&1 & echo $!'
    pid = int(run(["setsid", "sh", "-c", orphan, "sh", endless], timeout=30).stdout)
    try:
        assert "burner-of-test" in usage.look(0.5).programs
    finally:
        os.kill(pid, 9)


def test_waiting_says_for_what_and_has_a_limit() -> None:
    busy, less, idle = Busy(64.0, "cc1 1.9"), Busy(60.0, "cc1 0.9"), Busy(0.0, "")
    said: list[str] = []
    looks = iter([busy, busy, less, idle])
    assert wait_until_quiet(60, said.append, lambda: next(looks)) == idle
    assert [line.partition(": ")[2] for line in said] == [str(busy), str(less)]
    assert said[0].startswith("waiting at most 60 s: other programs use 64.0 of ")
    assert wait_until_quiet(0.0, said.append, lambda: busy) == busy


@pytest.mark.parametrize("wait", [0.0, 300.0])
def test_at_other_machines_the_runner_looks(wait: float) -> None:
    assert others(manages_nodes=False, wait_quiet=wait) == {}


def test_a_limit_that_passes_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(usage.Busy, "disturbs", True)
    facts = others(manages_nodes=True, wait_quiet=0.5)
    assert facts["unheld"][0].startswith("--wait-quiet: after 0.5 s other programs still used")
    assert "warning: the machine is busy: other programs use" in capsys.readouterr().err


def test_a_busy_machine_comes_first_in_the_report(tmp_path: Path) -> None:
    facts = {"busy": 1.3, "cpus_online": 2}
    loud = synthetic(tmp_path, {"x": 1.0}, blocks=4, environment=facts)
    said = "Busy machine: other programs used 1.3 of 2 CPUs before it started."
    assert analyse([loud]).summary[0] == said
    assert said in " ".join(call(["report", str(loud.path)]).stdout.split())
    quiet = synthetic(tmp_path, {"x": 1.0}, blocks=4, name="q", environment=facts | {"busy": 0.1})
    assert not any("Busy" in line for line in analyse([quiet]).summary)


def test_what_others_used_while_it_measured_comes_first(tmp_path: Path) -> None:
    loud = synthetic(tmp_path, {"x": 1.0}, blocks=4, environment={"cpus_online": 2})
    records = [{"schema": 1, "others": value} for value in (0.1, 0.9, None, 1.0)]
    lines = "".join(json.dumps(record) + "\n" for record in records)
    (loud.path / "stalls.jsonl").write_text(lines)
    found = analyse([RunReader(loud.path)])
    assert found.others == 0.9
    assert found.summary[0] == (
        "Busy machine: other programs used at least 0.9 of 2 CPUs while it measured (median)."
    )


def test_what_is_taken_from_the_measured_programs_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage.os, "cpu_count", lambda: 2)
    assert usage.Share(0.2, 0.009, 0.009).disturbance() == ""
    taken = usage.Share(1.26, 0.034, 0.25)
    rest = (
        "the host gave 3% of the CPU time to others (steal), a CPU quota held its programs back for"
        " 0.25 s"
    )
    assert taken.disturbance() == f"other programs used 1.3 of 2 CPUs, {rest}"
    assert taken.disturbance(alone=False) == rest
