"""Samples gathered to series: one metric of one label, a value for each block."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from cnibench.analysis.model import Disturbed, Failure
from cnibench.analysis.samples.stream import Line, samples
from cnibench.errors import InputError
from cnibench.model import context
from cnibench.model.cell import Cell
from cnibench.model.coordinates import NONE, UNREAD
from cnibench.model.metrics import OF_CPP_WINDOWS
from cnibench.rundir.reader import RunReader
from cnibench.rundir.reading.documents import WHOLE
from cnibench.rundir.schema import SAMPLES, Manifest

CPP_METRICS = ("cycles_per_packet", "cycles_per_byte")
Block = tuple[int, int]  # (number of the run, block)


@dataclass(slots=True)
class Series:
    """``first`` stands for all lines' coordinates; ``params`` is canonical JSON. ``tried`` is its
    cell.
    """

    run: int
    first: Line
    params: str
    tried: Tried
    blocks: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)

    def by_block(self) -> dict[Block, float]:
        """One value a block: the mean where one block has several, since the block is the unit."""
        if len(set(self.blocks)) == len(self.blocks):
            return {
                (self.run, block): value
                for block, value in zip(self.blocks, self.values, strict=True)
            }
        found: dict[Block, list[float]] = {}
        for block, value in zip(self.blocks, self.values, strict=True):
            found.setdefault((self.run, block), []).append(value)
        return {block: math.fsum(values) / len(values) for block, values in found.items()}


@dataclass(slots=True)
class Tried:
    """One cell of one run: the blocks in which it was tried and those that gave any figure;
    ``params`` are its own, canonical JSON. A cell whose samples differ in what is read back from
    them has several.

    A cell that is unsupported there was not tried, nor is a block ``disturbed``.
    """

    run: int
    first: Line
    params: str
    blocks: set[int] = field(default_factory=set)
    ok: set[int] = field(default_factory=set)
    reasons: dict[int, str] = field(default_factory=dict)
    disturbed: set[int] = field(default_factory=set)


@dataclass
class Gathered:
    """All that was read of the runs. ``unread`` maps a coordinate that is read back from each
    sample to the number of samples where that failed.
    """

    series: list[Series]
    tried: list[Tried]
    failures: list[Failure]
    disturbed: list[Disturbed]
    notes: list[str]
    lines: int
    samples: int = 0
    unread: dict[str, int] = field(default_factory=dict)


def gather(
    readers: Sequence[RunReader], watch: Callable[[Sequence[Line]], None] | None = None
) -> Gathered:
    """Reads all samples. In windows with perf only the cycles count: the other figures of such a
    window carry perf's own cost. ``watch`` is shown all lines, to save it a pass of its own.

    Disturbed samples give no figure, and are neither a success nor a failure.
    """
    found = Gathered([], [], [], [], [], 0)
    for number, reader in enumerate(readers):
        _gather_run(number, reader, found, watch)
    return found


def _gather_run(
    number: int, reader: RunReader, found: Gathered, watch: Callable[[Sequence[Line]], None] | None
) -> None:
    series: dict[tuple[int, str, bytes], Series] = {}
    of_cell: dict[str, list[Tried]] = {}
    reads: dict[int, dict[str, Any]] = {}  # of those in of_cell, by id
    canonical: dict[bytes, str] = {}
    latest, backwards = "", 0
    disturbed: dict[tuple[str, int], Disturbed] = {}
    block, cell, known = -1, "", dict[str, Any]()
    control = context.congestion_control(reader.environment)
    cells = {cell.id: cell for cell in reader.plan.cells}

    def first(line: Line) -> Line:
        return _in_force(line, cells.get(line.cell), reader.plan, control)

    for piece in samples(reader):
        if watch is not None:
            watch(piece)
        for line in piece:
            found.lines += 1
            if line.warmup:
                continue
            if line.block != block or line.cell != cell:  # a sample's lines are consecutive
                block, cell = line.block, line.cell
                found.samples += 1
                known = _read_back(line)
                for name in context.READ_BACK if line.status == "ok" else ():
                    if known[name] == UNREAD:
                        found.unread[name] = found.unread.get(name, 0) + 1
                variants = of_cell.setdefault(cell, [])
                like = (one for one in variants if _agree(reads[id(one)], known))
                if (same := next(like, None)) is None:
                    own = cells[cell].params if cell in cells else parameters(line.params)
                    same = Tried(number, first(line), json.dumps(own, sort_keys=True))
                    variants.append(same)
                    reads[id(same)] = _read_back(same.first)
                elif line.status == "ok" and (
                    same.first.status != "ok" or UNREAD in reads[id(same)].values()
                ):
                    same.first = first(line)  # others do not know all that was in force
                    reads[id(same)] = _read_back(same.first)
                tried = same
            if line.end < line.start or line.start < latest:
                backwards += 1
            latest = max(latest, line.start)
            if line.disturbed:
                tried.disturbed.add(line.block)
                disturbed.setdefault((line.cell, line.block), _disturbed(number, line))
                continue
            if line.status != "unsupported":
                tried.blocks.add(line.block)
            if line.window == "cpp" and line.status == "ok" and line.metric not in OF_CPP_WINDOWS:
                continue
            raw = bytes(line.params)
            value = line.value
            if line.status != "ok" or value is None or not math.isfinite(value):
                found.failures.append(failure := _failure(line, raw))
                tried.reasons.setdefault(line.block, failure.reason)
                continue
            tried.ok.add(line.block)
            key = (id(tried), line.metric, raw)
            one = series.get(key)
            if one is None:
                if raw not in canonical:
                    canonical[raw] = json.dumps(parameters(raw), sort_keys=True)
                one = series[key] = Series(number, first(line), canonical[raw], tried)
            one.blocks.append(line.block)
            one.values.append(value)
    found.tried += [one for variants in of_cell.values() for one in variants]
    left = {one.first.cell for one in series.values()}
    params = {cell.id: cell.params for cell in reader.plan.cells}
    found.disturbed += [
        msgspec.structs.replace(one, alone=one.cell not in left, params=params.get(one.cell, {}))
        for one in disturbed.values()
    ]
    found.series += series.values()
    if backwards:
        found.notes.append(
            f"{reader.id}: the clock was set back at {backwards} samples (set by hand, or by NTP);"
            " figures and the order of blocks do not depend on it, the times shown do"
        )


def parameters(raw: bytes | msgspec.Raw) -> dict[str, Any]:
    """Parameters out of a line. Raises InputError when they are something else."""
    try:
        return msgspec.json.decode(raw, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise InputError(
            f"{SAMPLES}: the parameters of a sample are no object: {bytes(raw)[:60]!a}", WHOLE
        ) from None


def _read_back(line: Line) -> dict[str, Any]:
    """What was read from the sample while it was measured; a failed one says nothing."""
    if line.status != "ok":
        return dict.fromkeys(context.READ_BACK, UNREAD)
    return {name: getattr(line, name) for name in context.READ_BACK}


def _agree(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """None is what lines of earlier versions do not say."""
    return all(
        one[name] == other[name] or UNREAD in (one[name], other[name]) or other[name] is None
        for name in one
    )


def taken_from_others(gathered: Gathered, environments: Sequence[int]) -> None:
    """Gives each cell that lacks what is read back from a sample the value of the same workload's
    other cells in that placement, if these have one only: otherwise it would be compared with none
    of them. ``environments`` has the number of each run's.
    """
    for name in context.READ_BACK:
        known: dict[tuple[Any, ...], set[Any]] = {}
        for one in gathered.tried:
            value = getattr(one.first, name)
            if one.first.status == "ok" and value not in (UNREAD, NONE):
                known.setdefault(_like(one, environments), set()).add(value)
        for one in gathered.tried:
            values = known.get(_like(one, environments), set())
            if getattr(one.first, name) == UNREAD and len(values) == 1:
                one.first = msgspec.structs.replace(one.first, **{name: next(iter(values))})
    for series in gathered.series:
        same = {name: getattr(series.tried.first, name) for name in context.READ_BACK}
        series.first = msgspec.structs.replace(series.first, **same)


def _like(one: Tried, environments: Sequence[int]) -> tuple[Any, ...]:
    first = one.first
    return environments[one.run], first.method, first.window, first.placement, first.workload


def _in_force(line: Line, cell: Cell | None, plan: Manifest, control: str) -> Line:
    """The line with what lines of earlier versions do not say, and the run's plan does."""
    known: dict[str, Any] = {
        "wire_rate": _number(plan.plan.get("wire_rate"), 0.0),
        "pairs": _number(plan.plan.get("pairs"), 1),
        "duration": (cell.duration if cell else None) or plan.duration,
        "warmup_time": plan.warmup,
        "congestion_control": control,
    }
    lacking = {name: value for name, value in known.items() if getattr(line, name) is None}
    offload = context.wire_offload(
        cell.params if cell else {}, line.wire_offload
    )  # earlier versions gave the run's in any case
    return msgspec.structs.replace(line, wire_offload=offload, **lacking)


def _number(value: object, otherwise: float) -> float:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else otherwise


def _disturbed(run: int, line: Line) -> Disturbed:
    return Disturbed(
        run=run,
        label=line.label,
        profile=line.profile,
        placement=line.placement,
        path=line.path,
        workload=line.workload,
        params={},
        ip=line.ip,
        mtu=line.mtu,
        pair=line.pair,
        window=line.window,
        cell=line.cell,
        block=line.block,
        reason=line.disturbed,
    )


def _failure(line: Line, raw: bytes) -> Failure:
    params = parameters(raw)
    status, reason = line.status, line.reason
    if status == "ok":
        status, reason = (
            "failed",
            "no value" if line.value is None else f"the value is not a number ({line.value})",
        )
    return Failure(
        label=line.label,
        profile=line.profile,
        placement=line.placement,
        workload=line.workload,
        params=params,
        cell=line.cell,
        block=line.block,
        metric=line.metric,
        status=status,
        reason=reason or "no reason was recorded",
    )
