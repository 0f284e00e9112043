"""CPU time of programs while they run: /proc/PID/task/TID/schedstat (time on a CPU and time waiting
for one, in ns), read through descriptors that stay open.

Where the kernel does not account interrupts apart (no CONFIG_IRQ_TIME_ACCOUNTING), softirqs that
run in a program's context are in its time.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from cnibench.errors import MeasureError, UnsupportedError
from cnibench.system.heartbeat import opened


class Clocks:
    """The threads of some processes, as they are when this is made."""

    def __init__(self, pids: Iterable[int]) -> None:
        """Raises UnsupportedError where the kernel has no schedstat."""
        self._files: list[int] = []
        try:
            for pid in pids:
                for thread in sorted(os.listdir(f"/proc/{pid}/task")):
                    self._files.append(
                        os.open(f"/proc/{pid}/task/{thread}/schedstat", os.O_RDONLY | os.O_CLOEXEC)
                    )
        except FileNotFoundError as error:
            self.close()
            if Path("/proc/thread-self/schedstat").exists():
                return  # it has just ended: its generator says so
            raise UnsupportedError(
                f"{error.filename}: this kernel does not report the CPU time of threads",
                "use --method windows, or a kernel with CONFIG_SCHED_INFO",
            ) from None

    def read(self) -> tuple[int, int]:
        """(ns on a CPU, ns waiting for one), all threads together; a thread that has ended keeps
        nothing. Raises MeasureError.
        """
        ran = waited = 0
        for file in self._files:
            try:
                words = os.pread(file, 100, 0).split()
            except ProcessLookupError:
                continue
            except OSError as error:
                raise MeasureError(
                    f"the CPU time of a load cannot be read: {error.strerror}",
                    "use --method windows",
                ) from None
            ran += int(words[0])
            waited += int(words[1])
        return ran, waited

    def close(self) -> None:
        """May be called twice."""
        while self._files:
            os.close(self._files.pop())


class Modes:
    """User and system time of some processes (utime and stime of /proc/PID/stat, in ticks of
    USER_HZ). Their sum is the exact time on a CPU; its parts are sampled by the kernel's tick, and
    softirqs in a program's context are in the system time.
    """

    def __init__(self, pids: Iterable[int]) -> None:
        self._files = [opened(f"/proc/{pid}/stat") for pid in pids]

    def read(self) -> tuple[int, int]:
        """(user, system) by now, all processes together; one that has ended keeps nothing."""
        user = system = 0
        for file in self._files:
            try:
                words = os.pread(file, 1024, 0).rpartition(b")")[2].split()
                user, system = user + int(words[11]), system + int(words[12])
            except (OSError, IndexError):
                continue
        return user, system

    def close(self) -> None:
        """May be called twice."""
        while self._files:
            if (file := self._files.pop()) >= 0:
                os.close(file)


def descendants(root: int) -> set[int]:
    """The processes below ``root``, itself not among them."""
    return below([root], children())


def children() -> dict[int, list[int]]:
    """All processes by their parents."""
    found: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_bytes().rpartition(b")")[2].split()
        except OSError:
            continue
        found.setdefault(int(fields[1]), []).append(int(path.parent.name))
    return found


def below(roots: Iterable[int], children: Mapping[int, Sequence[int]]) -> set[int]:
    """The processes below ``roots``, these not among them."""
    found: set[int] = set()
    waiting = list(roots)
    while waiting:
        for child in children.get(waiting.pop(), ()):
            found.add(child)
            waiting.append(child)
    return found
