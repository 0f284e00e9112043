"""``cnibench`` in the lab as a user types it: to its end, in the background, without root."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from cnibench.rundir.reader import RunReader

PROGRAM = [
    sys.executable,
    "-c",
    "import sys; from cnibench.cli.main import main; sys.argv[0] = 'cnibench'; main()",
]
SHORT = ["--method=windows", "--workload=tcp-rr", "--no-perf", "--duration=300ms", "--warmup=0s"]
LIMIT = 120.0  # s


def run(*arguments: str, limit: float = LIMIT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PROGRAM, *arguments], capture_output=True, text=True, timeout=limit, check=False
    )


def start(*arguments: str) -> subprocess.Popen[str]:
    """In a process group of its own, as a shell starts it."""
    return subprocess.Popen(
        [*PROGRAM, *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    )


def until(what: Callable[[], Any]) -> Any:
    limit = time.monotonic() + LIMIT
    while not (found := what()):
        assert time.monotonic() < limit, "it did not happen in time"
        time.sleep(0.05)
    return found


def the_run(folder: Path) -> Path:
    (path,) = (path for path in folder.iterdir() if (path / "plan.json").exists())
    return path


def finished(folder: Path) -> int:
    """How many samples the only run below ``folder`` has finished."""
    if not folder.exists() or not (
        found := [path for path in folder.iterdir() if (path / "plan.json").exists()]
    ):
        return 0
    return len(RunReader(found[0]).done())


def as_user(
    argv: Sequence[str], *, folder: Path | None = None, first: str = "", limit: float = LIMIT
) -> subprocess.CompletedProcess[str]:
    """``argv`` as an ordinary user of a user namespace, who may read what root may: without any
    capability on the machine. ``first`` is Python that runs in that namespace before.

    (The interpreter of the tests may lie where no other user of this machine may read.)
    """
    program = f"""
import ctypes, os, sys
from cnibench.clusters.lab.namespaces.root import own_root
ctypes.CDLL(None).unshare(0x00020000)  # CLONE_NEWNS
own_root()  # the machine of the tests may be a chroot
assert ctypes.CDLL(None).unshare(0x10000000) == 0  # CLONE_NEWUSER
print(flush=True)
sys.stdin.readline()
{first}
os.execv({argv[0]!r}, {list(argv)!r})
"""
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=folder,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.readline()
    for name in ("uid_map", "gid_map"):  # root out there, an ordinary user in here
        Path(f"/proc/{process.pid}/{name}").write_text("1000 0 1")
    out, said = process.communicate("\n", timeout=limit)
    return subprocess.CompletedProcess(process.args, process.returncode, out, said)
