"""What interrupts or ends a run, and how the run is resumed."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from cnibench.errors import EndedError, Interrupted, UsageError
from cnibench.planning.schedule import order
from cnibench.run.sample_context import Measurements, SampleContext
from cnibench.rundir.files import FullError
from cnibench.rundir.reader import RunReader
from cnibench.rundir.schema import now
from cnibench.rundir.writer import RunWriter
from cnibench.testbed.capabilities.outages import Outage, Outages
from cnibench.testbed.cluster import Options
from tests.unit._local_cluster import Local, Spy, cell, manifest, measured, runner

pytestmark = pytest.mark.usefixtures("unhurried")


def test_what_was_measured_during_an_outage_is_measured_again(folder: Path) -> None:
    class Unsteady(Local, Outages):
        asked = 0

        def outages(self, suspect: bool = False) -> list[Outage]:
            self.asked += 1
            return (
                [Outage(now(), 7.5, "connection refused")] if self.asked == 3 else []
            )  # after the first sample

    cells = [cell("veth")]
    with RunWriter.create(folder, manifest(cells, 2)) as writer:
        assert runner(writer, Unsteady(Options())).run() == 0
    events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    assert [(one["seconds"], one["reason"]) for one in events if one["event"] == "outage"] == [
        (7.5, "connection refused")
    ]
    assert [one["status"] for one in events if one["event"] == "cell-finished"] == ["ok", "ok"]
    assert (folder / "raw" / cells[0].id / "0.interrupted-1").is_dir(), (
        "the first attempt is kept beside the second"
    )


def test_a_cluster_that_is_lost_ends_the_run_which_can_be_resumed(folder: Path) -> None:
    class Lost(Local, Outages):
        asked = 0

        def outages(self, suspect: bool = False) -> list[Outage]:
            self.asked += 1
            if self.asked > 3:  # before the second sample
                raise EndedError("the API server has not answered for 2 min", "see that it is up")
            return []

    cells = [cell("veth")]
    told = pytest.raises(EndedError, match="every finished sample is kept")
    with RunWriter.create(folder, manifest(cells, 3)) as writer, told as error:
        runner(writer, Lost(Options())).run()
    assert "cnibench run --resume" in error.value.remedy
    assert measured(folder) == [(cells[0].id, 0)]
    assert not RunReader(folder).finished


def test_an_interrupted_run_is_cleaned_up_and_resumes_in_the_original_order(folder: Path) -> None:
    cells = [cell("a"), cell("b"), cell("c")]
    expected = [(one.id, block) for block in range(3) for one in order(cells, block, 3)]
    cluster = Local(Options())

    class CtrlC(Spy):
        """Presses Ctrl-C in the window of the fifth sample."""

        def observe(self, s: SampleContext, into: Measurements) -> Any:
            if (s.cell.id, s.block) == expected[4]:
                os.kill(os.getpid(), signal.SIGINT)
            return super().observe(s, into)

    before = signal.getsignal(signal.SIGINT)
    with RunWriter.create(folder, manifest(cells, 3)) as writer:
        subject = runner(writer, cluster)
        subject.collectors = [CtrlC()]
        with pytest.raises(Interrupted) as caught:
            subject.run()
    assert signal.getsignal(signal.SIGINT) is before
    assert f"--resume {folder}" in caught.value.remedy
    assert cluster.log[-1] == "left"
    assert {"remove a", "remove b", "remove c"} <= set(cluster.log)
    assert measured(folder) == expected[:4]
    assert RunReader(folder).finished == ""
    assert [event["event"] for event in RunReader(folder).events()][-1] == "run-interrupted"
    with RunWriter.resume(folder) as writer:
        assert runner(writer, Local(Options()), done=RunReader(folder).done()).run() == 0
    assert measured(folder) == expected
    assert RunReader(folder).finished


def test_nothing_to_write_on_ends_the_run(folder: Path) -> None:
    with RunWriter.create(folder, manifest([cell("a")], 1)) as writer:
        cluster = Local(Options())
        full = os.open("/dev/full", os.O_WRONLY)
        writer.files._open["samples.jsonl"] = full
        with pytest.raises(FullError, match="disk is full"):
            runner(writer, cluster).run()
    assert cluster.log[-1] == "left"
    assert not list(RunReader(folder).samples())
    assert [event["event"] for event in RunReader(folder).events()][-1] == "run-failed"


class OtherMachines(Local):
    """Its nodes are none of ours, and tell their kernel themselves."""

    manages_nodes = False

    def environment(self) -> dict[str, Any]:
        return {
            "nodes": {"a": {"kernelVersion": "6.1"}, "b": {"kernelVersion": "6.2"}},
            "wire_offload": "as it is",
        }


def test_a_run_is_not_resumed_on_other_nodes(folder: Path) -> None:
    cluster = OtherMachines(Options())
    recorded = {
        "nodes": {"a": {"kernelVersion": "5.15"}, "b": {"kernelVersion": "5.15"}},
        "kernel": "whatever starts the run",
    }
    with RunWriter.create(folder, manifest([cell("a")], 1)) as writer:
        writer.environment(recorded)
        before = (folder / "env.json").read_bytes()
        with pytest.raises(
            UsageError, match=r'kernels of the nodes: \["5.15"\] against \["6.1","6.2"\]'
        ):
            runner(writer, cluster, recorded=recorded, environment={"kernel": "this one"}).run()
    assert (folder / "env.json").read_bytes() == before
    assert measured(folder) == []
    assert cluster.log == ["left"], "nothing was installed"


def test_a_run_does_not_go_on_with_another_cni(folder: Path) -> None:
    """Not when it is resumed, nor when a block finds another one than the block before."""

    class Installed(Local):
        digests = ("1", "1")

        def environment(self) -> dict[str, Any]:
            times = sum(line.startswith("install") for line in self.log)
            there = {"veth": {"image x:v1": self.digests[times - 1]}} if times else {}
            return {**super().environment(), "installed": there}

    class Anew(Installed):
        simultaneous = False

    with RunWriter.create(folder, manifest([cell("veth")], 2)) as writer:
        assert runner(writer, Anew(Options())).run() == 0
    recorded = RunReader(folder).installed
    assert recorded == {"veth": {"image x:v1": "1"}}

    another, said = Anew(Options()), r"started with: installed, veth, image x:v1: 1 against 2"
    another.digests = ("1", "2")
    other = folder.with_name("other")
    with (
        RunWriter.create(other, manifest([cell("veth")], 2)) as writer,
        pytest.raises(UsageError, match=said),
    ):
        runner(writer, another).run()
    assert another.log[-1] == "left", "what was installed goes"

    changed = Installed(Options())
    changed.digests = ("2", "2")
    third = folder.with_name("third")
    with (
        RunWriter.create(third, manifest([cell("veth")], 1)) as writer,
        pytest.raises(UsageError, match=said),
    ):
        runner(writer, changed, recorded={"installed": recorded}).run()
    assert RunReader(third).environment.get("installed", recorded) == recorded
