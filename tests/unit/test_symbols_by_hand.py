"""Names of the kernel's functions, on small lists made by hand."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from cnibench.cpp import symbols
from cnibench.errors import MeasureError, MissingError


def test_a_name_loses_what_the_compiler_appended() -> None:
    names = {
        "tcp_ack.isra.0": "tcp_ack",
        "f.constprop.3.part.1": "f",
        "g.cold": "g",
        "h.llvm.123": "h",
        "k.partial": "k.partial",
        "plain": "plain",
    }
    assert {name: symbols.base_name(name) for name in names} == names


def test_ranges_end_before_their_end() -> None:
    table = symbols.Symbols([(0x20, 0x30, "second"), (0x10, 0x18, "first")])
    at = {0xF: None, 0x10: "first", 0x17: "first", 0x18: None, 0x20: "second", 0x2F: "second"}
    assert {address: (table.find(address) or (0, 0, None))[2] for address in at} == at
    assert table.find(0x30) is None
    assert (table.name(0x30), table.name(0x20)) == (symbols.UNKNOWN, "second")
    assert table.find(0x2F) == (0x20, 0x30, "second")


def _text(*lines: str) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def test_a_function_of_the_kernel_ends_where_the_next_or_loaded_code_begins() -> None:
    text = _text("ffffffff81000000 T one", "ffffffff81001000 T two")
    at = 0xFFFF_FFFF_8100_0000
    table = symbols.Kallsyms(text, [(at + 0x800, 0x100, "bpf"), (at + 0x4000, 0x10, "late")])
    assert table.find(at) == (at, at + 0x800, "one")
    assert table.find(at + 0x8FF) == (at + 0x800, at + 0x900, "bpf")
    assert table.find(at + 0x900) is None
    assert table.find(at + 0x1000) == (at + 0x1000, at + 0x4000, "two")
    assert table.used == {
        (at, at + 0x800, "one"),
        (at + 0x800, at + 0x900, "bpf"),
        (at + 0x1000, at + 0x4000, "two"),
    }
    alone = symbols.Kallsyms(text)
    assert alone.find(at + 0x1000) == (at + 0x1000, at + 0x1000 + (1 << 20), "two")
    assert alone.find(at + 0x1000 + (1 << 20)) is None
    assert alone.find(at - 1) is None
    wide = symbols.Kallsyms(_text("ffffffff81000000 T one", "ffffffff82000000 T two"))
    assert wide.find(at + 5) == (at, at + (1 << 20), "one")
    # Code of no length has no addresses; loaded code at the beginning of a function ends it.
    assert symbols.Kallsyms(text, [(at, 0, "empty")]).find(at) == (at, at + 0x1000, "one")
    inside = symbols.Kallsyms(text, [(at, 0x10, "short")])
    assert inside.find(at + 0xF) == (at, at + 0x10, "short")
    assert inside.find(at + 0x10) is None


def test_of_several_names_of_an_address_the_best_is_shown() -> None:
    """Not weak, then global, then with few leading underscores, then long."""
    for names, best in {
        ("W weak_and_long", "t own"): "own",
        ("w weak_and_long", "t own"): "own",
        ("t a_long_local_name", "T b"): "b",
        ("T __two", "T one"): "one",
        ("T short", "T longer"): "longer",
        ("t x\t[module]",): "x",
    }.items():
        for order in (names, names[::-1]):
            lines = [f"ffffffff81000000 {name}" for name in order]
            assert symbols.Kallsyms(_text(*lines)).name(0xFFFF_FFFF_8100_0000) == best


def test_a_name_that_is_not_text_is_shown_as_far_as_it_is() -> None:
    table = symbols.Kallsyms(b"ffffffff81000000 t odd\xff\n")
    assert table.name(0xFFFF_FFFF_8100_0000) == "odd\N{REPLACEMENT CHARACTER}"


def test_only_lines_of_functions_are_names() -> None:
    lines = [
        "ffffffff81000000 T code",
        "ffffffff81000010 D data",
        "ffffffff81000020 t __pfx_code",
        "ffffffff81000030 t __cfi_code",
        "ffffffff81000040 t ",
        "ffffffff81000050xt odd",
    ]
    table = symbols.Kallsyms(_text(*lines))
    assert {table.name(0xFFFF_FFFF_8100_0000 + 16 * i) for i in range(6)} == {"code"}
    with pytest.raises(MeasureError, match="expected an address"):
        symbols.Kallsyms(_text("ffffffff8100000- T code")).name(0xFFFF_FFFF_8100_0000)


def test_a_large_text_is_cut_into_pieces_between_addresses() -> None:
    """Pieces of 2048 bytes or a little more; ten lines of one address stay together."""
    lines = [
        f"{0xFFFF_FFFF_8100_0000 + 16 * (i // 10):016x} T function_{i:05}" for i in range(2000)
    ]
    text = _text(*lines)
    bounds = symbols._bounds(text, len(text))
    assert (bounds[0], bounds[-1]) == (0, len(text))
    sizes = [end - start for start, end in pairwise(bounds)]
    assert all(2048 <= size <= 2048 + 11 * 36 for size in sizes[:-1])
    assert sizes[-1] <= 2048 + 11 * 36
    for at in bounds[1:-1]:
        before = text[:at].splitlines()[-1][:16]
        assert text[at - 1 : at] == b"\n"
        assert text[at : at + 16] != before
    assert symbols._bounds(text, 100) == [0, 100]
    assert symbols._bounds(b"", 0) == [0, 0]
    behind_many = _text(*["ffffffff80000000 T function"] * 200, *lines)
    parts = symbols._bounds(behind_many, len(behind_many))
    assert parts[1] == 200 * len("ffffffff80000000 T function\n")
    assert max(end - start for start, end in pairwise(parts[1:])) <= 2048 + 11 * 36
    same = _text(*["ffffffff81000000 T function"] * 500)
    assert symbols._bounds(same, len(same)) == [0, len(same)]


def test_names_are_found_in_every_piece_of_a_large_text() -> None:
    """Pieces of data only, many names of one address, modules behind: neighbours are as if the text
    were parsed at once, and it is not.
    """
    base = 0xFFFF_FFFF_8100_0000
    code = [(base + 16 * i, f"first_{i:03}") for i in range(100)]
    data = [f"{base + 0x10000 + i:016x} D data_{i:05}" for i in range(200)]
    many = [f"{base + 0x20000:016x} T a_{i:03}" for i in range(120)]
    more = [(base + 0x30000 + 16 * i, f"second_{i:03}") for i in range(200)]
    lines = [f"{address:016x} T {name}" for address, name in code]
    lines += [*data, *many, *(f"{address:016x} T {name}" for address, name in more)]
    modules = [f"{base + 0x50000 + 16 * i:016x} t inside_{i:03}\t[module]" for i in range(200)]
    inside = [base + 0x50000 + 16 * i for i in range(200)]
    starts = [*(at for at, _ in code), base + 0x20000, *(at for at, _ in more), *inside]
    names = [*(name for _, name in code), "a_119", *(name for _, name in more)]
    names += [f"inside_{i:03}" for i in range(200)]
    ends = [*starts[1:], starts[-1] + (1 << 20)]
    for order in (1, -1):
        table = symbols.Kallsyms(_text(*lines[::order], *modules[::-1]))
        for start, end, name in zip(starts, ends, names, strict=True):
            assert table.find(start) == table.find(end - 1) == (start, end, name)
    parts = symbols._Text(_text(*lines, *modules[::-1]))
    assert parts._rest == [line.encode() for line in modules]
    assert len(parts._bounds) > 6
    # Only what is around an address is looked at.
    for at in (starts[0], starts[150], inside[0]):
        assert len(parts.around(b"%016x~" % at)[0]) < 200
    assert sum(map(len, parts._parsed.values())) < 400


@pytest.mark.parametrize("seed", range(5))
def test_pieces_give_the_names_that_the_whole_text_gives(seed: int) -> None:
    """Functions and data in runs of any length, some of one address."""
    chance = random.Random(seed)
    lines: list[str] = []
    at = 0xFFFF_FFFF_8100_0000
    while len(lines) < 500:
        kind = chance.choice("tD")
        for _ in range(chance.randrange(1, 150)):
            at += 16 * chance.randrange(3)
            lines.append(f"{at:016x} {kind} function_{len(lines):05}")
    functions = {int(line[:16], 16): line[19:] for line in lines if line[17] == "t"}
    starts = sorted(functions)
    table = symbols.Kallsyms(_text(*lines))
    for start, end in pairwise(starts):
        assert table.find(end - 1) == (start, end, functions[start])
    assert table.find(starts[0] - 1) is None


def test_a_text_in_another_order_is_searched_as_a_whole() -> None:
    """Its second piece begins with the address that the first one begins with."""
    base = 0xFFFF_FFFF_8100_0000
    piece = [f"{base + 16 * i:016x} T first_{i:06}" for i in range(66)]
    again = [piece[0], *(f"{base + 0x1000 + 16 * i:016x} T other_{i:06}" for i in range(100))]
    text = _text(*piece, *again)
    bounds = symbols._bounds(text, len(text))
    assert text[bounds[1] :].startswith(piece[0].encode())
    table = symbols.Kallsyms(text)
    for i in range(65):
        assert table.find(base + 16 * i) == (base + 16 * i, base + 16 * i + 16, f"first_{i:06}")


@pytest.mark.parametrize(
    "lines", [[], ["0000000000000000 T one", "0000000000000000 t two\t[module]"]]
)
def test_addresses_that_the_kernel_hides_are_missing(lines: list[str]) -> None:
    with pytest.raises(MissingError, match="hides"):
        symbols.Kallsyms(_text(*lines))
    table = symbols.Kallsyms(_text(*lines, "ffffffff81000000 t three\t[module]"))
    assert table.name(0xFFFF_FFFF_8100_0000) == "three"
