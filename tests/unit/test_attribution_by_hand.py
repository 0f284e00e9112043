"""Cycles per packet and stacks on samples made by hand."""

from __future__ import annotations

from struct import pack
from typing import Any

import pytest

from cnibench.cpp import attribution, perfdata, stacks, symbols, taxonomy
from cnibench.cpp.attribution import Breakdown
from cnibench.cpp.stacks import Stack
from cnibench.errors import InputError


def test_a_record_keeps_the_largest_functions_and_sorts_components() -> None:
    found = Breakdown(
        components={"a-small": 10.0, "b-large": 30.0},
        unclassified=20.0,
        functions={f"f{i:03}": (float(100 - i), float(i // 2)) for i in range(100)},
        samples=9,
        counted=6,
    )
    line = attribution.record(found, 2, clock=True, version=1)
    assert list(line["components"].items()) == [("b-large", 15.0), ("a-small", 5.0)]
    assert (line["total"], line["cycles"], line["idle_cycles"], line["foreign_cycles"]) == (
        30.0,
        60.0,
        0.0,
        0.0,
    )
    names = list(line["functions"])
    assert names[:4] == ["f098", "f099", "f096", "f097"]
    assert len(names) == attribution.FUNCTIONS == 60
    assert line["functions"]["f098"] == [1.0, 24.5]
    least = attribution.record(Breakdown(unclassified=0.5), 0.5, clock=False, version=1)
    assert least["total"] == 1.0


def test_idle_and_foreign_cycles_add_up() -> None:
    found = attribution.attribute(
        [
            Stack(whose, ("do_idle",), 5.0, 1)
            for whose in ("kernel", "kernel", "foreign", "foreign")
        ],
        taxonomy.load(),
    )
    assert (found.idle, found.foreign, found.total) == (10.0, 10.0, 0.0)


def test_recursion_counts_once() -> None:
    found = attribution.attribute(
        [Stack("cell", ("f", "g", "f"), 5.0, 1), Stack("cell", ("g",), 2.0, 1)], taxonomy.load()
    )
    assert found.functions == {"f": (5.0, 5.0), "g": (2.0, 7.0)}
    assert (found.unclassified, found.total, found.window) == (7.0, 7.0, 7.0)


def _named(addresses: list[int], own: set[int] | None, **options: Any) -> list[Stack]:
    top = 1 << 63
    table = symbols.Symbols([(top + 16 * i, top + 16 * (i + 1), f"f{i}") for i in range(8)])
    recording = perfdata.Recording(
        False, [(1, 7, 0, 10, 0)], [pack(f"<{len(addresses)}Q", *addresses)], **options
    )
    return stacks.named(recording, table, 1e9, own, lambda name: name == "f1")


def test_frames_are_named_from_the_leaf() -> None:
    """The leaf by its own address, callers by the byte before; markers of context are left out."""
    top, kernel, user = 1 << 63, 2**64 - 128, 2**64 - 512
    assert _named([kernel, top + 16, top + 32], None)[0].frames == ("f1", "f1")
    assert _named([top, top + 17], None)[0].frames == ("f0", "f1")
    assert _named([top, user, 5], None)[0].frames == ("f0", stacks.USER)
    assert _named([5, top + 16], None)[0].frames == ("f0", stacks.USER)
    assert _named([5, 6], None)[0].frames == (stacks.USER,)
    assert _named([], None)[0].frames == (stacks.USER,)
    assert _named([2**64 - 4095], None)[0].frames == (stacks.USER,)
    assert _named([2**64 - 4096], None)[0].frames == (symbols.UNKNOWN,)


def test_work_of_children_and_of_the_kernel() -> None:
    top = 1 << 63
    assert _named([top], {1}, parents={5: 1, 7: 5})[0].whose == "cell"
    assert _named([top], {1}, parents={7: 5, 5: 2})[0].whose == "foreign"
    assert _named([top, top + 20], {1})[0].whose == "kernel"  # f1 is work for packets
    assert _named([top, top + 40], {1})[0].whose == "foreign"
    assert _named([top + 16, 5], {1})[0].whose == "foreign"  # the process's own


def test_equal_stacks_are_added_up() -> None:
    top = 1 << 63
    table = symbols.Symbols([(top, top + 64, "f")])
    chains = [pack("<Q", top), pack("<Q", top + 8)]
    samples = [(1, 7, 0, 10, 0), (2, 7, 0, 5, 1), (3, 7, 1, 1, 0), (4, 8, 0, 100, 0)]
    recording = perfdata.Recording(True, samples, chains)
    found = stacks.named(recording, table, 2e9, {7}, lambda name: True)
    assert found == [Stack("cell", ("f",), 32.0, 3), Stack("kernel", ("f",), 200.0, 1)]
    assert stacks.fold(found) == "cell;f 3 32\nkernel;f 1 200\n"


@pytest.mark.parametrize(
    "line", ["cell;f 1 -1", "cell;f 1 inf", "cell;f 1 nan", "cell 1 1", "f 1 1"]
)
def test_a_folded_line_that_cannot_be_is_refused(line: str) -> None:
    with pytest.raises(InputError, match="some, line 1"):
        stacks.unfold(line, "some")
    with pytest.raises(InputError, match=r"stacks\.folded, line 1"):
        stacks.unfold(line)
    assert stacks.unfold("cell;a b;c 2 0") == [Stack("cell", ("c", "a b"), 0.0, 2)]
