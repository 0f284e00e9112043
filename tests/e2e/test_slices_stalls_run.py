"""Servers that are really stopped while ``cnibench run --method slices`` measures: the sample is
marked and no verdict uses it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
import uuid
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from _slices_commands import MARK, command, lines, marked

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the lab needs root")
LIMIT = 300.0
SHORT = 0.004  # s


def look(mark: str) -> tuple[list[list[int]], set[int]]:
    """(the netservers with that mark, by Pod; the netperfs that are paused).

    A load is paused when it has started. During the rounds a look may find neither paused: it
    takes longer than a turn.
    """
    found, paused = defaultdict[int, list[int]](list), set[int]()
    for pid in marked(mark):
        try:
            text = Path(f"/proc/{pid}/stat").read_text()
            if "(netserver)" in text:
                found[os.stat(f"/proc/{pid}/ns/net").st_ino].append(pid)
            if "(netperf) T" in text:
                paused.add(pid)
        except OSError:
            continue
    return list(found.values()), paused


def send(pids: list[int], number: signal.Signals) -> bool:
    """Is any of them left?"""
    left = False
    for pid in pids:
        try:
            os.kill(pid, number)
            left = True
        except ProcessLookupError:
            continue
    return left


def once(pids: list[int]) -> None:
    send(pids, signal.SIGSTOP)
    time.sleep(1.0)
    send(pids, signal.SIGCONT)


def again_and_again(pids: list[int]) -> None:
    """As cpulimit(1) does, until they have ended."""
    end = time.monotonic() + LIMIT
    while send(pids, signal.SIGSTOP) and time.monotonic() < end:
        time.sleep(SHORT)
        send(pids, signal.SIGCONT)
        time.sleep(SHORT)


@pytest.mark.parametrize("stop", [once, again_and_again])
def test_a_server_that_is_stopped_marks_its_sample_and_no_other(tmp_path: Path, stop: Any) -> None:
    mark = uuid.uuid4().hex
    with subprocess.Popen(
        command(tmp_path, "--workload", "tcp-rr", "--blocks", "1", "--duration", "2s"),
        env={**os.environ, MARK: mark},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        end = time.monotonic() + LIMIT
        begun = set[int]()
        while len(begun) < 2:
            assert running.poll() is None
            assert time.monotonic() < end
            time.sleep(0.02)
            pods, paused = look(mark)
            begun |= paused
        time.sleep(0.2)  # now the rounds have begun, too
        victims = pods[0]
        try:
            stop(victims)
        finally:
            send(victims, signal.SIGCONT)
        _, said = running.communicate(timeout=LIMIT)
    assert running.returncode == 0, said
    assert len(pods) == 2
    (run,) = tmp_path.iterdir()
    samples = [one for one in lines(run / "samples.jsonl") if one["metric"] == "transaction_rate"]
    stopped = [one for one in samples if "netserver was stopped for" in one.get("disturbed", "")]
    (victim,) = stopped
    assert (victim["status"], victim["value"] > 0) == ("ok", True)
    stalls = {one["label"]: one for one in lines(run / "stalls.jsonl")}
    assert stalls[victim["label"]]["longest_stop"] > 0.002
    (other,) = set(stalls) - {victim["label"]}
    assert stalls[other]["longest_stop"] == 0.0
    (left_out,) = [one for one in lines(run / "slices.jsonl") if one["label"] == victim["label"]]
    assert left_out["left_out"] > 0
    if stop is once:
        total = sum(one["seconds"] for one in stalls[victim["label"]]["stalls"])
        assert 0 < total < 1.0  # of the second, only the turns of that cell
    assert "netserver was stopped for" in (run / "report.md").read_text()
    assert "netserver was stopped for" in " ".join(said.split())
