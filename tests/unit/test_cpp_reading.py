"""perf.data and symbols against perf script's own output on the same recordings (golden: real ones
of Linux 6.18 and perf 6.1).
"""

from __future__ import annotations

import lzma
import re
from contextlib import suppress
from functools import cache
from pathlib import Path
from struct import pack, unpack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cnibench.cpp import perfdata, stacks, symbols
from cnibench.errors import CnibenchError, MeasureError, MissingError

GOLDEN = Path(__file__).parent.parent / "golden" / "perf"
FORMS = ("file", "pipe")
_HEAD = re.compile(r"^.*?\s(-?\d+)/(-?\d+)\s+\[(\d+)\]\s+(\d+)\.(\d+):\s+(\d+):?\s*$")


@cache
def golden(name: str) -> bytes:
    return lzma.decompress((GOLDEN / f"{name}.xz").read_bytes())


def perf_script(form: str) -> list[tuple[int, int, int, int, list[tuple[int, str]]]]:
    """(time in us, cpu, pid, period, [(address, symbol)]) of each sample as perf script shows
    it.
    """
    found: list[tuple[int, int, int, int, list[tuple[int, str]]]] = []
    for line in golden(f"{form}.script").decode().splitlines():
        head = _HEAD.match(line)
        if head:
            pid, _, cpu, seconds, fraction, period = head.groups()
            found.append(
                (int(seconds) * 1_000_000 + int(fraction), int(cpu), int(pid), int(period), [])
            )
        elif line.strip():
            address, name = line.split()
            found[-1][4].append((int(address, 16), name))
    return sorted(found, key=lambda sample: sample[:4])


def addresses(chain: bytes) -> list[int]:
    """Without perf's markers of context."""
    return [address for address in unpack(f"<{len(chain) // 8}Q", chain) if address < 2**64 - 4095]


@pytest.mark.parametrize("form", FORMS)
def test_every_sample_is_the_one_that_perf_script_shows(form: str) -> None:
    recording = perfdata.read(golden(f"{form}.data"))
    ours = sorted(
        (time // 1000, cpu, pid, period, chain)
        for time, pid, cpu, period, chain in recording.samples
    )
    theirs = perf_script(form)
    assert recording.clock  # this machine has no PMU: perf fell back to cpu-clock
    assert [sample[:4] for sample in ours] == [sample[:4] for sample in theirs]
    for sample, shown in zip(ours, theirs, strict=True):
        assert addresses(recording.chains[sample[4]]) == [address for address, _ in shown[4]]


@pytest.mark.parametrize("form", FORMS)
def test_symbols_are_those_of_perf_script(form: str) -> None:
    shown = {
        address: name
        for *_, frames in perf_script(form)
        for address, name in frames
        if address >= 2**63
    }
    # __pfx_ names the padding before a function; what lies there is the end of the function before,
    # and we say so.
    wanted = {address: name for address, name in shown.items() if not name.startswith("__pfx_")}
    table = symbols.Kallsyms(golden("kallsyms"))
    assert {address: table.name(address) for address in wanted} == wanted
    assert len(wanted) > 100


def test_a_caller_is_named_by_its_call_and_not_by_what_lies_behind_it() -> None:
    """The function after a call that never returns is another one: start_kernel's caller, in every
    idle stack.
    """
    table = symbols.Symbols(
        [
            (0xFFFF_FFFF_8100_0000, 0xFFFF_FFFF_8100_0010, "first"),
            (0xFFFF_FFFF_8100_0010, 0xFFFF_FFFF_8100_0020, "second"),
        ]
    )
    chain = pack("<2Q", 0xFFFF_FFFF_8100_0010, 0xFFFF_FFFF_8100_0010)
    recording = one_sample(chain)
    [stack] = stacks.named(recording, table, 1e9, None, lambda name: True)
    assert stack.frames == ("second", "first")


def one_sample(chain: bytes, *, clock: bool = True, period: int = 1_000_000) -> perfdata.Recording:
    return perfdata.Recording(clock, [(1, 1, 0, period, 0)], [chain])


@pytest.mark.parametrize(("clock", "cycles"), [(True, 2_500_000.0), (False, 1_000_000.0)])
def test_a_clock_is_turned_into_cycles_and_cycles_are_left_as_counted(
    clock: bool, cycles: float
) -> None:
    [stack] = stacks.named(
        one_sample(b"", clock=clock), symbols.Symbols([]), 2.5e9, None, lambda name: True
    )
    assert (stack.cycles, stack.samples) == (cycles, 1)


def test_the_window_cuts_samples_and_nothing_else() -> None:
    recording = perfdata.read(golden("file.data"))
    times = sorted(sample[0] for sample in recording.samples)
    middle = times[len(times) // 2]
    first, second = (
        recording.within([window]).samples for window in ((0, middle), (middle, 2**63))
    )
    assert sorted(first + second) == sorted(recording.samples)
    assert max(sample[0] for sample in first) < middle <= min(sample[0] for sample in second)


@settings(max_examples=30, deadline=None)
@given(
    form=st.sampled_from(FORMS),
    cut=st.integers(0, 100_000),
    flips=st.lists(st.tuples(st.integers(0, 100_000), st.integers(0, 255)), max_size=4),
)
def test_a_file_cut_off_or_garbled_is_an_error_of_ours_or_is_read(
    form: str, cut: int, flips: list[tuple[int, int]]
) -> None:
    data = bytearray(golden(f"{form}.data")[:cut])
    for at, value in flips:
        if at < len(data):
            data[at] = value
    with suppress(CnibenchError):  # any other exception is a defect
        recording = perfdata.read(bytes(data))
        stacks.named(recording, symbols.Kallsyms(golden("kallsyms")), 1e9, None, lambda name: False)


def test_what_is_no_recording_is_said() -> None:
    for data in (b"", b"PERFILE2", b"x" * 200):
        with pytest.raises(MeasureError):
            perfdata.read(data)


def test_hidden_kernel_symbols_are_a_clear_error() -> None:
    with pytest.raises(MissingError, match="hides"):
        symbols.Kallsyms(b"0000000000000000 T _text\n0000000000000000 t run\n")


def test_code_that_was_loaded_meanwhile_is_named_within_its_length() -> None:
    base = 0xFFFF_FFFF_C000_0000
    table = symbols.Kallsyms(
        b"ffffffff81000000 T _text\n", [(base, 0x40, "bpf_prog_0123_from_container")]
    )
    at = [base, base + 0x3F, base + 0x40, 0xFFFF_FFFF_8100_0001]
    assert [table.name(address) for address in at] == ["bpf_prog_0123_from_container"] * 2 + [
        symbols.UNKNOWN,
        "_text",
    ]


BASE = 0xFFFF_FFFF_8100_0000
LINES = st.lists(
    st.tuples(
        st.integers(0, 40),
        st.sampled_from("TtwWdb"),
        st.sampled_from(["f", "__pfx_f", "__a", "long_name_of_one"]),
    )
)


@settings(max_examples=60, deadline=None)
@given(own=LINES, repeated=st.integers(1, 20), modules=LINES, ordered=st.booleans(), data=st.data())
def test_a_name_is_the_same_however_little_of_the_text_is_parsed(
    own: list[tuple[int, str, str]],
    repeated: int,
    modules: list[tuple[int, str, str]],
    ordered: bool,
    data: st.DataObject,
) -> None:
    """Against all lines read at once: chunks without functions, addresses with many names, modules
    in any order, a text in no order.
    """
    at, rows = BASE, []
    for number, (gap, kind, name) in enumerate(own * repeated):
        at += gap
        rows.append((at, kind, f"{name}_{number}", ""))
    loaded = [
        (BASE + 64 * gap, kind, f"{name}_m{number}", "\t[some]")
        for number, (gap, kind, name) in enumerate(modules)
    ]
    rows = [*(rows if ordered else rows[::-1]), *loaded]
    text = "".join(
        f"{address:016x} {kind} {name}{module}\n" for address, kind, name, module in rows
    )
    functions = sorted(
        address
        for address, kind, name, _ in rows
        if kind in "TtwW" and not name.startswith("__pfx_")
    )
    if not functions:
        with pytest.raises(MissingError):
            symbols.Kallsyms(text.encode())
        return
    table = symbols.Kallsyms(text.encode())
    for address in data.draw(st.lists(st.integers(BASE - 10, at + 100), min_size=1, max_size=30)):
        found = table.find(address)
        below = [each for each in functions if each <= address]
        if not below:
            assert found is None
            continue
        assert found is not None
        above = [each for each in functions if each > address]
        assert found[:2] == (below[-1], above[0] if above else below[-1] + (1 << 20))
        assert found[2] in {
            name for start, kind, name, _ in rows if start == below[-1] and kind in "TtwW"
        }


def test_symbols_that_were_kept_name_the_same_stacks() -> None:
    recording = perfdata.read(golden("file.data"))
    table = symbols.Kallsyms(golden("kallsyms"))
    found = stacks.named(recording, table, 1e9, None, lambda name: True)
    assert (
        stacks.named(recording, symbols.Symbols(table.used), 1e9, None, lambda name: True) == found
    )
    assert not any(symbols.UNKNOWN in stack.frames for stack in found)
