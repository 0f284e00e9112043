"""How busy this machine is, and with what: CPU time of all programs (/proc/stat), of our own ones
and of the others (/proc/PID/stat), steal and throttling. See proc(5).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from cnibench.system.heartbeat import throttled, throttling

BUSY = 0.1  # share of all CPUs: other programs that use more disturb a measurement
_LOOK = 1.0  # s that one look takes
_NAMED = 3  # programs
_NOTED = 0.01  # share, s: less is not worth a word
_SMALL = 0.05  # CPUs: programs that use less are not named


@dataclass(frozen=True)
class Times:
    """Sums since boot in s, of all CPUs together; ``at`` is CLOCK_MONOTONIC. ``used`` is without
    interrupts; ``own`` is that of this process, its descendants and those that have ended.
    """

    at: float
    used: float
    steal: float
    own: float
    throttled: float


@dataclass(frozen=True)
class Share:
    """Between two readings: ``others`` are CPUs that at least were used by other programs and the
    kernel's own threads, ``steal`` is a share of all CPUs, ``throttled`` is in s.
    """

    others: float
    steal: float
    throttled: float

    def disturbance(self, alone: bool = True) -> str:
        """What was taken from the programs that are measured, in words; '' when it is little.
        ``alone``: nothing but them, and cnibench, should run here.
        """
        cpus, words = os.cpu_count() or 1, []
        if alone and self.others > BUSY * cpus:
            words.append(f"other programs used {self.others:.1f} of {cpus} CPUs")
        if self.steal >= _NOTED:
            words.append(f"the host gave {self.steal:.0%} of the CPU time to others (steal)")
        if self.throttled >= _NOTED:
            words.append(f"a CPU quota held its programs back for {self.throttled:.2f} s")
        return ", ".join(words)


def read() -> Times:
    """The sums now."""
    tick = os.sysconf("SC_CLK_TCK")
    figures = Path("/proc/stat").read_text(encoding="ascii").partition("\n")[0].split()[1:9]
    user, nice, system, _, _, _, _, steal = (int(word) / tick for word in figures)
    files = throttling()
    try:
        held = throttled(files)
    finally:
        for file in files:
            os.close(file)
    own = sum(os.times()[:4]) + sum(one.with_ended for one in _descendants())
    return Times(time.monotonic(), user + nice + system, steal, own, held)


def between(one: Times, other: Times) -> Share:
    """What happened from ``one`` to ``other``. Softirqs in the context of our programs count as
    theirs, so that ``others`` may be too small, but is not too large.
    """
    seconds = max(other.at - one.at, 1e-9)
    others = (other.used - one.used) - (other.own - one.own)
    return Share(
        max(0.0, others / seconds),
        (other.steal - one.steal) / seconds / (os.cpu_count() or 1),
        other.throttled - one.throttled,
    )


@dataclass(frozen=True)
class Busy:
    """``cpus`` were in use by other programs; ``programs`` are those that used most, in words."""

    cpus: float
    programs: str

    @property
    def disturbs(self) -> bool:
        return self.cpus > BUSY * (os.cpu_count() or 1)

    def __str__(self) -> str:
        named = f" ({self.programs})" if self.programs else ""
        return f"other programs use {self.cpus:.1f} of {os.cpu_count() or 1} CPUs{named}"


def look(seconds: float = _LOOK) -> Busy:
    """What runs here besides this program and those that it started; takes ``seconds``."""
    ours = {one.pid for one in _descendants()} | {os.getpid()}
    before, first = {one.pid: one for one in _all()}, read()
    time.sleep(seconds)
    after, last = _all(), read()
    passed = last.at - first.at
    used: dict[str, float] = {}
    for one in after:
        if one.pid not in ours and one.pid in before:
            more = (one.alone - before[one.pid].alone) / passed
            used[one.name] = used.get(one.name, 0.0) + more
    most = sorted(used.items(), key=lambda item: -item[1])[:_NAMED]
    named = ", ".join(f"{name} {cpu:.1f}" for name, cpu in most if cpu >= _SMALL)
    return Busy(between(first, last).others, named)


class _Found(Protocol):
    """What a look has found. ``programs`` are those that used most, '' where that is unknown."""

    @property
    def programs(self) -> str: ...

    @property
    def disturbs(self) -> bool: ...


_F = TypeVar("_F", bound=_Found)


def wait_until_quiet(limit: float, say: Callable[[str], None], look: Callable[[], _F]) -> _F:
    """Looks until other programs no longer disturb, for ``limit`` s at most; ``say`` reports what
    is waited for, each time that it changes. The last look.
    """
    end = time.monotonic() + limit
    said = ""
    while (found := look()).disturbs and time.monotonic() < end:
        if found.programs != said or not said:
            say(f"waiting at most {max(0.0, end - time.monotonic()):.0f} s: {found}")
            said = found.programs or "?"
    return found


@dataclass(frozen=True)
class _Program:
    """``alone`` is its CPU time in s, ``with_ended`` has that of its ended children as well."""

    pid: int
    parent: int
    name: str
    alone: float
    with_ended: float


def _all() -> list[_Program]:
    """All programs that are visible."""
    tick = os.sysconf("SC_CLK_TCK")
    found = []
    for folder in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{folder}/stat", "rb", buffering=0) as file:
                before, _, rest = file.read().rpartition(b")")
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended since it was listed
        words = rest.split()
        name = before.partition(b"(")[2].decode(errors="replace")
        alone, ended = (sum(map(int, words[at : at + 2])) / tick for at in (11, 13))
        found.append(_Program(int(folder), int(words[1]), name, alone, alone + ended))
    return found


def _descendants() -> list[_Program]:
    """The programs below this one."""
    children: dict[int, list[_Program]] = {}
    for one in _all():
        children.setdefault(one.parent, []).append(one)
    found: list[_Program] = []
    waiting = [os.getpid()]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += [one.pid for one in below]
    return found
