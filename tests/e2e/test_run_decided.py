"""A run ends when every pair is decided or its budget is used, and the answer says so."""

from __future__ import annotations

import re
from pathlib import Path

from _commands import run

from cnibench.rundir.reader import RunReader

PROFILES = "veth-baseline,flannel,calico-wp-xsub"
ONE = ("--workload", "tcp-rr", "--placement", "intra", "--no-perf", "--kernel", "host")


def measured(folder: Path, *options: str) -> tuple[RunReader, str]:
    done = run("run", "--cni", PROFILES, *ONE, "--out", str(folder), *options, limit=300.0)
    assert done.returncode == 0, done.stderr
    (path,) = folder.iterdir()
    return RunReader(path), done.stdout


def test_a_run_ends_at_a_look_and_says_what_is_decided(tmp_path: Path) -> None:
    """Whether the profiles are told apart after 6 blocks depends on what else the machine does."""
    reader, said = measured(tmp_path / "runs")
    assert (reader.plan.blocks, reader.plan.until_decided) == (8, True)
    blocks = {block for _, block in reader.done()}
    stopped = [event["reason"] for event in reader.events() if event["event"] == "stopped"]
    assert reader.finished
    if stopped:
        assert stopped == ["every pair is decided after 6 blocks"]
        assert blocks == set(range(6))
        assert "after 6 blocks, " in said
        assert "undecided" not in said
    else:
        assert blocks == set(range(8))
        assert re.search(r"after [1-8](?: to [1-8])? blocks?, [0-3] of 3 pairs", said)
    again = run("run", "--resume", str(reader.path))
    assert (again.returncode, "this run is complete" in again.stderr) == (0, True)


def test_a_budget_that_is_used_ends_the_run_after_a_whole_block(tmp_path: Path) -> None:
    reader, said = measured(tmp_path / "runs", "--budget", "1s")
    assert reader.finished
    assert {block for _, block in reader.done()} == {0}
    (stopped,) = (event for event in reader.events() if event["event"] == "stopped")
    assert stopped["reason"].startswith("the budget of 1.0 s is used: another block would take")
    words = " ".join(said.split())
    if any(one.disturbed for one in reader.samples()):  # the host took much of the CPU time
        assert "Disturbed and not used: " in words
        return
    assert "after 1 block, 0 of 3 pairs different" in words, said
    assert "3 undecided (~); at least 6 blocks are needed." in words, said
