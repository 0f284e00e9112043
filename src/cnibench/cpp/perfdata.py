"""Reads what ``perf record`` writes, the file and the pipe form alike, without perf.

Layout: tools/perf/Documentation/perf.data-file-format.txt and include/uapi/linux/perf_event.h of
the kernel.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from cnibench.errors import MeasureError

_MAGIC = b"PERFILE2"
_FILE_HEADER = struct.Struct("<8sQQQQQQ")
_RECORD = struct.Struct("<IHH")
_ATTR = struct.Struct("<IIQQQQQ")

_LOST, _FORK, _SAMPLE, _LOST_SAMPLES, _KSYMBOL, _HEADER_ATTR, _COMPRESSED = (
    2,
    7,
    9,
    13,
    17,
    64,
    81,
)

# PERF_SAMPLE_*: bit, format; in their order in a sample, up to the call chain.
_FIELDS = (
    ("identifier", 1 << 16, "Q"),
    ("ip", 1 << 0, "Q"),
    ("tid", 1 << 1, "ii"),
    ("time", 1 << 2, "Q"),
    ("addr", 1 << 3, "Q"),
    ("id", 1 << 6, "Q"),
    ("stream", 1 << 9, "Q"),
    ("cpu", 1 << 7, "II"),
    ("period", 1 << 8, "Q"),
)
_READ, _CALLCHAIN = 1 << 4, 1 << 5
_NEEDED = {"tid": 1 << 1, "time": 1 << 2, "period": 1 << 8, "call chains (-g)": _CALLCHAIN}
_SOFTWARE, _CPU_CLOCK, _TASK_CLOCK, _DUMMY = 1, 0, 1, 9
_REMEDY = "record with perf record -a -g; the raw file is stored with the sample"


# (time in ns, pid, cpu, period, chain): the period is in cycles, or in ns where the event is a
# clock; chain is an index of ``chains``.
Sample = tuple[int, int, int, int, int]


@dataclass
class Recording:
    """``chains`` are the distinct call chains, leaf first, raw: u64 addresses with perf's context
    markers between them.

    ``clock`` is true when the event was a clock (cpu-clock) and no cycles were counted. ``parents``
    maps a process forked meanwhile to its parent, ``ksymbols`` are (address, length, name) of code
    the kernel loaded (eBPF programs).
    """

    clock: bool
    samples: list[Sample]
    chains: list[bytes]
    parents: dict[int, int] = field(default_factory=dict)
    ksymbols: list[tuple[int, int, str]] = field(default_factory=list)
    lost: int = 0

    def within(self, windows: Sequence[tuple[int, int]]) -> Recording:
        """The samples of start <= time < end (ns of the recording's clock) for one of ``windows``,
        which do not overlap.
        """
        ordered = sorted(windows)
        starts = [start for start, _ in ordered]

        def inside(time: int) -> bool:
            at = bisect_right(starts, time)
            return at > 0 and time < ordered[at - 1][1]

        return replace(self, samples=[sample for sample in self.samples if inside(sample[0])])


def read(data: bytes) -> Recording:
    """The recording in ``data``, the content of a perf.data file. Raises MeasureError when it is
    none, is cut off or lacks a field.
    """
    if len(data) < 16 or data[:8] != _MAGIC:
        raise MeasureError("not a perf.data file", _REMEDY)
    try:
        return _read(data)
    except (struct.error, OverflowError):
        raise MeasureError("perf.data is garbled", _REMEDY) from None


def _read(data: bytes) -> Recording:
    header = struct.unpack_from("<Q", data, 8)[0]
    if header == 16:
        attrs = [
            data[at : at + size]
            for at, kind, _, size in _walk(data, 16, len(data))
            if kind == _HEADER_ATTR
        ]
        return _samples(data, 16, len(data), [_attr(attr, 8) for attr in attrs])
    if len(data) < _FILE_HEADER.size:
        raise MeasureError("perf.data is cut off", _REMEDY)
    _, _, each, at, size, begin, length = _FILE_HEADER.unpack_from(data)
    if begin + length > len(data) or at + size > len(data) or each < _ATTR.size or length == 0:
        raise MeasureError("perf.data is cut off", _REMEDY)
    return _samples(
        data, begin, begin + length, [_attr(data, at + n * each) for n in range(size // each)]
    )


def _walk(data: bytes, at: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """(offset, type, misc, size) of each record."""
    unpack = _RECORD.unpack_from
    while at < end:
        if at + 8 > end:
            raise MeasureError("perf.data is cut off", _REMEDY)
        kind, misc, size = unpack(data, at)
        if size < 8 or at + size > end:
            raise MeasureError("perf.data is cut off", _REMEDY)
        yield at, kind, misc, size
        at += size


@dataclass(frozen=True)
class _Attr:
    kind: int
    config: int
    sample_type: int


def _attr(data: bytes, at: int) -> _Attr:
    if at + _ATTR.size > len(data):
        raise MeasureError("perf.data is cut off", _REMEDY)
    kind, _, config, _, sample_type, _, _ = _ATTR.unpack_from(data, at)
    return _Attr(kind, config, sample_type)


def _layout(attrs: list[_Attr]) -> tuple[struct.Struct, dict[str, int]]:
    """What is in a sample up to the number of call chain entries, and the index of each field
    in it.
    """
    types = {attr.sample_type for attr in attrs}
    if len(types) != 1:
        raise MeasureError(f"perf.data holds {len(types)} kinds of samples, expected one", _REMEDY)
    kind = types.pop()
    missing = [name for name, bit in _NEEDED.items() if not kind & bit]
    if missing or kind & _READ:
        raise MeasureError(f"perf.data lacks {', '.join(missing) or 'a plain layout'}", _REMEDY)
    text, index, at = "<", {}, 0
    for name, bit, code in _FIELDS:
        if kind & bit:
            text += code
            index[name] = at
            at += len(code)
    index["chain"] = at
    return struct.Struct(text + "Q"), index


def _samples(data: bytes, begin: int, end: int, attrs: list[_Attr]) -> Recording:
    layout, index = _layout(attrs)
    counted = [
        attr for attr in attrs if (attr.kind, attr.config) != (_SOFTWARE, _DUMMY)
    ]  # perf adds a dummy event for its own records
    clock = all(
        attr.kind == _SOFTWARE and attr.config in (_CPU_CLOCK, _TASK_CLOCK) for attr in counted
    )
    pid_at, time_at, cpu_at, period_at, depth_at = (
        index.get(name, -1) for name in ("tid", "time", "cpu", "period", "chain")
    )
    fixed, unpack = 8 + layout.size, layout.unpack_from
    rows: list[Sample] = []
    known: dict[bytes, int] = {}
    parents: dict[int, int] = {}
    ksymbols: list[tuple[int, int, str]] = []
    lost = 0
    for at, kind, _, size in _walk(data, begin, end):
        if kind == _SAMPLE:
            values = unpack(data, at + 8)
            chain = data[at + fixed : at + fixed + 8 * values[depth_at]]
            if fixed + 8 * values[depth_at] > size:
                raise MeasureError("perf.data is garbled", _REMEDY)
            number = known.setdefault(chain, len(known))
            rows.append(
                (
                    values[time_at],
                    values[pid_at],
                    values[cpu_at] if cpu_at >= 0 else 0,
                    values[period_at],
                    number,
                )
            )
        elif kind == _FORK:
            pid, parent = struct.unpack_from("<II", data, at + 8)
            if pid != parent:
                parents[pid] = parent
        elif kind == _KSYMBOL:
            address, length = struct.unpack_from("<QI", data, at + 8)
            ksymbols.append((address, length, _text(data[at + 24 : at + size])))
        elif kind == _LOST:
            lost += struct.unpack_from("<Q", data, at + 16)[0]
        elif kind == _LOST_SAMPLES:
            lost += struct.unpack_from("<Q", data, at + 8)[0]
        elif kind == _COMPRESSED:
            raise MeasureError("perf.data is compressed by perf", "record without -z")
    return Recording(clock, rows, list(known), parents, ksymbols, lost)


def _text(data: bytes) -> str:
    return data.split(b"\0", 1)[0].decode(errors="replace")
