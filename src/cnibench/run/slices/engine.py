"""Drives the generators of a block: rounds of slices, one load at a time."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing, nullcontext, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from cnibench.errors import CnibenchError, MeasureError, UsageError
from cnibench.run.slices.looks import Look, stops, watch
from cnibench.run.slices.priority import ahead, remedy
from cnibench.run.slices.readings.machine import Machine, Spent
from cnibench.run.slices.readings.quota import during
from cnibench.run.slices.running import Reading, Running
from cnibench.run.slices.slice import Slice, order
from cnibench.system import usage
from cnibench.system.usage import Share

if TYPE_CHECKING:
    from cnibench.run.checks.node_load import NodeLoad
    from cnibench.run.sample_context import Measurements

LENGTH = 0.02  # s that are counted of each slice
LEAD_IN = 0.005  # s before them: caches, congestion window, what the last load left behind
_PATIENCE = 5.0  # s that the control of a load's slices may be delayed before its first turn
_SHARE = 0.25  # of a slice that its control may take
_STRAYED = 0.25  # of a slice: CPU time of a client that is not its turn

After = Callable[[int, Sequence[Slice]], None]


@dataclass
class Driven:
    """What the rounds of a block gave. ``failed`` maps cells to the reason why they ended early;
    ``began`` is when the first slice's ``start`` is 0, in ns of CLOCK_MONOTONIC;
    ``wall`` is the time of all rounds in s, ``control`` the median of what a slice takes beyond its
    lead-in and its length. ``share`` is what else the machine did meanwhile. ``priority`` is why
    the rounds had no real-time priority that they should have had, '' otherwise. ``cycles`` is what
    perf found, by cell. ``server`` is the CPU time in s per transaction or byte of a server on
    another node, by cell: of all turns together, for its clock is another one. ``user`` is the
    share of user space in the CPU time of a cell's programs on this node, in all turns together;
    ``cpus`` is how many CPUs they may use. ``loads`` is what other programs used meanwhile on nodes
    that are other machines.
    """

    slices: list[Slice] = field(default_factory=list)
    failed: dict[str, CnibenchError] = field(default_factory=dict)
    began: int = 0
    wall: float = 0.0
    control: float = 0.0
    share: Share = field(default_factory=lambda: Share(0.0, 0.0, 0.0))
    priority: str = ""
    cycles: dict[str, Measurements] = field(default_factory=dict)
    server: dict[str, float] = field(default_factory=dict)
    user: dict[str, float] = field(default_factory=dict)
    cpus: dict[str, int] = field(default_factory=dict)
    loads: Sequence[NodeLoad] = ()


def drive(
    generators: Mapping[str, Running],
    rounds: int,
    block: int,
    seed: int,
    *,
    length: float = LENGTH,
    lead_in: float = LEAD_IN,
    after: After = lambda done, slices: None,
    beside: Collection[int] = (),
) -> Driven:
    """Rounds over all generators, which are started and paused. One that fails is left out from
    then on. ``after`` is called between rounds with the number of those that are done, and all
    slices so far. The calling thread has real-time priority if any generator is to have it.
    ``beside`` are programs of cnibench that run meanwhile, and that every slice needs.

    A cell whose slices are shorter than what their control takes fails. Raises UsageError when
    that leaves none in the first block.
    """
    before = usage.read()
    real_time = any(one.wanted == "real-time" for one in generators.values())
    priority = ahead() if real_time else nullcontext("")
    with closing(Machine(beside)) as machine, priority as refused:
        driven = _drive(generators, machine, rounds, block, seed, length, lead_in, after, refused)
    driven.share = usage.between(before, usage.read())
    driven.priority = refused
    return driven


def _drive(
    generators: Mapping[str, Running],
    machine: Machine,
    rounds: int,
    block: int,
    seed: int,
    length: float,
    lead_in: float,
    after: After,
    refused: str,
) -> Driven:
    driven = Driven()
    left = dict(generators)
    for cell, generator in generators.items():
        try:
            _long_enough(generator, machine, length, lead_in, refused)
        except UsageError as error:
            if block == 0 and len(generators) == 1 + len(driven.failed):
                raise  # nothing can be measured so
            driven.failed[cell] = MeasureError(error.message, error.remedy)
            left.pop(cell).end()
        except CnibenchError as error:
            driven.failed[cell] = error
            left.pop(cell).end()
    modes = {cell: generator.modes.read() for cell, generator in left.items()}
    driven.cpus = {cell: len(generator.cpus) for cell, generator in left.items()}
    began = time.monotonic_ns()
    beyond = []
    turned = dict.fromkeys(left, 0)  # how many slices there were after the cell's last turn
    for number in range(rounds):
        for cell in order(sorted(left), number, block, seed):
            started = time.monotonic()
            try:
                _mark_beside(driven, turned[cell], left[cell], length)
                turn = _slice(left[cell], machine, length, lead_in)
            except CnibenchError as error:
                driven.failed[cell] = error
                left.pop(cell).end()  # what is left of it would run during the others' turns
                continue
            driven.slices.append(_made(left[cell], machine, cell, number, began, length, turn))
            turned[cell] = len(driven.slices)
            beyond.append(time.monotonic() - started - driven.slices[-1].seconds - lead_in)
        if not left:
            break
        after(number + 1, driven.slices)
    for cell, generator in left.items():
        with suppress(MeasureError):  # it has ended, and no turn of it is left to be judged
            _mark_beside(driven, turned[cell], generator, length)
        user, system = (
            now - then for now, then in zip(generator.modes.read(), modes[cell], strict=True)
        )
        if user >= 0 and system >= 0 and user + system:  # none of its programs has ended
            driven.user[cell] = user / (user + system)
    driven.began = began
    driven.wall = (time.monotonic_ns() - began) / 1e9
    driven.control = statistics.median(beyond) if beyond else 0.0
    return driven


def _mark_beside(driven: Driven, first: int, generator: Running, length: float) -> None:
    """Marks the other cells' slices from ``first`` on if this load ran during them."""
    if generator.strayed() > _STRAYED * length:
        driven.slices[first:] = [replace(one, beside=True) for one in driven.slices[first:]]


@dataclass(frozen=True)
class _Turn:
    """What was read at both ends of a slice, and seen between them; ``throttled`` is that of the
    slice.
    """

    first: Reading
    last: Reading
    before: Spent | None
    after: Spent | None
    looks: Sequence[Look]
    throttled: float | None


def _slice(generator: Running, machine: Machine, length: float, lead_in: float) -> _Turn:
    generator.resume()
    quota = generator.quota
    try:
        time.sleep(lead_in)
        held = quota.read() if quota else 0.0
        before = machine.read()
        first = generator.read()
        looks = watch(generator.programs, first.at, length, machine.beside)
        last = generator.read()
        after = machine.read()
        held_then = quota.read() if quota else 0.0
    finally:
        generator.pause()
    beyond = (time.monotonic_ns() - last.at) / 1e9
    throttled = during((held, held_then, quota.read() if quota else 0.0), beyond)
    return _Turn(first, last, before, after, looks, throttled)


def _long_enough(
    generator: Running, machine: Machine, length: float, lead_in: float, refused: str
) -> None:
    """Waits until the control of a slice takes a small share of ``length``, for other programs may
    delay it for a moment. ``refused`` is why there is no real-time priority that was asked for.

    Raises UsageError when it takes more all the time that is waited.
    """
    until = time.monotonic() + _PATIENCE
    control = math.inf  # what it takes where nothing else delays it
    while True:
        began = time.monotonic()
        _slice(generator, machine, 0.0, lead_in)
        control = min(control, time.monotonic() - began - lead_in)
        if control <= length * _SHARE:
            return
        if time.monotonic() > until:
            break
    normal = generator.wanted == "normal"
    raise UsageError(
        f"a slice of {length * 1e3:.3g} ms is too short: starting, counting and stopping the"
        f" load takes {control * 1e3:.3g} ms here"
        + (" at normal priority" if normal else f", and {refused}" if refused else ""),
        (remedy(refused) if refused else "stop other programs")
        + (", leave out --priority normal" if normal else "")
        + ", or use --method windows",
    )


def _made(
    generator: Running,
    machine: Machine,
    cell: str,
    number: int,
    began: int,
    length: float,
    turn: _Turn,
) -> Slice:
    first, last, looks = turn.first, turn.last, turn.looks
    seconds = (last.at - first.at) / 1e9
    softirq, elsewhere = machine.softirqs(turn.before, turn.after, generator.cpus)
    client, server = (last.client - first.client) / 1e9, (last.server - first.server) / 1e9
    daemons = (last.daemons - first.daemons) / 1e9
    load = client + server + daemons
    return Slice(
        round=number,
        cell=cell,
        start=(first.at - began) / 1e9,
        asked=length,
        seconds=seconds,
        units=(last.count - first.count) * generator.unit,
        client=client,
        server=server,
        waited=(last.waited - first.waited) / 1e9,
        daemons=daemons,
        packets=last.packets - first.packets,
        bytes=last.bytes - first.bytes,
        gap=max(look.late for look in looks),
        stops=stops(looks, first.at, seconds),
        softirq=softirq,
        softirq_elsewhere=elsewhere,
        steal=machine.steal(turn.before, turn.after, generator.cpus),
        throttled=turn.throttled,
        others=machine.others(turn.before, turn.after, load),
    )
