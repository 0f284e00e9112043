"""What is found again in a damaged file, and how what is not is named."""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import msgspec
import pytest

from cnibench.rundir.chain import Problem, Segment
from cnibench.rundir.writing.recovery import Place, in_flight, place, recover


def _line(cell: str, number: int, block: int = 0, **more: Any) -> bytes:
    return msgspec.json.encode({"cell": cell, "block": block, "value": number, **more})


def _segment(lines: Sequence[bytes], cell: str = "", block: int = -1, attempt: int = 1) -> Segment:
    data = b"".join(line + b"\n" for line in lines)
    return Segment(
        at=0,
        bytes=len(data),
        lines=len(lines),
        sha256=sha256(data).hexdigest(),
        cell=cell,
        block=block,
        attempt=attempt,
    )


A = [_line("a", number) for number in range(2)]
B = [_line("b", number) for number in range(3)]
C = [_line("c", number) for number in range(1)]
SEGMENTS = [_segment(A, "a", 0), _segment(B, "b", 0), _segment(C, "c", 0)]


def _recover(
    lines: Sequence[bytes],
    segments: Sequence[Segment] = SEGMENTS,
    *,
    first: int = 1,
    open_end: bool = False,
    cut: bytes = b"",
) -> tuple[dict[str, tuple[int, bytes]], list[tuple[Any, ...]]]:
    """(cell to its first line and its bytes, problems as kind, line, last, cell, detail)."""
    data = b"".join(line + b"\n" for line in lines) + cut
    found, problems = recover(segments, data, first, "f", open_end=open_end)
    assert all(one.file == "f" for one in problems)
    assert all((one.block == 0) == bool(one.cell) for one in problems)
    told = [(one.kind, one.line, one.last, one.cell, one.detail) for one in problems]
    return {segment.cell: (line, piece) for line, piece, segment in found}, told


def _bytes(lines: Sequence[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in lines)


def test_what_is_in_its_place_is_found_there() -> None:
    found, told = _recover([*A, *B, *C], first=11)
    assert found == {"a": (11, _bytes(A)), "b": (13, _bytes(B)), "c": (16, _bytes(C))}
    assert told == []
    assert _recover([], []) == ({}, [])


def test_a_missing_line_costs_its_sample_and_no_other() -> None:
    found, told = _recover([*A, B[0], B[2], *C], first=11)
    assert found == {"a": (11, _bytes(A)), "c": (15, _bytes(C))}
    assert told == [("lost", 13, 14, "b", "1 of 3 lines are missing; the sample is left out")]
    found, told = _recover([*A, *C])
    assert found.keys() == {"a", "c"}
    assert told == [("lost", 3, 3, "b", "3 of 3 lines are missing; the sample is left out")]
    assert _recover([])[1] == [
        ("lost", 1, 1, "a", "2 of 2 lines are missing; the sample is left out"),
        ("lost", 1, 1, "b", "3 of 3 lines are missing; the sample is left out"),
        ("lost", 1, 1, "c", "1 of 1 lines are missing; the sample is left out"),
    ]


def test_a_changed_line_costs_its_sample() -> None:
    found, told = _recover([*A, B[0], B[1].replace(b"1", b"7"), B[2], *C])
    assert found.keys() == {"a", "c"}
    assert told == [("changed", 3, 5, "b", "it is not what was written; the sample is left out")]


def test_a_line_that_cannot_be_read_is_of_nobody() -> None:
    found, told = _recover([*A, B[0], b"{", B[2], *C])
    assert found.keys() == {"a", "c"}
    assert told == [
        ("lost", 3, 5, "b", "1 of 3 lines are missing; the sample is left out"),
        ("not chained", 4, 4, "", "no event commits these lines; they are left out"),
    ]


def test_samples_that_changed_places_are_found() -> None:
    found, told = _recover([*B, *A, *C])
    assert found == {"a": (4, _bytes(A)), "b": (1, _bytes(B)), "c": (6, _bytes(C))}
    assert told == [("out of order", 1, 3, "b", "these lines follow later ones")]


def test_lines_of_a_sample_in_another_order_are_put_right() -> None:
    found, told = _recover([*A, B[2], B[0], B[1], *C])
    assert found == {"a": (1, _bytes(A)), "b": (3, _bytes(B)), "c": (6, _bytes(C))}
    assert told == [("out of order", 3, 5, "b", "the lines of this sample are in another order")]


@pytest.mark.parametrize(("count", "found"), [(5, True), (6, False)])
def test_of_a_few_lines_every_order_is_tried(count: int, found: bool) -> None:
    lines = [_line("a", number) for number in range(count)]
    data, told = _recover(lines[::-1], [_segment(lines, "a", 0)])
    assert data == ({"a": (1, _bytes(lines))} if found else {})
    assert [one[0] for one in told] == ["out of order" if found else "changed"]


def test_doubled_lines_are_left_out() -> None:
    detail = "these lines are there more than once"
    found, told = _recover([*A, B[0], B[1], B[1], B[2], *C])
    assert found == {"a": (1, _bytes(A)), "b": (3, _bytes(B)), "c": (7, _bytes(C))}
    assert told == [("doubled", 5, 5, "b", detail)]
    found, told = _recover([*A, *B, *B, *C])
    assert found == {"a": (1, _bytes(A)), "b": (3, _bytes(B)), "c": (9, _bytes(C))}
    assert told == [("not chained", 6, 8, "", "no event commits these lines; they are left out")]
    found, told = _recover([B[0], *A, *B, *C])
    assert found == {"a": (2, _bytes(A)), "b": (4, _bytes(B)), "c": (7, _bytes(C))}
    assert told == [("not chained", 1, 1, "", "no event commits these lines; they are left out")]


def test_a_sample_with_equal_lines_is_found_beside_a_changed_copy() -> None:
    """Two equal lines belong to the sample; a third, changed one does not."""
    lines = [_line("a", 1), _line("a", 1)]
    found, told = _recover([_line("a", 9), *lines], [_segment(lines, "a", 0)])
    assert found == {"a": (2, _bytes(lines))}
    assert told == [("doubled", 1, 1, "a", "these lines are there more than once")]
    found, told = _recover([*lines, _line("a", 9)], [_segment(lines, "a", 0)])
    assert found == {"a": (1, _bytes(lines))}
    assert told == [("not chained", 3, 3, "", "no event commits these lines; they are left out")]


def test_attempts_of_a_sample_are_kept_apart() -> None:
    first, second = ([_line("a", number, attempt=number)] for number in (1, 2))
    segments = [_segment(first, "a", 0), _segment(second, "a", 0, attempt=2)]
    found, told = recover(segments, _bytes([*second, *first]), 1, "f", open_end=False)
    assert [(line, piece) for line, piece, _ in found] == [(2, _bytes(first)), (1, _bytes(second))]
    assert [one.kind for one in told] == ["out of order"]
    blocks = [_line("a", 1, block) for block in (0, 1)]
    segments = [_segment(blocks[:1], "a", 0), _segment(blocks[1:], "a", 1)]
    found, _ = recover(segments, _bytes(blocks[::-1]), 1, "f", open_end=False)
    assert [line for line, _, _ in found] == [2, 1]


def test_lines_that_name_no_place_are_found_where_they_are_together() -> None:
    one, two = ([b'{"check":"x"}', b'{"check":"y"}'], [b'{"check":"z"}'])
    segments = [_segment(one), _segment(two)]
    found, told = recover(segments, _bytes([b"{}", *one, *two]), 1, "f", open_end=False)
    assert [(line, piece) for line, piece, _ in found] == [(2, _bytes(one)), (4, _bytes(two))]
    assert told == [
        Problem(
            kind="not chained",
            file="f",
            line=1,
            last=1,
            detail="no event commits these lines; they are left out",
        )
    ]
    found, told = recover(segments, _bytes([one[0], *two]), 1, "f", open_end=False)
    assert [line for line, _, _ in found] == [2]
    assert (told[0].kind, told[0].detail) == ("lost", "2 of 2 lines are missing")
    # Each line is used once.
    same = [_segment(two), _segment(two)]
    found, told = recover(same, _bytes([b"{}", *two]), 1, "f", open_end=False)
    assert [line for line, _, _ in found] == [2]
    assert [one.kind for one in told] == ["lost", "not chained"]


def test_lines_that_no_event_commits_are_named_together() -> None:
    x, y = _line("x", 0), _line("y", 0)
    found, told = _recover([*A, x, y, *B, x, *C, y], first=1)
    assert found.keys() == {"a", "b", "c"}
    detail = "no event commits these lines; they are left out"
    assert told == [
        ("not chained", 3, 4, "", detail),
        ("not chained", 8, 8, "", detail),
        ("not chained", 10, 10, "", detail),
    ]


def test_a_sample_in_flight_is_no_problem_where_the_run_is_open() -> None:
    flying = [_line("x", number) for number in range(2)]
    whole = [*A, *B, *C]
    assert _recover([*whole, *flying], open_end=True)[1] == []
    assert _recover([*whole, *flying], open_end=True, cut=b'{"cell":')[1] == []
    assert [one[:3] for one in _recover([*whole, *flying])[1]] == [("not chained", 7, 8)]
    two = [*flying, _line("y", 0, 1)]
    assert [one[:3] for one in _recover([*whole, *two], open_end=True)[1]] == [
        ("not chained", 7, 9)
    ]
    early = _recover([*A, _line("x", 0), *B, *C, *flying], open_end=True)[1]
    assert [one[:3] for one in early] == [("not chained", 3, 3)]


def test_which_lines_can_be_in_flight_together() -> None:
    """Pairs of one place and block: they differ in their cell only."""
    same = {"label": "l", "placement": "p", "workload": "w", "window": "speed"}
    assert in_flight([])
    assert in_flight([_line("a", 0, **same), _line("b", 1, **same)])
    for name in same:
        assert not in_flight([_line("a", 0, **same), _line("a", 0, **{**same, name: "other"})])
    assert not in_flight([_line("a", 0, 0, **same), _line("a", 0, 1, **same)])
    assert in_flight([_line("a", 0), b"{"])
    assert in_flight([b"{"])
    assert not in_flight([b"{", _line("a", 0)])
    assert not in_flight([_line("a", 0), b"{", _line("a", 0)])


def test_which_attestations_can_be_in_flight_together() -> None:
    """Those of one deployment, whose lines have no block, or those of all after a block."""

    def attested(label: str, block: int | None) -> bytes:
        return json.dumps({"label": label, "check": "c", "ip": 4, "block": block}).encode()

    assert in_flight([attested("a", None), attested("a", None)])
    assert not in_flight([attested("a", None), attested("b", None)])
    assert in_flight([attested("a", 0), attested("b", 0)])
    assert not in_flight([attested("a", 0), attested("a", 1)])
    assert not in_flight([attested("a", 0), attested("a", None)])


def test_the_place_of_a_line() -> None:
    assert place(_line("a", 0, 3, attempt=2, window="cpp")) == Place(
        cell="a", block=3, attempt=2, window="cpp"
    )
    assert place(b"{}") == Place()
    for line in (b"", b"{", b"[]", b'{"block":"x"}', b'{"cell":"\xff"}', b"[" * 100_000):
        assert place(line) is None
