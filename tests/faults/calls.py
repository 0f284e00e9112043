"""System calls on the files of a run directory: which ones a command makes, and how the n-th one
fails.
"""

from __future__ import annotations

import re
import shutil
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

from extent import FULL
from host import WORK
from short_run import NAME

GROUPS = {
    "write": ("write", "writev", "pwrite64", "sendfile", "copy_file_range"),
    "fsync": ("fsync", "fdatasync"),
    "open": ("openat", "open", "openat2", "creat"),
    "rename": ("rename", "renameat", "renameat2"),
    "mkdir": ("mkdir", "mkdirat"),
    "remove": ("ftruncate", "truncate", "unlink", "unlinkat", "rmdir", "link", "linkat"),
}
# A full disk has a path of its own where something is written; anywhere else an error is an error.
ERRORS = {"write": ("EIO", "ENOSPC"), "mkdir": ("EIO", "ENOSPC")}
# Into how many tests a group is split, so that they run at the same time.
_PARTS = {"write": 6, "fsync": 3, "open": 6} if FULL else {}
CASES = [
    (group, error, part, parts)
    for group in GROUPS
    for error in ERRORS.get(group, ("EIO",))
    for parts in (_PARTS.get(group, 1),)
    for part in range(parts)
]
_CALL = re.compile(r"^(\d+) +(\w+)\((.*)$")
_RUN = re.compile(rf"{re.escape(str(WORK))}/runs/{NAME}(/[^\"<>]*)?")


class Calls:
    """What a log of ``traced`` shows: how often each call was made on a run directory, and on which
    files of it.
    """

    def __init__(self, log: Path) -> None:
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        self.files: set[str] = set()  # relative to the run directory, "" for itself
        for line in log.read_text(errors="replace").splitlines():
            if (call := _CALL.match(line)) and (
                names := [name or "" for name in _RUN.findall(call[3])]
            ):
                counts[call[2]][call[1]] += 1
                self.files.update(name.strip("/") for name in names)
        self.most = {name: max(of_process.values()) for name, of_process in counts.items()}

    def points(self, group: str) -> list[tuple[str, int]]:
        """Each (call, n) of a group."""
        return [(name, n) for name in GROUPS[group] for n in range(1, self.most.get(name, 0) + 1)]


def traced(log: str) -> tuple[str, ...]:
    """The words before a command that have its calls written to ``log``."""
    return (
        *_strace(log),
        "-yy",
        f"--trace={','.join(name for group in GROUPS.values() for name in group)}",
    )


def failing(log: str, call: str, n: int, error: str, files: Iterable[str]) -> tuple[str, ...]:
    """The words before a command whose n-th ``call`` on one of those files of the run directory
    fails, once in each process.
    """
    run = WORK / "runs" / NAME
    paths = [f"--trace-path={run / file}" for file in sorted(files)]
    return (*_strace(log), f"--trace={call}", *paths, f"--inject={call}:error={error}:when={n}")


def injected(log: Path) -> bool:
    """Did a call fail?"""
    return "(INJECTED)" in log.read_text(errors="replace")


def _strace(log: str) -> tuple[str, ...]:
    program = shutil.which("strace")
    assert program, "strace is missing: ./setup --test=all installs it"
    return (
        program,
        "--follow-forks",
        "--seccomp-bpf",
        "--quiet=all",
        "--signal=none",
        f"--output={log}",
    )
