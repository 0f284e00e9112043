"""``run --priority``: what it makes of a plan, and where it is refused before anything starts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cnibench.cli.measurement import priorities
from cnibench.cli.measurement.plan import plan_of
from cnibench.cli.options.plan import PlanOptions
from cnibench.errors import CnibenchError, MeasureError, UsageError
from cnibench.model.profile import builtin
from cnibench.planning.cells import cells
from cnibench.planning.plan import Plan, build_plan
from cnibench.registry import providers
from cnibench.run.slices import priority
from cnibench.system import process
from tests.unit._call import call, call_in_child

WORKLOADS = providers("workloads")
RUN = ["run", "--cni", "veth-baseline", "--no-perf", "--kernel", "host"]
ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="real-time priority is for root")


def check(plan: Plan, **more: Any) -> None:
    priorities.check(plan, *cells(plan, WORKLOADS, {"a": builtin()["veth-baseline"]}), **more)


@pytest.mark.parametrize("method", ["slices", "windows"])
def test_every_cell_has_the_priority_of_the_plan(method: str) -> None:
    for asked, found in (("normal", "normal"), ("real-time", "real-time"), (None, None)):
        plan = plan_of(PlanOptions(cni=["a"], method=method, priority=asked))
        made, _ = cells(plan, WORKLOADS, {"a": builtin()["flannel"]})
        assert {one.priority for one in made} == {found}
        assert {one.usual_priority for one in made} == {
            "real-time" if method == "slices" else "normal"
        }
        assert Plan.model_validate(plan.model_dump(mode="json", by_alias=True)) == plan


def test_a_plan_file_has_the_key_and_the_option_replaces_it() -> None:
    base = build_plan({"cni": ["a"], "priority": "normal"})
    assert build_plan({"priority": "real-time"}, base).priority == "real-time"
    assert build_plan({"title": "x"}, base).priority == "normal"
    with pytest.raises(UsageError, match="priority"):
        build_plan({"priority": "high"})


@pytest.mark.parametrize(
    ("options", "in_vm", "said", "remedy"),
    [
        ({"method": "windows"}, False, "is measured in windows; windows", "use --method slices"),
        ({"pairs": 2, "method": "slices"}, False, "pairs at the same time", "leave tcp-stream out"),
        (
            {"method": "slices", "workload": ["tcp-rr", "rule-path"]},
            False,
            "rule-path is measured in windows, not in slices",
            "leave rule-path out",
        ),
        ({"method": "slices"}, True, "in a VM", "--kernel host"),
    ],
)
def test_real_time_is_refused_where_it_cannot_hold(
    options: dict[str, Any], in_vm: bool, said: str, remedy: str
) -> None:
    with pytest.raises(UsageError) as refused:
        check(build_plan({**options, "priority": "real-time"}), in_vm=in_vm)
    assert said in refused.value.message
    assert remedy in refused.value.remedy
    for asked in ("normal", ""):
        check(build_plan({**options, "priority": asked}), in_vm=in_vm)


def test_real_time_holds_for_slices() -> None:
    check(build_plan({"method": "slices", "priority": "real-time"}))


def test_the_command_refuses_it_with_a_remedy() -> None:
    done = call([*RUN, "--method", "windows", "--priority", "real-time", "--dry-run"])
    assert done.exit_code == 2, done.stderr
    assert "windows have normal priority" in done.stderr
    assert "leave --priority out" in done.stderr


def test_a_resumed_run_keeps_its_priority() -> None:
    done = call(["run", "--resume", "last", "--priority", "normal"])
    assert done.exit_code == 2
    assert "--priority cannot change it" in done.stderr


@ROOT
@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--workload", "tcp-rr"], "real-time"),
        (["--workload", "tcp-rr", "--priority", "normal"], "normal"),
        (["--workload", "tcp-rr,rule-path"], "real-time in slices, normal in windows"),
        (["--workload", "tcp-rr", "--method", "windows"], "normal"),
    ],
)
def test_a_dry_run_says_the_priority(more: list[str], said: str) -> None:
    done = call([*RUN, *more, "--dry-run"])
    assert done.exit_code == 0, done.stderr
    assert f"priority: {said}\n" in done.stdout
    made = json.loads(call([*RUN, *more, "--dry-run", "--json"]).stdout)["cells"]
    for one in made:
        assert one["priority"] == (
            "normal" if said == "normal" or one["method"] == "windows" else "real-time"
        )


def program(code: str, before: str = "") -> subprocess.CompletedProcess[str]:
    """``before`` is what the process does to itself before it runs the code."""
    return subprocess.run(
        [sys.executable, "-c", f"import os\n{before}\n{code}"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
    )


@ROOT
def test_normal_is_refused_to_a_program_at_real_time_priority() -> None:
    done = call_in_child(
        lambda: os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1)),
        [*RUN, "--dry-run", "--priority", "normal"],
    )
    assert done.exit_code == 2, done.stderr
    assert "cnibench was started at real-time priority" in done.stderr
    assert "without chrt" in done.stderr


@ROOT
def test_a_refusal_of_the_kernel_is_found_before_the_start() -> None:
    """Exit status 3, as for all that the machine lacks."""
    done = program(
        "import ctypes, resource, sys; resource.setrlimit(resource.RLIMIT_RTPRIO, (0, 0));"
        " ctypes.CDLL(None).prctl(24, 23, 0, 0, 0)\n"  # PR_CAPBSET_DROP, CAP_SYS_NICE
        f"arguments = {RUN!r} + ['--workload', 'tcp-rr', '--dry-run']\n"
        "entry = 'import sys; from cnibench.cli.main import main; main()'\n"
        "import subprocess\n"
        "for more in ([], ['--priority', 'real-time']):\n"
        "    done = subprocess.run([sys.executable, '-c', entry, *arguments, *more],"
        " capture_output=True, text=True)\n"
        "    print(done.returncode, done.stderr.replace('\\n', ' '))\n"
    )
    assert done.returncode == 0, done.stderr
    usual, asked = done.stdout.splitlines()
    assert usual.startswith("0 ")
    assert asked.startswith("3 ")
    assert "real-time priority was refused (Operation not permitted)" in asked
    assert "CAP_SYS_NICE" in asked


@ROOT
def test_a_thread_without_cap_sys_nice_gets_its_own_priority_back() -> None:
    """The kernel does not take SCHED_RESET_ON_FORK back from it; that is no failure."""
    done = program(
        "from cnibench.run.slices.priority import ahead, refusal\n"
        "os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(3)); os.setgid(65534);"
        " os.setuid(65534)\n"
        "with ahead() as said: print(repr(said))\n"
        "print(os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK == os.SCHED_RR, repr(refusal()))"
    )
    assert done.stdout.splitlines() == ["''", "True ''"], done.stderr


@ROOT
def test_a_program_that_is_real_time_all_the_same_is_named() -> None:
    with process.spawn(["sleep", "60"]) as child:
        priority.check_normal([child.pid, 2**22 + 1])  # the second has ended
        os.sched_setscheduler(child.pid, os.SCHED_FIFO, os.sched_param(1))
        with pytest.raises(MeasureError, match=f"{child.pid} has real-time priority") as found:
            priority.check_normal([child.pid])
    assert isinstance(found.value, CnibenchError)
    assert "chrt" in found.value.remedy


def test_where_nothing_bounds_it_no_program_has_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bound = tmp_path / "sched_rt_runtime_us"
    monkeypatch.setattr(priority, "_BOUND", bound)
    bound.write_text("-1\n")
    said = (
        "real-time priority was refused (kernel.sched_rt_runtime_us is -1: the machine could hang)"
    )
    assert priority.refusal() == said
    assert priority.raised([os.getpid()], priority.CLIENT) == said
    assert os.sched_getscheduler(0) == os.SCHED_OTHER
    assert priority.remedy(said) == (
        "sysctl -w kernel.sched_rt_period_us=1000000 kernel.sched_rt_runtime_us=950000"
    )
    assert "CAP_SYS_NICE" in priority.remedy(f"{priority.REFUSED} (Operation not permitted)")


@pytest.mark.parametrize(
    ("runtime", "period", "said"),
    [
        (950_000, 1_000_000, ""),
        (999_999, 1_000_000, ""),
        (0, 1_000_000, ""),  # none may have it: the kernel refuses it by itself
        (-1, 1_000_000, "is -1: the machine could hang"),
        (1_000_000, 1_000_000, "is 1000000 of 1000000: the machine could hang"),
        (950_000, 500_000, "is 950000 of 500000: the machine could hang"),
    ],
)
def test_a_share_of_each_period_has_to_be_left_for_others(
    runtime: int, period: int, said: str
) -> None:
    found = priority.unbounded(runtime, period)
    assert found == (said and f"real-time priority was refused (kernel.sched_rt_runtime_us {said})")


def test_where_what_bounds_it_cannot_be_read_no_program_has_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(priority, "_BOUND", tmp_path / "sched_rt_runtime_us")
    said = "real-time priority was refused (kernel.sched_rt_runtime_us: No such file or directory)"
    assert priority.refusal() == said
    assert priority.raised([os.getpid()], priority.CLIENT) == said
    assert os.sched_getscheduler(0) == os.SCHED_OTHER
