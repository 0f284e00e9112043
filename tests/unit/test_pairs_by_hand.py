"""What the comparison of two labels says, worked out by hand: the values, the interval, the reason
and the groups.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from cnibench.analysis.comparison.contexts import Context, Member
from cnibench.analysis.comparison.pairs import compare
from cnibench.analysis.gate.failure_rates import Tally
from cnibench.analysis.model import Group, Pair
from cnibench.stats.diagnostics import dependence
from cnibench.stats.power import standard_effect
from cnibench.stats.scale import scale
from tests.unit.test_verdict_rules import WHERE

Values = Mapping[str, Mapping[int, float]]


def _context(values: Values, **where: Any) -> Context:
    members = {
        label: Member(None, {(0, block): value for block, value in blocks.items()})  # type: ignore[arg-type]
        for label, blocks in values.items()
    }
    return Context({**WHERE, **where}, "speed", members)


def _compare(values: Values, level: float = 0.05, **where: Any) -> tuple[list[Pair], Group]:
    pairs, (group,) = compare([_context(values, **where)], level)
    return pairs, group


def _pair(values: Values, level: float = 0.05, **where: Any) -> Pair:
    (pair,), _ = _compare(values, level, **where)
    return pair


def _rows(**logs: list[float]) -> Values:
    return {name: {block: math.exp(x) for block, x in enumerate(row)} for name, row in logs.items()}


def test_only_blocks_that_both_have_count_and_each_with_its_own() -> None:
    """a is twice b in each of the six common blocks, which are stored in another order."""
    a = {block: 2.0 * 3.0**block for block in (5, 0, 7, 1, 2, 6, 4, 3)}
    b = {block: 3.0**block for block in (2, 3, 9, 4, 5, 8, 6, 7)}
    pair = _pair({"a": a, "b": b})
    assert (pair.a, pair.b, pair.n, pair.family, pair.blocks_needed) == ("a", "b", 6, 1, 6)
    assert pair.p == pair.p_holm == 2 / 64
    assert (pair.verdict, pair.reason, pair.effect) == ("a-better", "", 1.0)
    assert [pair.ratio, pair.ci_low, pair.ci_high] == pytest.approx([2, 2, 2])
    assert pair.spread == pytest.approx(0, abs=1e-12)
    assert (pair.scale, pair.detectable) == (pytest.approx(0, abs=1e-12), None)
    assert pair.dependence_p is None
    assert not pair.exact
    assert (pair.metric, pair.workload) == ("transaction_rate", "tcp-rr")


@pytest.mark.parametrize("zero", ["a", "b"])
@pytest.mark.parametrize(("better", "verdict"), [("lower", "a-better"), ("higher", "b-better")])
def test_values_that_are_not_positive_are_compared_by_their_differences(
    zero: str, better: str, verdict: str
) -> None:
    a = {0: 0.0 if zero == "a" else -1.0, **{block: 10.0 * block for block in range(1, 6)}}
    b = {0: 1.0 if zero == "a" else 0.0, **{block: 11.0 * block + 1 for block in range(1, 6)}}
    pair = _pair({"a": a, "b": b}, better=better)
    assert (pair.n, pair.p, pair.effect, pair.verdict) == (6, 2 / 64, -1.0, verdict)
    assert [pair.ratio, pair.ci_low, pair.ci_high, pair.spread, pair.detectable] == [None] * 5


def test_values_that_have_no_logarithm_give_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert _pair({"a": {0: -1.0, 1: 0.0}, "b": {0: 1.0, 1: 2.0}}).n == 2


def test_the_interval_has_the_level_asked_for() -> None:
    """Of eight ratios: at 2/256 from the smallest to the largest, at 4/256 from the second smallest
    Walsh average (1 + 2) / 2 to the second largest (7 + 8) / 2. The centre is that of symmetry.
    """
    values = _rows(a=[0.01 * i for i in range(1, 9)], b=[0.0] * 8)
    for level, low, high in ((2 / 256, 0.01, 0.08), (4 / 256, 0.015, 0.075)):
        pair = _pair(values, level)
        assert (pair.ci_low, pair.ci_high) == pytest.approx((math.exp(low), math.exp(high)))
        assert pair.ratio == pytest.approx(math.exp(0.045))
        assert pair.spread == pytest.approx(0.01 * math.sqrt(6))  # variance of 1 .. 8: 6
        assert (pair.p, pair.verdict) == (2 / 256, "a-better")
    below = _pair(values, 1.99 / 256)
    assert (below.basis, below.confidence) == ("additive model", None)


def test_what_could_have_been_found_is_that_of_the_family_and_the_level() -> None:
    values = _rows(
        a=[0.01 * i for i in range(12)], b=[0.02 * (i % 3) for i in range(12)], c=[0.0] * 12
    )
    rows = {
        (a, b): np.log(list(values[a].values())) - np.log(list(values[b].values()))
        for a, b in (("a", "b"), ("a", "c"), ("b", "c"))
    }
    for level in (0.05, 0.2):
        pairs, _ = _compare(values, level)
        for pair in pairs:
            assert pair.scale == pytest.approx(scale(rows[pair.a, pair.b])[0])
            effect = standard_effect(12, 3, level, estimated=True)
            assert pair.detectable == pytest.approx(math.expm1(effect * pair.scale))
            assert effect > standard_effect(12, 3, level)


def test_differences_of_rounding_are_none() -> None:
    base = dict.fromkeys(range(6), 1000000.0)
    for zeros in ({}, {6: 0.0}):
        same = _pair(
            {"a": {**base, **zeros}, "b": {**dict.fromkeys(base, 1000000.0 + 1e-07), **zeros}}
        )
        assert (same.p, same.effect, same.verdict) == (1.0, 0.0, "no-difference-found")
        swapped = _pair(
            {"a": {**dict.fromkeys(base, 1000000.0 + 1e-07), **zeros}, "b": {**base, **zeros}}
        )
        assert (swapped.p, swapped.effect) == (1.0, 0.0)
        other = _pair(
            {"a": {**base, **zeros}, "b": {**dict.fromkeys(base, 1000000.0 + 1e-05), **zeros}}
        )
        assert other.p == 2 / 64
        assert other.effect is not None
        assert other.effect < 0
    scale = _pair(
        {
            "a": {**dict.fromkeys(range(5), 1e-09), 5: 3e-9},
            "b": dict.fromkeys(range(5), 2e-09) | {5: 0.0},
        }
    )
    assert scale.effect == pytest.approx((6 - 15) / 21)  # one block above 0, of rank 6


def test_too_few_blocks_say_how_many_it_takes() -> None:
    one = _pair({"a": {0: 1.0}, "b": {0: 2.0}})
    assert one.reason == "1 paired block cannot decide among 1 pair, it takes 6"
    assert (one.verdict, one.n, one.p, one.spread, one.detectable) == (
        "inconclusive",
        1,
        1.0,
        None,
        None,
    )
    two, *_ = _compare(_rows(a=[0.0, 1.0], b=[1.0, 0.5], c=[0.0, 0.0]))[0]
    assert two.reason == "by the additive model: 2 blocks cannot decide without one"
    assert (two.verdict, two.blocks_needed, two.detectable) == ("inconclusive", 7, None)
    assert two.spread == pytest.approx(1.5 / math.sqrt(2))
    assert _pair(_rows(a=[0.0] * 6, b=[0.1, -0.1] * 3)).verdict == "no-difference-found"


def test_labels_without_a_common_block_are_not_compared() -> None:
    for metric in ("transaction_rate", "rules"):
        pair = _pair({"a": {0: 1.0, 1: 2.0}, "b": {2: 2.0}}, metric=metric)
        assert (pair.verdict, pair.reason, pair.n) == ("inconclusive", "no block has both", 0)
        shown = (pair.ratio, pair.ci_low, pair.ci_high, pair.p, pair.p_holm)
        assert (*shown, pair.effect, pair.spread, pair.detectable, pair.dependence_p) == (None,) * 9


def test_a_ratio_beyond_floating_point_is_none() -> None:
    pair = _pair({"a": dict.fromkeys(range(6), 1e300), "b": dict.fromkeys(range(6), 1e-10)})
    assert (pair.ratio, pair.verdict) == (None, "a-better")
    wide = _pair(_rows(a=[600.0, -600.0] * 3, b=[0.0] * 6))
    assert wide.detectable == pytest.approx(math.expm1(700))
    assert _pair(_rows(a=[690.0] * 6, b=[0.0] * 6)).ratio == pytest.approx(math.exp(690))


@pytest.mark.parametrize(
    ("a", "b", "ratio", "effect", "verdicts"),
    [
        (5.0, 7.0, 5 / 7, -1.0, ("a-better", "b-better")),
        (7.0, 5.0, 7 / 5, 1.0, ("b-better", "a-better")),
        (0.0, 7.0, None, -1.0, ("a-better", "b-better")),
        (7.0, 0.0, None, 1.0, ("b-better", "a-better")),
        (1.0, 0.5, 2.0, 1.0, ("b-better", "a-better")),
        (5.0, 5.0, 1.0, 0.0, ("no-difference-found",) * 2),
        (0.0, 0.0, 1.0, 0.0, ("no-difference-found",) * 2),
    ],
)
def test_counts_that_are_alike_in_every_block_are_known(
    a: float, b: float, ratio: float | None, effect: float, verdicts: tuple[str, str]
) -> None:
    values = {"a": {0: a, 1: a, 2: a}, "b": {0: b, 1: b}}
    for better, verdict in zip(("lower", "higher"), verdicts, strict=True):
        pair = _pair(values, metric="rules", better=better)
        assert (pair.ratio, pair.ci_low, pair.ci_high) == (ratio,) * 3
        assert (pair.effect, pair.verdict, pair.n, pair.family) == (effect, verdict, 2, 1)
        assert (pair.p, pair.p_holm, pair.spread, pair.detectable) == (None, None, 0.0, 0.0)
        assert (pair.blocks_needed, pair.exact, pair.a, pair.b) == (1, True, "a", "b")
        assert pair.reason == "counted, and identical in every block"
        assert pair.metric == "rules"
    assert not _pair(values, metric="latency_p50", better="lower").exact


@pytest.mark.parametrize("uneven", ["a", "b"])
def test_counts_that_change_from_block_to_block_are_tested(uneven: str) -> None:
    values = {label: {0: 5.0, 1: 5.0 + (label == uneven)} for label in ("a", "b")}
    pair = _pair(values, metric="chains", better="lower")
    assert not pair.exact
    assert pair.p == 1.0
    assert pair.verdict == "inconclusive"


def test_each_context_is_a_family_of_its_own() -> None:
    three = _context(_rows(a=[0.1 + i / 100 for i in range(6)], b=[0.0] * 6, c=[0.05] * 6))
    two = _context(_rows(a=[0.1 + i / 100 for i in range(9)], b=[0.0] * 9), ip=6)
    pairs, shown = compare([three, two], 0.05)
    assert [(pair.a, pair.b, pair.family, pair.ip) for pair in pairs] == [
        ("a", "b", 3, 4),
        ("a", "c", 3, 4),
        ("b", "c", 3, 4),
        ("a", "b", 1, 6),
    ]
    assert [pair.p_holm for pair in pairs] == [3 * 2 / 64] * 3 + [2 / 512]
    assert [pair.blocks_needed for pair in pairs] == [7] * 3 + [6]
    assert [group.ip for group in shown] == [4, 6]


def test_dependence_is_corrected_over_all_pairs_that_can_be_tested() -> None:
    rising = [0.01 * i for i in range(10)]
    alternating = [0.01, -0.03, 0.02, -0.01, 0.03, -0.02, 0.04, -0.04, 0.05, -0.05]
    contexts = [
        _context(_rows(a=rising, b=[0.0] * 10)),
        _context(_rows(a=alternating, b=[0.0] * 10), ip=6),
        _context(_rows(a=rising[:6], b=[0.0] * 6), mtu=9000),
    ]
    found = [pair.dependence_p for pair in compare(contexts, 0.05)[0]]
    first, second = dependence(np.array([rising, alternating]))[1]
    assert first < second
    assert found == [pytest.approx(2 * first), pytest.approx(max(2 * first, second)), None]


def test_groups_are_ordered_by_the_median_and_the_better_comes_first() -> None:
    """The mean of the first is the largest, its median is not."""
    values = {
        "outlier": {block: (100.0 if block == 0 else 1.0) for block in range(8)},
        "fast": {block: 3.0 + block / 100 for block in range(8)},
        "slow": {block: 2.0 + block / 200 for block in range(8)},
    }
    _, higher = _compare(values, better="higher")
    assert higher.order == [["fast", "outlier"], ["slow", "outlier"]]
    assert higher.letters == {"fast": "a", "outlier": "ab", "slow": "b"}
    _, lower = _compare(values, better="lower")
    assert lower.order == [["outlier", "slow"], ["outlier", "fast"]]
    assert (lower.metric, lower.better) == ("transaction_rate", "lower")


def test_a_group_separates_what_differs_significantly() -> None:
    values = _rows(a=[0.0] * 8, b=[0.1 + i / 1000 for i in range(8)], c=[0.001, -0.001] * 4)
    pairs, group = _compare(values)
    verdicts = {(pair.a, pair.b): pair.verdict for pair in pairs}
    assert verdicts == {
        ("a", "b"): "b-better",
        ("a", "c"): "no-difference-found",
        ("b", "c"): "a-better",
    }
    assert [sorted(names) for names in group.order] == [["b"], ["a", "c"]]
    assert group.letters == {"b": "a", "a": "b", "c": "b"}
    assert group.failed == {}


def test_a_group_says_who_failed() -> None:
    context = _context(_rows(a=[0.0] * 6, b=[0.1] * 6))
    blocks = frozenset((0, block) for block in range(6))
    context.members["b"].tally = Tally(blocks, frozenset({(0, 1), (0, 2)}))
    context.absent["gone"] = Member(None, {}, Tally(blocks, blocks))  # type: ignore[arg-type]
    (group,) = compare([context], 0.05)[1]
    assert group.failed == {"b": (2, 6), "gone": (6, 6)}
