"""A run that is ended, and nodes that stop in the middle of it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from _kind_runs import (
    CNIBENCH,
    ONE_CELL,
    engine,
    kubectl,
    lines,
    namespaces_of_runs,
    nothing_left,
    output,
    until,
)

pytestmark = pytest.mark.timeout(900)


def long_run(existing: list[str], duration: str) -> list[str]:
    """One cell between the nodes that is still measured when something happens to it."""
    return [CNIBENCH, "run", *existing, "--cni", "current", *ONE_CELL, "--duration", duration]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_run_that_is_ended_leaves_nothing_that_clean_does_not_find(
    kept: Mapping[str, Any], existing: list[str], tmp_path: Path, number: signal.Signals
) -> None:
    argv = long_run(existing, "60s")
    with subprocess.Popen(
        argv, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:

        def client() -> bool:
            assert process.poll() is None
            return any(tmp_path.glob("runs/*/raw/*/*/client.stdout"))

        until(client)
        (used,) = namespaces_of_runs(kept)
        assert re.search(
            r"left: .* a run of \S+ uses it", output(CNIBENCH, "clean", *existing[:4])
        ), "what is in use is not cleaned"
        assert namespaces_of_runs(kept) == {used}
        process.send_signal(number)
        process.communicate(timeout=200)
    if number == signal.SIGINT:
        assert process.returncode == 130
    else:
        (left,) = namespaces_of_runs(kept)
        ask = (
            "exec",
            "-n",
            left,
            "b0",
            "--",
            "sh",
            "-c",
            "cat /proc/[0-9]*/comm 2>/dev/null; true",
        )
        until(lambda: "netserver" not in kubectl(kept, *ask))
        assert f"the namespace {left}" in output(CNIBENCH, "clean", *existing[:4])
    assert not namespaces_of_runs(kept)
    assert nothing_left(output(CNIBENCH, "clean", *existing[:4]))


def client_seconds(node: str) -> float:
    """CPU time of netperf on a node."""
    stats = engine("podman", "exec", node, "sh", "-c", "cat /proc/[0-9]*/stat 2>/dev/null; true")
    fields = [line.rpartition(")")[2].split() for line in stats.splitlines() if "(netperf)" in line]
    return sum(int(one[11]) + int(one[12]) for one in fields) / os.sysconf("SC_CLK_TCK")


def test_a_node_that_is_frozen_for_a_while_disturbs_the_sample(
    kept: Mapping[str, Any], existing: list[str], tmp_path: Path
) -> None:
    """All of it is paused three times, the program that drives the rounds, too; our machine runs
    on.
    """
    node = f"{kept['name']}-worker"
    argv = [*long_run(existing, "13s"), "--warmup", "0s", "--blocks", "2"]
    with subprocess.Popen(
        argv, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        until(lambda: client_seconds(node) > 0.5)  # paused until its rounds begin, it has less
        for _ in range(3):  # a quarter of the time is between slices, where nothing is disturbed
            engine("podman", "pause", node)
            time.sleep(15)
            engine("podman", "unpause", node)
            time.sleep(2)
        out, said = process.communicate(timeout=300)
    assert process.returncode == 0, said
    first, second = lines(tmp_path, "stalls")
    assert 13 < first["longest_gap"] < 20, (first, said)
    assert re.search(r"cnibench on node a stalled for \d\d\.\d s", first["disturbed"]), first
    assert second["longest_gap"] < 13, second
    assert {line["disturbed"] for line in lines(tmp_path, "samples") if line["block"] == 0} == {
        first["disturbed"]
    }
    number = 1 + bool(second["disturbed"])
    assert f"Disturbed and not used: {number} of 2 samples" in " ".join(out.split())


def test_a_node_that_dies_in_the_middle_of_a_cell_is_found(
    kept: Mapping[str, Any], existing: list[str], tmp_path: Path
) -> None:
    """Last of the kept cluster's: its node stays away for a while after it is back."""
    node = f"{kept['name']}-worker"
    argv = long_run(existing, "40s")
    with subprocess.Popen(
        [*argv, "--blocks", "2"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        until(lambda: any(tmp_path.glob("runs/*/raw/*/*/client.stdout")))
        engine("podman", "pause", node)
        try:
            said = process.communicate(timeout=500)[1]
        finally:
            engine("podman", "unpause", node)
    assert process.returncode == 1, said
    reasons = [line["reason"] for line in lines(tmp_path, "samples")]
    assert {line["status"] for line in lines(tmp_path, "samples")} <= {"failed", "timeout"}
    assert re.search("node a", reasons[0]), (
        reasons
    )  # the API server calls it NotReady only 40 s later: whoever finds it first, names it
    assert all(reasons)
    until(lambda: not namespaces_of_runs(kept))
