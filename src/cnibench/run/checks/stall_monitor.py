"""Watches for stalls while a workload runs: a heartbeat (system/heartbeat.py) on our machine and in
Pods on other ones.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec

from cnibench.errors import LimitError, MeasureError
from cnibench.run.checks.node_load import Usage, node_loads
from cnibench.run.checks.stalls import Evidence, Stall
from cnibench.run.sample_context import SampleContext
from cnibench.system import process as programs
from cnibench.system.guest import patience
from cnibench.system.process import Process, ending
from cnibench.testbed.place import Pod

BEAT = 0.02  # s
_BEAT_CYCLES = (
    0.1  # s, in Pods while cycles are counted: those of the heartbeat would be counted as the Pod's
)
_SLOWEST = 0.2  # s: beats are longer where several pairs have a heartbeat each
PROGRAM = Path(__file__).parents[2] / "system" / "heartbeat.py"
_READY = "ready"
_START = 20.0  # s
_ANSWER = 10.0  # s
_LARGEST = 16 << 20  # bytes


class _Notes(msgspec.Struct):
    """What heartbeat.py prints at its end."""

    started: float
    end: float
    cpus: int
    kernel: str
    tree: str
    gaps: list[tuple[float, float, float]]
    stops: list[tuple[str, float, float, str]]
    waits: list[tuple[str, float, float, float]]
    counters: list[tuple[float, float, float, float, float]]


@dataclass(frozen=True)
class _Heart:
    """A heartbeat that runs ``where`` (in words, '' for our machine) on ``node`` ('' likewise), its
    output in ``file``.
    """

    where: str
    file: Path
    process: Process
    local: bool
    node: str = ""

    @property
    def place(self) -> str:
        return self.where or "on this machine"

    def ready(self) -> bool:
        return self.file.read_bytes()[: len(_READY)] == _READY.encode()


class Watch:
    """The heartbeats of one sample, or of several pairs' at the same time."""

    def __init__(self, here: _Heart, there: Mapping[int, Sequence[_Heart]]) -> None:
        self._here = here
        self._there = there

    def await_ready(self) -> None:
        """Raises LimitError when a heartbeat does not start, MeasureError when it has failed."""
        limit = time.monotonic() + _START * patience()
        for heart in [self._here, *(heart for hearts in self._there.values() for heart in hearts)]:
            while not heart.ready():
                if (status := heart.process.poll()) is not None:
                    raise MeasureError(
                        f"the heartbeat {heart.place} {ending(status)}",
                        f"see {heart.file.with_suffix('.stderr')}",
                    )
                if time.monotonic() > limit:
                    raise LimitError(
                        f"the heartbeat {heart.place} did not start within {_START:.0f} s",
                        "is the machine overloaded?",
                    )
                time.sleep(0.005)

    def evidence(self, spans: Sequence[tuple[float, float, float]]) -> list[Evidence]:
        """Ends the heartbeats. ``spans`` has for each pair (start of its client, its end; s of our
        CLOCK_MONOTONIC; the longest that it may take, s)."""
        here = self._here, _end(self._here)
        there = {
            number: [(heart, _end(heart)) for heart in hearts]
            for number, hearts in self._there.items()
        }
        every = [here, *chain.from_iterable(there.values())]
        found = []
        for number, span in enumerate(spans):
            own = there.get(number, [])
            nodes = {heart.node for heart, _ in own}
            usages = [_usage(span, heart, answer) for heart, answer in every]
            known = [one for one in usages if one is not None]
            seen = _evidence(span, [here, *own])
            if own:
                loads = node_loads(known, nodes) if len(known) == len(usages) else ()
                seen = seen.on_nodes(loads)
            elif known:  # the lab: all is on this machine
                seen = replace(seen, others=max(0.0, known[0].used - known[0].own))
            found.append(seen)
        return found


@contextmanager
def watch(pairs: Sequence[SampleContext]) -> Iterator[Watch]:
    """Heartbeats are started, and gone at the end; ``Watch.await_ready`` before the first client
    starts.
    """
    with ExitStack() as running:
        first = pairs[0]
        here = _start(running, first, "", None, BEAT)
        there: dict[int, list[_Heart]] = {}
        for number, s in enumerate(pairs):
            for role, pod in (("client", s.client), ("server", s.server)):
                if not pod.local:
                    slow = (
                        _BEAT_CYCLES if s.cell.window == "cpp" else min(_SLOWEST, BEAT * len(pairs))
                    )
                    where = f"in the {role}'s Pod (node {pod.node.name})"
                    there.setdefault(number, []).append(
                        _start(running, s, where, (role, pod), slow)
                    )
        yield Watch(here, there)


def _start(
    running: ExitStack, s: SampleContext, where: str, pod: tuple[str, Pod] | None, beat: float
) -> _Heart:
    beat *= patience()
    text = PROGRAM.read_text(encoding="utf-8")
    name, place = pod or ("here", None)
    out, err = s.raw / f"heartbeat.{name}.stdout", s.raw / f"heartbeat.{name}.stderr"
    if place is None:
        process = programs.spawn(
            [Pod.python, "-I", "-S", "-c", text, str(beat)], stdout=out, stderr=err
        )
    else:
        process = place.spawn(
            [place.python, "-I", "-S", "-c", text, str(beat)], stdout=out, stderr=err
        )
    node = "" if place is None else place.node.name
    return _Heart(where, out, running.enter_context(process), place is None, node)


def _end(heart: _Heart) -> tuple[float, _Notes] | None:
    """(when it was asked to end, what it noted); None when it does not answer, or not sensibly, or
    had ended before: then nobody watched.
    """
    if heart.process.poll() is not None:
        return None
    asked = time.monotonic()
    heart.process.interrupt()
    try:
        heart.process.wait(_ANSWER)
        with heart.file.open("rb") as file:
            data = file.read(_LARGEST).partition(b"\n")[2]
        found = msgspec.json.decode(data, type=_Notes)
        return (asked, found) if found.counters and found.cpus > 0 else None
    except (LimitError, msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _evidence(
    span: tuple[float, float, float], answers: Sequence[tuple[_Heart, tuple[float, _Notes] | None]]
) -> Evidence:
    start, end, longest = span
    taken = end - start
    stalls: list[Stall] = []
    steal = throttled = 0.0
    unseen = []
    for heart, answer in answers:
        if answer is None:
            unseen.append(heart.where)
            continue
        report = answer[1]
        first, last = _there(span, heart, answer)
        stalls += _stalls(report, first, last, heart.where)
        inside = [line for line in report.counters if first <= line[0] <= last] or report.counters
        before = [line for line in report.counters if line[0] < first][-1:]
        after = [line for line in report.counters if line[0] > last][:1]
        (since, stolen, held, *_), (until, stolen_then, held_then, *_) = (
            (*before, *inside)[0],
            (*inside, *after)[-1],
        )
        if until > since:
            steal = max(steal, (stolen_then - stolen) / (until - since) / report.cpus)
        throttled = max(throttled, held_then - held)
    return Evidence(
        taken,
        longest,
        tuple(sorted(stalls, key=lambda one: one.at)),
        steal,
        throttled,
        tuple(unseen),
    )


def _there(
    span: tuple[float, float, float], heart: _Heart, answer: tuple[float, _Notes]
) -> tuple[float, float]:
    """The client's start and end by the heartbeat's clock. Another machine has another one: what it
    noted is reckoned back from the moment when both knew the end.
    """
    asked, report = answer
    offset = 0.0 if heart.local else asked - report.end
    return span[0] - offset, span[1] - offset


def _usage(
    span: tuple[float, float, float], heart: _Heart, answer: tuple[float, _Notes] | None
) -> Usage | None:
    """CPUs in use while the client ran; None where nobody counted. What the readings of several
    heartbeats have in common is a load that is steady: those within the client's time count.
    """
    if answer is None:
        return None
    report = answer[1]
    first, last = _there(span, heart, answer)
    lines = [line for line in report.counters if first <= line[0] <= last]
    lines = lines if len(lines) > 1 else report.counters
    (since, _, _, used, own), (until, _, _, used_then, own_then) = lines[0], lines[-1]
    if until <= since:
        return None
    seconds = until - since
    return Usage(
        heart.node,
        report.kernel,
        report.tree,
        report.cpus,
        (used_then - used) / seconds,
        (own_then - own) / seconds,
    )


def _stalls(report: _Notes, first: float, last: float, where: str) -> list[Stall]:
    """Those within the client's time, cut to it."""
    found = []

    def add(kind: Any, what: str, since: float, until: float, most: float) -> None:
        since, until = max(since, first), min(until, last)
        seconds = min(until - since, most)
        if seconds > 0:
            found.append(Stall(kind, what, where, since - first, seconds))

    for since, until, waited in report.gaps:
        add("gap", "", since, until, until - since - waited)
        add("starved", "the heartbeat", since, until, waited)
    for name, since, until, kind in report.stops:
        add("frozen" if kind == "frozen" else "stopped", name, since, until, until - since)
    for name, since, until, waited in report.waits:
        add("starved", name, since, until, waited)
    return found
