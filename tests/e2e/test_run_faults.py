"""``cnibench run`` as typed, and what may happen to it: Ctrl-C, kill -9, a full or read-only disk,
no root and no user namespaces.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from _commands import LIMIT, PROGRAM, SHORT, as_user, finished, run, start, the_run, until

from cnibench.rundir.reader import RunReader

GOLDEN = Path(__file__).parent.parent / "golden" / "errors"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def tmpfs(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", folder], check=True)
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def host() -> set[str]:
    """What a run must not leave anything in: devices, namespaces, mounts, rules and our
    processes.
    """
    parts = [
        ["ip", "-br", "link"],
        ["ip", "netns"],
        ["iptables-save"],
        ["findmnt", "-rn", "-o", "TARGET,FSTYPE"],
    ]
    said = [
        subprocess.run(part, capture_output=True, text=True, check=True).stdout for part in parts
    ]
    rules = "".join(
        line for line in said[2].splitlines(keepends=True) if not line.startswith(("#", ":"))
    )
    here = "/run/cnibench" if Path("/run/cnibench").exists() else ""
    return {
        line.strip() for line in "\n".join([said[0], said[1], rules, said[3], here]).splitlines()
    }


def descendants(pid: int) -> set[int]:
    """All processes below ``pid``."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parents.setdefault(
                int((entry / "stat").read_text().rpartition(")")[2].split()[1]), []
            ).append(int(entry.name))
        except (OSError, IndexError):
            continue
    found, rest = set[int](), [pid]
    while rest:
        rest += (children := [child for child in parents.get(rest.pop(), []) if child not in found])
        found.update(children)
    return found


def running(pids: set[int]) -> bool:
    for pid in pids:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in (
                "Z",
                "X",
            ):
                return True
        except (OSError, IndexError):
            continue
    return False


def test_ctrl_c_then_kill_9_then_resume_loses_nothing_and_leaves_nothing(tmp_path: Path) -> None:
    before = host()
    runs = tmp_path / "runs"
    first = start("run", "--cni", "veth-baseline", "--blocks", "5", "--out", str(runs), *SHORT)
    until(lambda: finished(runs) >= 2)
    first.send_signal(signal.SIGINT)
    _, said = first.communicate(timeout=LIMIT)
    assert first.returncode == 130, said
    assert "--resume" in said
    assert "Traceback" not in said
    path = the_run(runs)
    kept = RunReader(path).done()
    assert len(kept) >= 2

    second = start("run", "--resume", str(path))
    until(lambda: finished(runs) > len(kept) and second.poll() is None)
    below = descendants(second.pid)
    assert below
    second.kill()
    second.communicate(timeout=LIMIT)
    until(lambda: not running(below))
    until(
        lambda: host() <= before
    )  # nothing new; what others on this machine remove meanwhile is theirs
    assert RunReader(path).done() > kept
    kept = RunReader(path).done()

    third = run("run", "--resume", str(path))
    assert third.returncode == 0, third.stderr
    reader = RunReader(path)
    assert reader.finished
    assert kept < reader.done()
    keys = [
        (item.cell, item.block) for item in reader.samples() if item.metric == "transaction_rate"
    ]
    assert len(keys) == len(set(keys)) == 2 * 5
    assert [item.status for item in reader.samples() if item.status != "ok"] == []
    assert (path / "report.md").read_text()
    until(
        lambda: host() <= before
    )  # nothing new; what others on this machine remove meanwhile is theirs


def test_kill_9_of_a_server_is_a_recorded_failure(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    process = start(
        "run",
        "--cni",
        "veth-baseline",
        "--blocks",
        "2",
        "--placement",
        "intra",
        "--out",
        str(runs),
        *SHORT[:-2],
        "--duration",
        "3s",
        "--warmup",
        "0s",
    )

    def servers() -> list[int]:
        """The listening netserver and the one that serves the connection."""
        found = [pid for pid in descendants(process.pid) if _argv(pid)[:1] == ["netserver"]]
        return found if len(found) >= 2 else []

    for pid in until(servers):
        os.kill(pid, signal.SIGKILL)
    _, said = process.communicate(timeout=LIMIT)
    assert process.returncode == 1, said
    status = {item.block: item.status for item in RunReader(the_run(runs)).samples()}
    assert sorted(status.values())[1] == "ok", [
        item.reason for item in RunReader(the_run(runs)).samples()
    ]
    assert sorted(status.values())[0] in ("failed", "timeout")


def _argv(pid: int) -> list[str]:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except OSError:
        return []
    return [Path(words[0]).name, *words[1:]]


def test_kill_9_of_the_process_that_measures_is_reported(tmp_path: Path) -> None:
    before = host()
    runs = tmp_path / "runs"
    process = start("run", "--cni", "veth-baseline", "--blocks", "30", "--out", str(runs), *SHORT)
    until(lambda: finished(runs) >= 1)
    below = descendants(process.pid)
    first_of_the_tree = until(lambda: _child(_child(process.pid)))
    os.kill(first_of_the_tree, signal.SIGKILL)
    _, said = process.communicate(timeout=LIMIT)
    assert process.returncode == 1, said
    assert "the run was killed by signal 9" in said
    assert "--resume" in said
    until(lambda: not running(below))
    until(lambda: host() <= before)
    assert finished(runs) >= 1


def _child(pid: int) -> int:
    """The first child of a process, 0 when there is none."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return 0
    return int(children[0]) if children else 0


@pytest.mark.parametrize(
    "method", [(), ("--method", "slices", "--duration", "2s")], ids=["windows", "slices"]
)
def test_a_full_disk_ends_the_run_and_it_goes_on_when_there_is_room(
    tmpfs: Path, method: tuple[str, ...]
) -> None:
    ballast = tmpfs / "ballast"
    left = os.statvfs(tmpfs)
    ballast.write_bytes(bytes(left.f_bavail * left.f_frsize - 300_000))
    words = ["--cni", "veth-baseline", "--blocks", "6", "--out", str(tmpfs), *SHORT, *method]
    done = run("run", *words)
    assert done.returncode == 1, done.stderr
    assert "the disk is full" in done.stderr
    assert "--resume" in done.stderr
    path = the_run(tmpfs)
    kept = RunReader(path).done()
    assert 0 < len(kept) < 12
    assert not [item for item in RunReader(path).samples() if item.status != "ok"]
    ballast.unlink()
    again = run("run", "--resume", str(path))
    assert again.returncode == 0, again.stderr
    assert RunReader(path).done() > kept
    assert len(RunReader(path).done()) == 12


def test_a_read_only_run_is_shown_and_not_resumed(tmpfs: Path) -> None:
    process = start("run", "--cni", "veth-baseline", "--blocks", "50", "--out", str(tmpfs), *SHORT)
    until(lambda: finished(tmpfs) >= 1)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=LIMIT)
    path = the_run(tmpfs)
    subprocess.run(["mount", "-o", "remount,ro", tmpfs], check=True)
    shown = run("runs", "show", str(path), "--json")
    assert shown.returncode == 0
    assert json.loads(shown.stdout)["state"] == "cells missing"
    refused = run("run", "--resume", str(path))
    assert refused.returncode == 2
    busy = "warning: the machine is busy"  # the other tests' programs
    lines = refused.stderr.splitlines(keepends=True)
    said = "".join(line for line in lines if not line.startswith(busy))
    assert said.replace(str(path), "RUN") == (GOLDEN / "read-only-run.txt").read_text()


def test_no_root_and_no_user_namespaces_is_reported_before_anything_starts() -> None:
    """A user namespace of ours forbids further ones (user.max_user_namespaces is kept per user
    namespace); in it, we are not root.
    """
    done = as_user(
        [*PROGRAM, "run", "--cni", "veth-baseline", "--out", "/tmp/never-made"],
        first='open("/proc/sys/user/max_user_namespaces", "w").write("0")',
    )
    assert done.returncode == 3, done.stderr
    assert done.stderr == (GOLDEN / "no-root.txt").read_text()
    assert not Path("/tmp/never-made").exists()
