"""Recordings of perf, made by hand."""

from __future__ import annotations

from struct import pack
from typing import Any

import pytest

from cnibench.cpp import perfdata
from cnibench.errors import MeasureError

# Of a sample: instruction pointer, thread, time, call chain, CPU, period.
_SAMPLED = 1 | 2 | 4 | 32 | 128 | 256
_CYCLES, _CPU_CLOCK, _TASK_CLOCK, _PAGE_FAULTS, _DUMMY = (0, 0), (1, 0), (1, 1), (1, 2), (1, 9)


def _attr(event: tuple[int, int], sample_type: int = _SAMPLED) -> bytes:
    return pack("<IIQQQQQ", event[0], 48, event[1], 1000, sample_type, 0, 0)


def _record(kind: int, body: bytes, misc: int = 0) -> bytes:
    return pack("<IHH", kind, misc, 8 + len(body)) + body


def _sample(pid: int, time: int, period: int, *chain: int, cpu: int = 3) -> bytes:
    fixed = pack("<QiiQIIQQ", 0xAAAA, pid, pid + 1, time, cpu, 0, period, len(chain))
    return _record(9, fixed + pack(f"<{len(chain)}Q", *chain))


def _file(records: bytes, *attrs: bytes, extra: int = 0) -> bytes:
    """``extra`` bytes follow each description of an event: its ids."""
    table = b"".join(attr + bytes(extra) for attr in attrs)
    begin = 104 + len(table)
    each = len(attrs[0]) + extra
    head = pack("<8sQQQQQQ", b"PERFILE2", 104, each, 104, len(table), begin, len(records))
    return head.ljust(104, b"\0") + table + records


def _pipe(records: bytes, *attrs: bytes) -> bytes:
    heads = b"".join(_record(64, attr + pack("<Q", 7)) for attr in attrs)
    return pack("<8sQ", b"PERFILE2", 16) + heads + records


_RECORDS = b"".join(
    (
        _record(3, pack("<II", 50, 50) + b"iperf3\0\0"),
        _record(3, pack("<II", 50, 51) + b"thread\0\0"),  # of one thread
        _record(7, pack("<IIII", 60, 50, 60, 50) + bytes(8)),
        _record(7, pack("<IIII", 50, 50, 52, 50) + bytes(8)),  # a thread is no child
        _sample(50, 1000, 7, 0x10, 0x20),
        _sample(60, 3000, 9),
        _record(99, b"whatever"),  # of a kind that nobody asked for
        _record(17, pack("<QIHH", 0xFFFF000000001000, 64, 1, 0) + b"bpf_prog_a\0\0\0\0\0\0"),
        _record(2, pack("<QQ", 8, 5)),
        _record(13, pack("<Q", 2)),
        _record(3, pack("<II", 70, 70) + b"\xff\0"),
        _record(2, pack("<QQ", 8, 30)),
        _sample(50, 2000, 8, 0x10, 0x20, cpu=1),
    )
)


@pytest.mark.parametrize("form", [_file, _pipe])
def test_everything_of_a_recording_is_read(form: Any) -> None:
    found = perfdata.read(form(_RECORDS, _attr(_CYCLES)))
    assert found == perfdata.Recording(
        clock=False,
        samples=[(1000, 50, 3, 7, 0), (3000, 60, 3, 9, 1), (2000, 50, 1, 8, 0)],
        chains=[pack("<2Q", 0x10, 0x20), b""],
        parents={60: 50},
        ksymbols=[(0xFFFF000000001000, 64, "bpf_prog_a")],
        lost=37,
    )


@pytest.mark.parametrize(
    ("events", "clock"),
    [
        ([_CPU_CLOCK], True),
        ([_TASK_CLOCK, _DUMMY], True),
        ([_DUMMY, _CPU_CLOCK], True),
        ([_PAGE_FAULTS], False),
        ([(0, 1)], False),
        ([_CYCLES, _DUMMY], False),
        ([_CPU_CLOCK, _CYCLES], False),
    ],
)
def test_a_clock_is_one_only_if_all_counted_events_are(
    events: list[tuple[int, int]], clock: bool
) -> None:
    attrs = [_attr(event) for event in events]
    for data in (
        _file(_RECORDS, *attrs),
        _file(_RECORDS, *attrs, extra=16),
        _pipe(_RECORDS, *attrs),
    ):
        assert perfdata.read(data).clock == clock


def test_lost_samples_are_counted_without_a_sign() -> None:
    for lost in (_record(13, pack("<Q", 1 << 63)), _record(2, pack("<QQ", 8, 1 << 63))):
        assert perfdata.read(_file(lost, _attr(_CYCLES))).lost == 1 << 63


def test_fields_may_be_absent_or_more() -> None:
    """Without a CPU it is 0; an identifier, an address, ids and a stream shift what follows."""
    bare = _record(9, pack("<QiiQQQ", 1, 50, 51, 1000, 7, 1) + pack("<Q", 5))
    found = perfdata.read(_file(bare, _attr(_CYCLES, _SAMPLED & ~128)))
    assert (found.samples, found.chains) == ([(1000, 50, 0, 7, 0)], [pack("<Q", 5)])
    every = _SAMPLED | 1 << 16 | 1 << 3 | 1 << 6 | 1 << 9
    rich = _record(
        9, pack("<QQiiQQQQIIQQ", 90, 1, 50, 51, 1000, 91, 92, 93, 2, 0, 7, 1) + pack("<Q", 5)
    )
    found = perfdata.read(_file(rich, _attr(_CYCLES, every)))
    assert (found.samples, found.chains) == ([(1000, 50, 2, 7, 0)], [pack("<Q", 5)])


@pytest.mark.parametrize(
    ("sample_type", "said"),
    [
        (_SAMPLED & ~2, "lacks tid"),
        (_SAMPLED & ~4, "lacks time"),
        (_SAMPLED & ~256, "lacks period"),
        (_SAMPLED & ~32, r"lacks call chains \(-g\)"),
        (_SAMPLED & ~6, "lacks tid, time"),
        (_SAMPLED | 16, "a plain layout"),
    ],
)
def test_what_a_recording_lacks_is_named(sample_type: int, said: str) -> None:
    with pytest.raises(MeasureError, match=said):
        perfdata.read(_file(_RECORDS, _attr(_CYCLES, sample_type)))


def test_samples_of_two_kinds_are_refused() -> None:
    with pytest.raises(MeasureError, match="2 kinds of samples"):
        perfdata.read(_file(_RECORDS, _attr(_CYCLES), _attr(_DUMMY, 1)))
    with pytest.raises(MeasureError, match="0 kinds of samples"):
        perfdata.read(_pipe(_RECORDS))


def test_a_compressed_recording_is_refused() -> None:
    with pytest.raises(MeasureError, match="compressed"):
        perfdata.read(_file(_record(81, bytes(8)), _attr(_CYCLES)))


def test_a_recording_that_is_cut_off_is_refused() -> None:
    whole = _file(_RECORDS, _attr(_CYCLES))
    assert perfdata.read(whole + b"more").lost == 37  # its features follow the records
    for data in (
        whole[:-1],
        whole[:100],
        whole[:56],
        whole[:55],
        _file(b"", _attr(_CYCLES)),
        _file(_RECORDS, _attr(_CYCLES)[:40]),
        _file(_RECORDS + pack("<IHH", 99, 0, 7), _attr(_CYCLES)),
        _file(_RECORDS + pack("<IHH", 99, 0, 9), _attr(_CYCLES)),
        _file(_RECORDS + bytes(7), _attr(_CYCLES)),
        pack("<8sQ", b"PERFILE2", 16) + _record(64, _attr(_CYCLES)[:47]),
        b"PERFILE2" + bytes(7),
        b"PERFILE1" + whole[8:],
    ):
        with pytest.raises(MeasureError):
            perfdata.read(data)
    assert perfdata.read(_file(_RECORDS + _record(99, b""), _attr(_CYCLES))).lost == 37
    table = pack("<8sQQQQQQ", b"PERFILE2", 104, 48, 1 << 20, 48, 152, len(_RECORDS))
    with pytest.raises(MeasureError, match="cut off"):
        perfdata.read(table + whole[len(table) :])


def test_a_chain_longer_than_its_sample_is_refused() -> None:
    fixed = pack("<QiiQIIQQ", 0, 50, 51, 1000, 0, 0, 7, 2)
    for chain, good in ((bytes(16), True), (bytes(8), False)):
        data = _file(_record(9, fixed + chain) + _record(99, bytes(64)), _attr(_CYCLES))
        if good:
            assert perfdata.read(data).chains == [chain]
        else:
            with pytest.raises(MeasureError, match="garbled"):
                perfdata.read(data)


def test_the_end_of_a_window_is_no_part_of_it() -> None:
    found = perfdata.read(_file(_RECORDS, _attr(_CYCLES)))
    assert [sample[0] for sample in found.within([(1000, 3000)]).samples] == [1000, 2000]
    assert [sample[0] for sample in found.within([(1001, 3001)]).samples] == [3000, 2000]
