"""What the gate says of a cell, worked out by hand: every field, and the line of the verdict."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from cnibench.analysis.comparison.contexts import Context, Member
from cnibench.analysis.gate.cell import Place
from cnibench.analysis.gate.failure_rates import Tally
from cnibench.analysis.gate.judgement import Side, judge, side
from cnibench.analysis.gate.verdict import Failures, Judged, Verdict
from cnibench.analysis.model import Where
from cnibench.errors import UsageError
from cnibench.model import context
from tests.unit.test_verdict_rules import WHERE

EIGHT = range(8)
TRIED = Tally(frozenset((0, block) for block in EIGHT))


def _place(values: Iterable[float] | None, tally: Tally = TRIED, **where: Any) -> Place:
    window = where.pop("window", "speed")
    rows = [] if values is None else [{(0, block): value for block, value in enumerate(values)}]
    return Place(Where(**{**WHERE, **where}), window, rows, tally)


def _failed(*blocks: int, reason: str = "") -> Tally:
    return replace(TRIED, failed=frozenset((0, block) for block in blocks), reason=reason)


def _disturbed(*blocks: int, of: Iterable[int] = EIGHT) -> Tally:
    lost = frozenset((0, block) for block in blocks)
    return Tally(frozenset((0, block) for block in of) - lost, disturbed=lost)


def _side(*places: Place) -> Side:
    found: Side = {}
    for place in places:
        where = {name: getattr(place.where, name) for name in Where.__struct_fields__}
        found[context.key(where, context.IDENTITY), place.where.metric] = place
    return found


def _judge(base: Place | None, candidate: Place | None, **options: Any) -> Judged:
    sides = [_side(*([one] if one else [])) for one in (base, candidate)]
    (cell,) = judge(*sides, options.pop("threshold", 0.05), pairwise=True, **options).cells
    return cell


SAME = [100.0 + block for block in EIGHT]
WORSE = [0.8 * value for value in SAME]


def test_a_cell_within_the_threshold() -> None:
    assert _judge(_place(SAME), _place(SAME)) == Judged(
        cell="tcp-rr on one node",
        metric="transaction_rate",
        unit="1/s",
        base=103.5,
        candidate=103.5,
        ratio=1.0,
        low=1.0,
        high=1.0,
        n=8,
        outcome="within",
        reason="transaction_rate +0.00 % (95 % interval +0.00 to +0.00 %, n=8), within the"
        " threshold of 5 %",
        base_failures=Failures(0, 8, ""),
        candidate_failures=Failures(0, 8, ""),
    )


def test_a_cell_that_is_worse() -> None:
    cell = _judge(_place(SAME), _place(WORSE))
    assert (cell.outcome, cell.base, cell.candidate) == ("worse", 103.5, pytest.approx(82.8))
    assert (cell.ratio, cell.low, cell.high) == pytest.approx((0.8, 0.8, 0.8))
    assert cell.reason == (
        "transaction_rate -20.00 % (95 % interval -20.00 to -20.00 %, n=8), worse than the"
        " threshold of 5 %"
    )
    lower = _judge(
        _place(WORSE, metric="latency_p50", better="lower", unit="s"),
        _place(SAME, metric="latency_p50", better="lower", unit="s"),
        threshold=0.125,
    )
    assert lower.reason.startswith("latency_p50 +25.00 %")
    assert lower.reason.endswith("worse than the threshold of 12.5 %")
    assert lower.unit == "s"


def test_a_cell_that_is_undecided() -> None:
    """Log ratios of ±0.2: of the 36 Walsh averages 10 are -0.2, 16 are 0 and 10 are 0.2; the
    interval runs from the fourth to the last but three.
    """
    mixed = [value * math.exp(0.2 * (-1) ** block) for block, value in enumerate(SAME)]
    cell = _judge(_place(SAME), _place(mixed))
    assert (cell.outcome, cell.n, cell.values_undecided) == ("undecided", 8, True)
    assert (cell.ratio, cell.low, cell.high) == pytest.approx((1, math.exp(-0.2), math.exp(0.2)))
    assert cell.reason == (
        "transaction_rate +0.00 % (95 % interval -18.13 to +22.14 %, n=8), neither within 5 % nor"
        " proven beyond it"
    )


def test_too_few_blocks_and_values_that_have_no_ratio() -> None:
    short = _judge(_place(SAME[:5]), _place(SAME[:5]))
    assert (short.outcome, short.n, short.ratio) == ("undecided", 5, 1.0)
    assert short.values_undecided
    none = _judge(_place(SAME), _place([0.0] * 8))
    assert (none.outcome, none.values_undecided) == ("undecided", False)
    assert (short.low, short.high) == (None, None)
    assert short.reason == (
        "transaction_rate +0.00 %; 5 paired blocks cannot decide, at least 6 are needed"
    )
    zero = _judge(_place(SAME), _place([0.0, *SAME[1:]]))
    assert (zero.outcome, zero.n) == ("undecided", 0)
    assert (zero.ratio, zero.low, zero.high) == (None, None, None)
    assert zero.reason == "no block has both, or a value is not above 0"


@pytest.mark.parametrize(("others", "needed"), [(0, 0), (1, 7), (3, 8)])
def test_blocks_that_are_too_few_for_the_family_of_tests(others: int, needed: int) -> None:
    """Six blocks have a p of 1/64 at best: enough for one test at 2.5 %, not for two."""
    cells = [_place(SAME[:6], workload=f"w{number}") for number in range(others + 1)]
    worse = _place(WORSE[:6], workload="w0")
    cell, *_ = judge(_side(*cells), _side(worse, *cells[1:]), 0.05, pairwise=True).cells
    if not needed:
        assert cell.outcome == "worse"
        return
    assert (cell.outcome, cell.values_undecided) == ("undecided", True)
    assert cell.reason == (
        "transaction_rate -20.00 % (95 % interval -20.00 to -20.00 %, n=6), not within 5 %; 6"
        f" paired blocks cannot prove it worse in a family of {others + 1} tests, at least {needed}"
        " are needed ('cnibench compare --plan' says how many)"
    )


def test_a_test_that_rejects_leaves_the_family() -> None:
    """Holm's correction of the second is by the number of those that are left."""
    base = [_place(SAME, workload="w0"), _place(SAME[:6], workload="w1")]
    worse = [_place(WORSE, workload="w0"), _place(WORSE[:6], workload="w1")]
    cells = judge(_side(*base), _side(*worse), 0.05, pairwise=True).cells
    assert [cell.outcome for cell in cells] == ["worse", "worse"]


def test_a_candidate_without_a_figure_is_missing() -> None:
    for candidate in (None, _place(None, Tally())):
        cell = _judge(_place(SAME), candidate)
        assert (cell.outcome, cell.base, cell.candidate) == ("missing", 103.5, None)
        assert cell.reason == "the candidate has no transaction_rate here"
        assert cell.candidate_failures == Failures(0, 0, "")
    nameless = _judge(_place(None, _failed(*EIGHT), metric=""), None)
    assert nameless.reason == (
        "the candidate has no figure here; base failed in 8 of 8 blocks, candidate in 0 of 0"
        " (first reason: )"
    )


def test_a_base_without_a_figure_always_failed_or_was_disturbed() -> None:
    failed = _judge(_place(None, _failed(*EIGHT, reason="gone")), _place(SAME))
    assert (failed.outcome, failed.base, failed.candidate, failed.ratio) == (
        "within",
        None,
        103.5,
        None,
    )
    assert failed.reason == (
        "the base has no figure here, for it always failed; base failed in 8 of 8 blocks,"
        " candidate in 0 (first reason: gone)"
    )
    disturbed = _judge(_place(None, _disturbed(*EIGHT)), _place(SAME, _disturbed(*EIGHT[:5])))
    assert disturbed.outcome == "undecided"
    assert "the base has no transaction_rate here" in disturbed.reason


@pytest.mark.parametrize(
    ("candidate", "outcome", "ratio"),
    [(20, "within", 1.0), (21, "within", 1.05), (22, "worse", 1.1)],
)
def test_counts_are_said_as_counts(candidate: int, outcome: str, ratio: float) -> None:
    where = {"metric": "rules", "better": "lower", "unit": "1"}
    cell = _judge(_place([20.0] * 3, **where), _place([float(candidate)] * 4, **where))
    assert (cell.outcome, cell.n) == (outcome, 3)
    assert (cell.ratio, cell.low, cell.high) == pytest.approx((ratio,) * 3)
    limit = "within the" if outcome == "within" else "worse than the"
    assert cell.reason == f"rules 20 to {candidate} (counted), {limit} threshold of 5 %"
    uneven = _judge(
        _place([20.0, 21.0] * 4, **where), _place([21.0, 20.0] * 4, **where), threshold=0.1
    )
    assert uneven.reason.startswith("rules +0.00 % (95 % interval")


def test_failures_that_are_proven_make_a_cell_worse() -> None:
    """Seven blocks in which only the candidate failed: p = 1/128, of two tests (the figures'
    second).
    """
    failed = _failed(*range(7), reason="timeout")
    cell = _judge(_place(SAME), _place(SAME[:1], failed))
    assert cell.outcome == "worse"
    assert cell.reason == (
        "fails more often than the base (exact McNemar test, p=0.016 after Holm's correction);"
        " base failed in 0 of 8 blocks, candidate in 7 (first reason: timeout)"
    )
    assert cell.p_failures == pytest.approx(2 / 128)
    assert cell.candidate_failures == Failures(7, 8, "timeout")
    both = _judge(_place(SAME), _place(WORSE, _failed(*range(7))))
    assert both.outcome == "worse"
    assert both.reason.startswith(
        "fails more often than the base (exact McNemar test, p=0.0078 after Holm's correction);"
        " transaction_rate -20.00 %"
    )


def test_failures_that_are_not_proven_leave_a_cell_undecided() -> None:
    cell = _judge(_place(SAME), _place(SAME, _failed(3, reason="timeout")))
    assert (cell.outcome, cell.p_failures) == ("undecided", 1.0)
    assert cell.reason == (
        "fails more often than the base, which is not proven (exact McNemar test, p=1 after Holm's"
        " correction); base failed in 0 of 8 blocks, candidate in 1 (first reason: timeout)"
    )
    assert not cell.values_undecided
    mixed = [value * math.exp(0.2 * (-1) ** block) for block, value in enumerate(SAME)]
    open_as_well = _judge(_place(SAME), _place(mixed, _failed(3)))
    assert (open_as_well.outcome, open_as_well.values_undecided) == ("undecided", False)
    as_often = _judge(_place(SAME, _failed(2)), _place(mixed, _failed(3)))
    assert (as_often.outcome, as_often.values_undecided) == ("undecided", True)
    worse = _judge(_place(SAME), _place(WORSE, _failed(3)))
    assert (worse.outcome, worse.values_undecided) == ("worse", False)
    assert worse.reason.startswith("transaction_rate -20.00 %")
    fewer = _judge(_place(SAME, _failed(1, 2, reason="slow")), _place(SAME, _failed(1)))
    assert fewer.outcome == "within"
    assert "base failed in 2 of 8 blocks, candidate in 1 (first reason: slow)" in fewer.reason


def test_disturbances_of_one_side_leave_a_cell_undecided() -> None:
    """Six blocks in which only one side was disturbed: p = 2/64, above the level; with seven it is
    2/128, below.
    """
    base = _place(SAME)
    for lost, significant in ((6, False), (7, True)):
        tally = _disturbed(*range(lost))
        cell = _judge(base, _place(SAME[lost:], tally))
        assert (cell.outcome, cell.values_undecided) == ("undecided", False)
        assert cell.p_disturbed == pytest.approx(2 * 0.5**lost)
        assert (cell.base_disturbed, cell.candidate_disturbed) == (0, lost)
        said = (
            "the candidate was disturbed significantly more often than the base (exact McNemar"
            f" test, p={2 / 128:.2g})"
            if significant
            else "only 2 of 8 pairs of blocks were not disturbed"
        )
        assert cell.reason.startswith(f"{said}; transaction_rate")
        assert cell.reason.endswith(
            f"disturbed and not used: 0 of 8 samples of the base, {lost} of 8 of the candidate"
        )
        other = _judge(_place(SAME[lost:], tally), base)
        assert (other.base_disturbed, other.candidate_disturbed) == (lost, 0)
        if significant:
            assert other.reason.startswith(
                "the base was disturbed significantly more often than the candidate"
            )
    few = _judge(base, _place(SAME, _disturbed(2)))
    assert (few.outcome, few.p_disturbed) == ("within", 1.0)
    assert few.reason.endswith(
        "disturbed and not used: 0 of 8 samples of the base, 1 of 8 of the candidate"
    )


def test_a_missing_cell_stays_missing_whatever_was_disturbed() -> None:
    cell = _judge(_place(SAME), _place(None, _disturbed(*EIGHT)))
    assert cell.outcome == "missing"
    assert cell.reason == (
        "the candidate has no transaction_rate here; disturbed and not used: 0 of 8 samples of the"
        " base, 8 of 8 of the candidate"
    )


def _perf(tally: Tally) -> Place:
    return _place([5.0] * 8, tally, metric="cycles_per_packet", better="lower", window="cpp")


def test_windows_whose_figures_are_not_judged_are_judged_by_their_failures() -> None:
    base = [_place(SAME), _perf(TRIED)]
    candidate = [_place(SAME), _perf(_failed(*EIGHT, reason="killed"))]
    _, perf = judge(_side(*base), _side(*candidate), 0.05, pairwise=True).cells
    assert perf == Judged(
        cell="tcp-rr on one node with perf",
        metric="",
        unit="",
        base=None,
        candidate=None,
        ratio=None,
        low=None,
        high=None,
        n=0,
        outcome="worse",
        reason=f"fails more often than the base (exact McNemar test, p={2 / 256:.2g} after Holm's"
        " correction); base failed in 0 of 8 blocks, candidate in 8 (first reason: killed)",
        base_failures=Failures(0, 8, ""),
        candidate_failures=Failures(8, 8, "killed"),
        p_failures=2 / 256,
    )
    _, fewer = judge(_side(*candidate), _side(*base), 0.05, pairwise=True).cells
    assert fewer.outcome == "within"
    assert fewer.reason.startswith("does not fail more often than the base; base failed in 8 of 8")
    (alone,) = judge(_side(*base), _side(*base), 0.05, pairwise=True).cells
    assert alone.metric == "transaction_rate"
    for one, other, name in (
        (_disturbed(*EIGHT), TRIED, "base"),
        (TRIED, _disturbed(*EIGHT), "candidate"),
    ):
        _, cell = judge(
            _side(_place(SAME), _perf(one)), _side(_place(SAME), _perf(other)), 0.05, pairwise=True
        ).cells
        assert cell.outcome == "undecided"
        assert f"every sample of the {name} was disturbed" in cell.reason


def test_one_more_window_is_judged_once_and_only_where_both_sides_were_tried() -> None:
    """Two figures of the same window with perf are one row; a side that never tried it has none."""
    other = _place([1.0] * 8, _failed(1), metric="cycles_per_byte", better="lower", window="cpp")
    base = [_place(SAME), _perf(_failed(1)), other]
    assert len(judge(_side(*base), _side(*base), 0.05, pairwise=True).cells) == 2
    untried = [_place(SAME), _perf(Tally())]
    assert len(judge(_side(*base), _side(*untried), 0.05, pairwise=True).cells) == 1
    assert len(judge(_side(*untried), _side(*base[:2]), 0.05, pairwise=True).cells) == 1
    new = [*base, _place(SAME, _failed(2), ip=6)]
    found = judge(_side(*base[:1]), _side(*new), 0.05, pairwise=True).cells
    assert len(found) == 1  # the base never tried the others


def test_the_main_metric_decides_and_others_where_they_are_asked_for() -> None:
    places = [
        _place(SAME),
        _place([0.001] * 8, metric="latency_p50", better="lower", unit="s"),
        _place([2.0] * 8, metric="retransmits", better="lower", unit="1"),
    ]
    both = _side(*places)

    def metrics(**options: Any) -> list[str]:
        return [one.metric for one in judge(both, both, 0.05, pairwise=True, **options).cells]

    assert metrics() == ["transaction_rate"]
    assert metrics(main={"tcp-rr": "latency_p50"}) == ["latency_p50"]
    assert metrics(metrics=["retransmits"]) == ["transaction_rate", "retransmits"]
    unknown = [*places[1:], _place(None, _failed(*EIGHT), metric="")]
    found = judge(_side(*unknown), _side(*unknown), 0.05, pairwise=True).cells
    assert [one.metric for one in found] == [""]


def test_runs_against_runs_are_no_pairs() -> None:
    def several(*runs: list[float], tally: Tally = TRIED) -> Side:
        place = _place(None, tally)
        place.runs = [{(i, b): x for b, x in enumerate(run)} for i, run in enumerate(runs)]
        return _side(place)

    base = several([100.0, 102.0], [101.0, 103.0], [99.0, 104.0])
    verdict = judge(base, several([60.0, 61.0]), 0.05, pairwise=False)
    (cell,) = verdict.cells
    assert verdict.how == "runs against runs"
    assert judge(base, base, 0.05, pairwise=True).how == "block by block within one run"
    assert (cell.outcome, cell.n) == ("worse", 3)
    assert cell.base == pytest.approx(101.5)  # the median of 99, 100, 101, 102, 103, 104
    (few,) = judge(several([100.0]), several([100.0]), 0.05, pairwise=False).cells
    assert few.outcome == "undecided"
    assert few.reason.startswith("transaction_rate +0.00 %; 1 base run cannot say")
    failed = several([100.0], tally=_failed(*range(6)))
    (cell,) = judge(base, failed, 0.05, pairwise=False).cells
    assert "Fisher's exact test" in cell.reason
    lost = several([100.0], tally=_disturbed(*range(6)))
    (cell,) = judge(base, lost, 0.05, pairwise=False).cells
    assert "(Fisher's exact test, p=" in cell.reason
    half = several([100.0], tally=_disturbed(*range(5)))
    (cell,) = judge(half, half, 0.05, pairwise=False).cells
    assert "only 3 of 8 blocks of the base were not disturbed" in cell.reason


@pytest.mark.parametrize("threshold", [0.0, 1.0, -0.1, 2.0])
def test_a_threshold_is_a_fraction(threshold: float) -> None:
    with pytest.raises(UsageError):
        judge({}, {}, threshold, pairwise=True)


def _verdict(*outcomes: str, threshold: float = 0.05) -> Verdict:
    cell = _judge(_place(SAME), _place(SAME))
    cells = [
        replace(cell, cell=f"cell {number}", outcome=outcome, reason=f"reason {number}")  # type: ignore[arg-type]
        for number, outcome in enumerate(outcomes)
    ]
    return Verdict(cells, threshold, "")


@pytest.mark.parametrize(
    ("outcomes", "status", "line"),
    [
        ((), 5, "undecided: base and candidate share no cell"),
        (("within",), 0, "within the threshold: the one cell proven no more than 5 % worse"),
        (("within",) * 2, 0, "within the threshold: all 2 cells proven no more than 5 % worse"),
        (("within", "worse"), 4, "worse: cell 1: reason 1"),
        (
            ("undecided", "worse", "missing", "worse"),
            4,
            "worse: cell 1: reason 1 (and 1 more cell)",
        ),
        (("undecided", "within"), 5, "undecided: cell 0: reason 0"),
        (("undecided", "missing"), 5, "undecided: cell 1: reason 1"),
        (("undecided",) * 3, 5, "undecided: cell 0: reason 0 (and 2 more cells)"),
    ],
)
def test_the_status_and_the_line_of_the_gate(
    outcomes: tuple[str, ...], status: int, line: str
) -> None:
    verdict = _verdict(*outcomes)
    assert (verdict.exit_code, verdict.line) == (status, line)


def test_nothing_but_values_is_undecided() -> None:
    values = replace(_verdict("undecided").cells[0], values_undecided=True)

    def only(*outcomes: str) -> bool:
        return replace(_verdict(), cells=[*_verdict(*outcomes).cells, values]).only_values_undecided

    assert only()
    assert only("within")
    assert not any(only(outcome) for outcome in ("undecided", "missing", "worse"))
    assert not _verdict().only_values_undecided
    assert not _verdict("within").only_values_undecided


def test_the_line_says_the_threshold() -> None:
    assert _verdict("within", threshold=0.125).line.endswith("no more than 12.5 % worse")


def test_sides_take_their_label_from_each_run() -> None:
    def member(values: Mapping[int, float], *failed: int, reason: str = "") -> Member:
        tried = frozenset((0, block) for block in {*values, *failed})
        tally = Tally(tried, frozenset((0, block) for block in failed), reason)
        return Member(None, {(0, block): x for block, x in values.items()}, tally)  # type: ignore[arg-type]

    where = {**WHERE, "reading": {}}
    first = Context(where, "speed", {"x": member({0: 1.0}), "y": member({0: 9.0})})
    read = Context({**where, "reading": {"node": "a"}}, "speed", {"x": member({0: 7.0})})
    inter = Context({**where, "placement": "inter"}, "cpp", {"x": member({0: 3.0})})
    second = Context(where, "speed", {"z": member({0: 2.0}, 1, reason="gone")})
    third = Context(where, "speed", {"y": member({0: 9.0})}, {"x": member({}, 0, 1)})
    found = side([([first, read, inter], "x"), ([second], "z"), ([third], "x")])
    one, two = found.values()
    assert [key[1] for key in found] == ["transaction_rate"] * 2
    assert one.runs == [{(0, 0): 1.0}, {(1, 0): 2.0}]
    assert one.median() == 1.5
    assert one.tally.tried == {(0, 0), (1, 0), (1, 1), (2, 0), (2, 1)}
    assert one.tally.failed == {(1, 1), (2, 0), (2, 1)}
    assert one.tally.reason == "gone"
    assert (two.where.placement, two.window, two.runs) == ("inter", "cpp", [{(0, 0): 3.0}])
    assert (one.where.placement, one.window) == ("intra", "speed")
    assert side([([first], "nobody")]) == {}
