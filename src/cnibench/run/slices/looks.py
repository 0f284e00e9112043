"""Looks at a slice while it is measured: which programs of its load are stopped or frozen, and
whether whoever looks came too late.

The counters of a slice are read at its two ends, which a program that is stopped for milliseconds
and continued before the end leaves without a trace.
"""

from __future__ import annotations

import itertools
import math
import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cnibench.system.heartbeat import FREEZERS, HALTED, fields, opened

EVERY = 0.0035  # s: a longer stop is seen
_ASLEEP = b"SD"  # states in which a task may be frozen
_ENDED = (b"Z", b"X")

Halt = tuple[str, str]  # name of a program; "stopped" or "frozen"


@dataclass(frozen=True)
class Look:
    """At ``at`` (ns of CLOCK_MONOTONIC) these programs were halted. The look was due ``late`` s
    before; the time in which whoever looks waited for a CPU does not count.
    """

    at: int
    halted: frozenset[Halt] = frozenset()
    late: float = 0.0


@dataclass(frozen=True)
class Stop:
    """``what`` was halted from ``start`` to ``end``, in s since the slice began."""

    what: str
    kind: str
    start: float
    end: float


class Programs:
    """Some processes, as they are when this is made."""

    def __init__(self, pids: Iterable[int]) -> None:
        self._files = [(opened(f"/proc/{pid}/stat"), opened(f"/proc/{pid}/wchan")) for pid in pids]
        self._names = [_name(state) for state, _ in self._files]

    def halted(self) -> frozenset[Halt]:
        """Those that are stopped by a signal or a debugger, or frozen by their cgroup."""
        found = set()
        for state, where in self._files:
            try:
                text = os.pread(state, 128, 0)
                letter = text[text.rindex(b")") + 2]
                if letter in HALTED:
                    found.add((fields(text)[0], "stopped"))
                elif letter in _ASLEEP and where >= 0 and os.pread(where, 100, 0) in FREEZERS:
                    found.add((fields(text)[0], "frozen"))
            except (OSError, ValueError):
                continue  # it has ended: its generator says so
        return frozenset(found)

    def ended(self) -> str:
        """The name of one that has ended meanwhile; '' while all of them run."""
        for (state, _), name in zip(self._files, self._names, strict=True):
            try:
                text = os.pread(state, 128, 0) if name else b""
                if text[text.rindex(b")") + 2 :][:1] in _ENDED:
                    return name
            except ProcessLookupError:
                return name
            except ValueError:
                continue
        return ""

    def close(self) -> None:
        """May be called twice."""
        self._names.clear()
        while self._files:
            for file in self._files.pop():
                if file >= 0:
                    os.close(file)


def _name(state: int) -> str:
    """Of a program; '' of one that has ended before."""
    try:
        return fields(os.pread(state, 1024, 0))[0]
    except (OSError, IndexError):
        return ""


NOBODY = Programs(())


def watch(programs: Programs, start: int, length: float, beside: Programs = NOBODY) -> list[Look]:
    """Looks from ``start`` (ns of CLOCK_MONOTONIC) until ``length`` s later, the last one then.
    ``beside`` are watched as well.
    """
    before = _waited()
    looks = [Look(time.monotonic_ns(), programs.halted() | beside.halted())]
    parts = math.ceil(length / EVERY)
    for number in range(1, parts + 1):
        due = start + round(length * number / parts * 1e9)
        if due < looks[-1].at and number < parts:
            continue  # that look was so late that it is this one, too
        time.sleep(max(0, due - time.monotonic_ns()) / 1e9)
        at = time.monotonic_ns()
        late = (at - max(due, looks[-1].at)) / 1e9
        if late > EVERY:
            late -= _waited() - before
        looks.append(Look(at, programs.halted() | beside.halted(), max(0.0, late)))
    return looks


def _waited() -> float:
    """Seconds that this thread has waited for a CPU so far."""
    file = opened("/proc/thread-self/schedstat")
    if file < 0:
        return 0.0
    try:
        return int(os.pread(file, 100, 0).split()[1]) / 1e9
    finally:
        os.close(file)


def stops(looks: Sequence[Look], start: int, seconds: float) -> tuple[Stop, ...]:
    """What was halted during a slice of ``seconds`` that began at ``start`` (ns). Between two looks
    of which one found it halted, it was for half of the time.
    """
    found = []
    times = [(look.at - start) / 1e9 for look in looks]
    middles = [0.0, *((a + b) / 2 for a, b in itertools.pairwise(times)), seconds]
    for what, kind in sorted(frozenset().union(*(look.halted for look in looks))):
        since = None
        for number, look in enumerate(looks):
            if (what, kind) in look.halted:
                since = middles[number] if since is None else since
            elif since is not None:
                found.append(Stop(what, kind, since, middles[number]))
                since = None
        if since is not None:
            found.append(Stop(what, kind, since, seconds))
    return tuple(found)
