"""The chain of evidence, line by line: what it commits, and how each kind of damage is named."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import msgspec
import pytest

from cnibench.errors import InputError
from cnibench.model.cell import SCHEMA
from cnibench.rundir import chain
from cnibench.rundir.chain import Chain, Problem, Segment, link, own_hash, read

PLAN = "9" * 64
CREATED = {"event": "run-created", "documents": {"plan.json": PLAN}}


def _chain(*events: dict[str, Any], before: str = PLAN) -> list[bytes]:
    """Lines of events.jsonl; event number n has the time ``tn``."""
    lines = []
    for number, event in enumerate(events, 1):
        line, before = link({"schema": SCHEMA, "time": f"t{number}", **event}, before)
        lines.append(line)
    return lines


def _joined(lines: Sequence[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in lines)


def _read(lines: Sequence[bytes], plan_schema: int = SCHEMA) -> Chain:
    return read(_joined(lines), "events.jsonl", plan_schema)


def _cell(cell: str, block: int, **more: Any) -> dict[str, Any]:
    return {"event": "cell-finished", "cell": cell, "block": block, **more}


def _segment(at: int, **more: Any) -> dict[str, Any]:
    return {"at": at, "bytes": 10, "lines": 1, "sha256": f"{at}", **more}


FIVE = [CREATED, {"event": "run-started"}, _cell("a", 0), _cell("a", 1), {"event": "run-finished"}]


def test_a_line_carries_the_hash_of_the_line_before_and_its_own() -> None:
    line, own = link({"event": "x", "n": 1}, "abc")
    body = b'{"event":"x","n":1,"before":"abc"}'
    assert own == sha256(body).hexdigest() == chain.digest(body)
    assert line == body[:-1] + b',"sha256":"' + own.encode() + b'"}'
    assert own_hash(line) == own
    for other in (
        b"",
        body,
        line[:-1],
        line + b" ",
        line.replace(b'"n":1', b'"n":2'),
        line.replace(own[:4].encode(), b"0000"),
        line.replace(b"sha256", b"sha512"),
    ):
        assert own_hash(other) == ""


def test_a_sound_chain_is_read_as_it_was_written() -> None:
    lines = _chain(*FIVE)
    found = _read(lines)
    assert found.problems == []
    assert found.chained
    assert found.lines == lines
    assert [event.event for event in found.events] == [event["event"] for event in FIVE]
    assert found.hashes == {number: own_hash(line) for number, line in enumerate(lines, 1)}
    assert (found.count, found.kept_lines, found.last) == (5, 5, own_hash(lines[-1]))
    assert found.whole == found.kept == len(_joined(lines))
    assert (found.finished, found.sessions, found.again) == ("t5", 1, 0)
    assert found.latest.keys() == {("a", 0), ("a", 1)}
    assert found.latest["a", 1].time == "t4"
    nothing = read(b"", "events.jsonl", SCHEMA)
    assert (nothing.count, nothing.whole, nothing.kept, nothing.problems) == (0, 0, 0, [])
    assert nothing.chained


def test_a_resumed_run_is_not_finished_until_it_says_so() -> None:
    resumed = [*FIVE, {"event": "run-resumed"}]
    assert (_read(_chain(*resumed)).finished, _read(_chain(*resumed)).sessions) == ("", 2)
    again = _read(_chain(*resumed, {"event": "run-finished"}))
    assert (again.finished, again.sessions) == ("t7", 2)


def test_a_line_that_is_cut_off_is_not_read() -> None:
    lines = _chain(*FIVE)
    found = read(_joined(lines[:3]) + lines[3], "events.jsonl", SCHEMA)
    assert (found.count, found.whole, found.kept) == (3, *[len(_joined(lines[:3]))] * 2)
    assert found.problems == []


def _problems(lines: Sequence[bytes]) -> list[tuple[str, int, str]]:
    found = _read(lines)
    assert all(one.file == "events.jsonl" for one in found.problems)
    return [(one.kind, one.line, one.detail) for one in found.problems]


def test_a_changed_line_is_named_once() -> None:
    one, two, three, four, five = _chain(*FIVE)
    changed = three.replace(b'"block":0', b'"block":8')
    assert _problems([one, two, changed, four, five]) == [
        ("changed", 3, "the line is not what was written")
    ]
    found = _read([one, two, changed, four, five])
    assert found.lines == [one, two, four, five]
    assert set(found.hashes) == {1, 2, 4, 5}
    assert _problems([one[:-1], two]) == [("changed", 1, "the line is not what was written")]


def test_missing_lines_are_named_where_they_are_missing() -> None:
    one, two, three, four, five = _chain(*FIVE)
    lost = "one or more lines before this one are missing"
    assert _problems([one, two, four, five]) == [("lost", 3, lost)]
    assert _problems([one, five]) == [("lost", 2, lost)]
    assert _problems([three, four]) == [("lost", 1, lost)]
    assert _problems(_chain({"event": "run-started", "documents": {"plan.json": PLAN}})) == [
        ("lost", 1, lost)
    ]
    assert _problems(_chain(CREATED, before="8" * 64)) == [("lost", 1, lost)]
    assert _problems(_chain({"event": "run-created"})) == [("lost", 1, lost)]


def test_lines_in_another_order_are_named() -> None:
    one, two, three, four, five = _chain(*FIVE)
    order = "the line does not follow the line before it"
    assert _problems([one, two, four, three, five]) == [
        ("out of order", 3, order),
        ("out of order", 4, order),
        ("out of order", 5, order),
    ]
    assert _problems([two, one, three, four, five])[0] == ("out of order", 1, order)


def test_doubled_lines_are_named_and_read_once() -> None:
    one, two, three, four, five = _chain(*FIVE)
    doubled = "the line is there twice"
    assert _problems([one, two, three, three, four, five]) == [("doubled", 4, doubled)]
    assert _problems([one, two, three, four, two, five]) == [("doubled", 5, doubled)]
    assert _read([one, two, two, three]).lines == [one, two, three]


def test_a_line_that_is_sound_and_no_event_is_named() -> None:
    lines = _chain(CREATED, {"event": "run-started", "block": "x"}, _cell("a", 0))
    ((kind, line, detail),) = _problems(lines)
    assert (kind, line) == ("changed", 2)
    assert detail.startswith("it cannot be read: ")
    assert [event.event for event in _read(lines).events] == ["run-created", "cell-finished"]


def test_a_newer_line_is_refused() -> None:
    lines = _chain(CREATED, {"event": "x", "schema": SCHEMA + 1})
    with pytest.raises(InputError, match=r"events\.jsonl, line 2: written by a newer cnibench"):
        _read(lines)


@pytest.mark.parametrize(
    ("event", "name"),
    [
        ({"files": {"../samples.jsonl": _segment(0)}}, "../samples.jsonl"),
        ({"files": {"events.jsonl": _segment(0)}}, "events.jsonl"),
        ({"documents": {"seal.json": "x"}}, "seal.json"),
        ({"raw": {"a/../b": "x"}}, "a/../b"),
        ({"raw": {"/b": "x"}}, "/b"),
        ({"folder": "../x"}, "../x"),
        ({"files": {"x" * 100: _segment(0)}}, "x" * 80),
    ],
)
def test_an_event_names_files_of_the_run_only(event: dict[str, Any], name: str) -> None:
    found = _read(_chain(CREATED, {"event": "x", **event}, {"event": "y"}))
    (problem,) = found.problems
    assert problem == Problem(
        kind="changed",
        file="events.jsonl",
        line=2,
        detail=f"it names a file that is not of a run: '{name}'",
    )
    assert [one.event for one in found.events] == ["run-created", "y"]


def test_a_group_counts_with_its_last_event_only() -> None:
    events = [
        CREATED,
        _cell("a", 0),
        _cell("a", 1, more=True, files={"samples.jsonl": _segment(0)}),
        _cell("b", 1, more=True),
    ]
    lines = _chain(*events)
    cut = _read(lines)
    assert cut.latest.keys() == {("a", 0)}
    assert (cut.kept, cut.kept_lines) == (len(_joined(lines[:2])), 2)
    assert cut.last == own_hash(lines[1])
    assert (cut.segments, cut.count, cut.whole) == ({}, 4, len(_joined(lines)))
    whole = _read(_chain(*events, _cell("c", 1)))
    assert whole.latest.keys() == {("a", 0), ("a", 1), ("b", 1), ("c", 1)}
    assert whole.kept_lines == 5
    assert len(whole.segments["samples.jsonl"]) == 1


def test_segments_carry_the_place_of_their_event() -> None:
    found = _read(
        _chain(
            CREATED,
            _cell(
                "a", 3, attempt=2, files={"samples.jsonl": _segment(5), "cpp.jsonl": _segment(0)}
            ),
            {"event": "attested", "files": {"attestations.jsonl": _segment(0)}},
            _cell("b", 0, files={"samples.jsonl": _segment(15, bytes=20, lines=4)}),
        )
    )
    assert found.segments == {
        "samples.jsonl": [
            Segment(at=5, bytes=10, lines=1, sha256="5", cell="a", block=3, attempt=2),
            Segment(at=15, bytes=20, lines=4, sha256="15", cell="b", block=0),
        ],
        "cpp.jsonl": [Segment(at=0, bytes=10, lines=1, sha256="0", cell="a", block=3, attempt=2)],
        "attestations.jsonl": [Segment(at=0, bytes=10, lines=1, sha256="0")],
    }


def test_a_later_attempt_supersedes_an_earlier_one() -> None:
    files = [{"samples.jsonl": _segment(at)} for at in range(3)]
    found = _read(
        _chain(
            CREATED,
            _cell("a", 0, files=files[0]),
            _cell("a", 0, attempt=2, files=files[1]),
            _cell("b", 0, files=files[2]),
        )
    )
    assert [found.superseded(one) for one in found.segments["samples.jsonl"]] == [
        True,
        False,
        False,
    ]
    assert found.again == 1
    assert not found.superseded(Segment(at=0, bytes=0, lines=0, sha256="", cell="z", attempt=0))
    found.latest["", -1] = found.latest["a", 0]
    assert not found.superseded(Segment(at=0, bytes=0, lines=0, sha256=""))


def test_a_document_has_the_hash_of_its_last_event_or_the_one_before() -> None:
    """The event is written before the document: where the run ended in between, the document is
    still the old one, or not there.
    """
    events = [
        CREATED,
        {"event": "environment", "documents": {"env.json": "1"}},
        {"event": "environment", "documents": {"env.json": "2"}},
        {"event": "plan-narrowed", "documents": {"plan.json": "3", "plan-1.json": "4"}},
    ]
    assert _read(_chain(*events[:1])).documents() == {"plan.json": [PLAN, ""]}
    assert _read(_chain(*events[:2])).documents() == {"plan.json": [PLAN], "env.json": ["1", ""]}
    assert _read(_chain(*events[:3])).documents()["env.json"] == ["2", "1"]
    assert _read(_chain(*events)).documents() == {
        "plan.json": ["3", PLAN],
        "plan-1.json": ["4", ""],
        "env.json": ["2"],
    }


OLD = [
    msgspec.json.encode({"schema": 1, "time": f"o{number}", **event})
    for number, event in enumerate(
        ({"event": "run-started"}, {"event": "cell-finished", "cell": "a", "block": 0})
    )
]


def _adopted(old: Sequence[bytes] = OLD, **more: Any) -> dict[str, Any]:
    text = _joined(old)
    return {
        "event": "chain-started",
        "documents": {"plan.json": PLAN},
        "files": {
            "events.jsonl": {
                "at": 0,
                "bytes": len(text),
                "lines": len(old),
                "sha256": sha256(text).hexdigest(),
                **more,
            }
        },
    }


def test_a_run_of_an_older_version_is_read_without_a_chain() -> None:
    found = _read(OLD, 1)
    assert not found.chained
    assert found.lines == OLD
    assert found.problems == []
    assert (found.sessions, found.latest.keys()) == (1, {("a", 0)})
    broken = _read([OLD[0], b"{", OLD[1]], 1)
    assert broken.lines == OLD
    assert [(one.kind, one.line) for one in broken.problems] == [("changed", 2)]
    # The lines of a new run without hashes are damage.
    assert {one.kind for one in _read(OLD).problems} == {"changed"}


def test_a_run_that_was_taken_over_is_chained_from_then_on() -> None:
    lines = [*OLD, *_chain(_adopted(), {"event": "run-resumed"}, _cell("a", 1))]
    found = _read(lines, 1)
    assert found.chained
    assert found.problems == []
    assert found.lines == lines
    assert set(found.hashes) == {3, 4, 5}
    assert (found.kept, found.kept_lines) == (len(_joined(lines)), 5)
    gap = _read([*lines[:3], lines[4]], 1)
    assert [(one.kind, one.line) for one in gap.problems] == [("lost", 4)]


@pytest.mark.parametrize(
    "lines",
    [
        [OLD[0].replace(b"o0", b"o9"), OLD[1], *_chain(_adopted())],
        [OLD[0], *_chain(_adopted())],
        [*OLD, *_chain(_adopted(bytes=1))],
        [*OLD, *_chain(_adopted(sha256="x"))],
        [*OLD, *_chain({"event": "chain-started", "documents": {"plan.json": PLAN}})],
        [b"{", *_chain(_adopted([b"{"]))],
    ],
)
def test_lines_before_the_chain_that_changed_are_named(lines: list[bytes]) -> None:
    assert (
        Problem(
            kind="changed",
            file="events.jsonl",
            detail="the lines before the chain are not what they were",
        )
        in _read(lines, 1).problems
    )


def test_an_old_run_begins_its_chain_with_the_takeover() -> None:
    for event in (CREATED, {"event": "run-resumed", "documents": {"plan.json": PLAN}}):
        found = _read([*OLD, *_chain(event)], 1)
        assert [(one.kind, one.line) for one in found.problems] == [("lost", 3)]
    assert _problems(_chain(_adopted([])))[0][:2] == ("lost", 1)


def test_a_problem_says_where_it_is() -> None:
    where = {"kind": "lost", "file": "f", "detail": "d"}
    assert str(Problem(**where)) == "f: lost: d"  # type: ignore[arg-type]
    assert str(Problem(**where, line=2, last=2)) == "f, line 2: lost: d"  # type: ignore[arg-type]
    assert str(Problem(**where, line=2)) == "f, line 2: lost: d"  # type: ignore[arg-type]
    several = Problem(**where, line=2, last=3, cell="c", block=1)  # type: ignore[arg-type]
    assert str(several) == "f, lines 2 to 3 (c, block 1): lost: d"
