"""The first paragraph against the truth that made the figures, and against the report's own."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from scipy.stats import binom

from cnibench.analysis import Analysis, analyse
from cnibench.analysis.comparison.groups import PROVEN
from cnibench.analysis.comparison.neighbours import ASSUMED
from cnibench.analysis.model import Group, Pair
from cnibench.model.units import human
from cnibench.reports.brief import PROVIDER as BRIEF
from cnibench.reports.document.build import document
from cnibench.reports.json_ import PROVIDER as JSON
from tests.simulations._paragraph import Claims, Paragraph, parse
from tests.simulations._situations import Situation, situations
from tests.unit._brief import rows as brief_rows

COUNT = 200
_OFTEN = 0.2  # share of failures from which on a profile is not ranked
_PAGE = Path(__file__).parents[2] / "docs" / "first-paragraphs.md"
_PROVEN = ("a-better", "b-better")
_Case = tuple[Situation, Analysis, Paragraph]


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> list[_Case]:
    folder = tmp_path_factory.mktemp("situations")
    found = []
    for one in situations(COUNT):
        analysis = analyse(one.readers(folder), allow_different=True)
        found.append((one, analysis, parse(analysis.summary)))
    return found


def _places(case: _Case) -> list[tuple[Claims, Group, dict[frozenset[str], Pair]]]:
    """Each place's claims with its group and pairs."""
    _, analysis, paragraph = case
    groups = [group for group in analysis.groups if group.metric == _metric(case[0])]
    found = []
    for group in groups:
        where = "tcp-rr on one node" + f" (environment {group.environment + 1})" * bool(
            group.environment
        )
        pairs = {
            frozenset((pair.a, pair.b)): pair
            for pair in analysis.pairs
            if pair.metric == group.metric and pair.environment == group.environment
        }
        found.append((paragraph.places[where], group, pairs))
    assert len(found) == len(paragraph.places) or set(paragraph.places) == {""}
    return found


def _metric(one: Situation) -> str:
    return "latency_mean" if one.lower else "transaction_rate"


def _sound(one: Situation) -> list[str]:
    """Those that the truth lets rank: with a figure, and not failing often."""
    return [
        label
        for label in one.labels
        if one.figures(label) and one.failures(label) < _OFTEN * one.tried(label)
    ]


def test_failures_are_said_as_they_were(cases: list[_Case]) -> None:
    for case in cases:
        one, analysis, paragraph = case
        failed = {
            label: (one.failures(label), one.tried(label))
            for label in one.labels
            if one.failures(label)
        }
        assert set(paragraph.failed) == set(failed), one.kind
        for claims, group, _ in _places(case):
            assert claims.failed == failed, one.kind
            assert group.failed == failed
            often = {label for label, (k, n) in failed.items() if k >= _OFTEN * n}
            assert claims.kind == "failing" or set(claims.unranked) == often
            ranked = {claims.best, *claims.close, *claims.ranks, *claims.uncompared}
            assert not ranked & often, (one.kind, analysis.summary)
            few = {
                label: (one.figures(label), one.blocks)
                for label in one.labels
                if 0 < 2 * one.figures(label) < one.blocks
            }
            assert claims.rests == few, one.kind


def test_everybody_has_one_place_in_the_sentence(cases: list[_Case]) -> None:
    kinds = Counter()
    for case in cases:
        one, analysis, _ = case
        sound = _sound(one)
        for claims, group, _ in _places(case):
            kinds[claims.kind] += 1
            named = [claims.best, *claims.close, *claims.ranks, *claims.uncompared]
            if claims.kind == "decided":
                assert len(named) == len(set(named))
                assert set(named) <= set(sound)
                assert len(named) + claims.more == len(sound), analysis.summary
                assert claims.apart_from_all == (not claims.close + claims.uncompared)
            elif claims.kind in ("none", "inconclusive"):
                assert claims.among == len(sound) > 1
            elif claims.kind == "alone":
                assert sound == [claims.best]
            else:
                assert claims.kind == "failing"
                assert not sound
            assert group.ranking[: len(sound)] == [x for x in group.ranking if x in sound]
            if claims.best and claims.kind != "inconclusive":
                assert claims.best == group.ranking[0]
    assert set(kinds) == {"decided", "none", "inconclusive", "alone", "failing"}


def test_no_sentence_contradicts_its_own_ratio(cases: list[_Case]) -> None:
    for case in cases:
        one, analysis, _ = case
        medians = {
            (result.label, result.environment): human(result.median, result.unit)
            for result in analysis.results
            if result.metric == _metric(one)
        }
        for claims, group, pairs in _places(case):
            if claims.figure:
                assert claims.figure == medians[claims.best, group.environment]
            for label, interval in claims.ranks.items():
                pair = pairs[frozenset((label, claims.best))]
                assert pair.verdict == ("a-better" if pair.a == claims.best else "b-better")
                if interval:
                    low, high = interval
                    assert low > 1 if one.lower else high < 1, (one.kind, label, interval)
                    assert (low, high) == pytest.approx(_against(pair, label), rel=0.006)
            if claims.kind == "none":
                ranked = set(group.ranking) - set(group.failing)
                among = [pair for key, pair in pairs.items() if key <= ranked]
                assert claims.tested == any(one.verdict == "no-difference-found" for one in among)
            for label in claims.close:
                assert pairs[frozenset((label, claims.best))].verdict not in _PROVEN
            for said in claims.suggestive:
                a, b = said.split(" / ") if " / " in said else (said, claims.best)
                assert pairs[frozenset((a, b))].evidence == "suggestive"
                assert group.ranking.index(a) > group.ranking.index(b)
            for pair in pairs.values():  # ranking and groups, too
                if pair.verdict in _PROVEN and not {pair.a, pair.b} & set(group.failing):
                    better, worse = (
                        (pair.a, pair.b) if pair.verdict == "a-better" else (pair.b, pair.a)
                    )
                    assert group.ranking.index(better) < group.ranking.index(worse)
                    assert not set(group.letters[better]) & set(group.letters[worse])
                assert pair.verdict in _PROVEN or _holds_one(pair), pair


def _against(pair: Pair, label: str) -> tuple[float, float]:
    assert pair.ci_low is not None
    assert pair.ci_high is not None
    return (pair.ci_low, pair.ci_high) if pair.a == label else (1 / pair.ci_high, 1 / pair.ci_low)


def _holds_one(pair: Pair) -> bool:
    """Or rests on a single value, which proves nothing."""
    return pair.ci_low is None or pair.n < 2 or pair.ci_low <= 1 <= (pair.ci_high or 1)


def test_counts_are_those_of_the_json_report(cases: list[_Case]) -> None:
    for one, analysis, paragraph in cases:
        pairs = [
            pair
            for pair in json.loads(JSON.render(analysis))["pairs"]
            if pair["metric"] == _metric(one)
        ]
        count = Counter(pair["verdict"] for pair in pairs)
        apart = count["a-better"] + count["b-better"]
        if pairs:
            expected = len(pairs), apart, count["no-difference-found"], count["inconclusive"]
            assert paragraph.counts == expected, one.kind
        assumed = any(pair["basis"] == "additive model" for pair in pairs)
        assert assumed == ("normal noise" in paragraph.certainty), paragraph.certainty
        # the assumption stands in the sentence itself, too
        sound = set(_sound(one))
        assert any(claims.assumed for claims in paragraph.places.values()) == any(
            pair["basis"] == "additive model" and {pair["a"], pair["b"]} <= sound for pair in pairs
        ), one.kind


def test_what_so_few_blocks_cannot_show_goes_with_verdicts_of_one_run(cases: list[_Case]) -> None:
    said = [analysis for _, analysis, _ in cases if ASSUMED in analysis.summary]
    assert said
    for analysis in said:
        assert len(analysis.runs) == 1
        assert any(pair.verdict in PROVEN or pair.within for pair in analysis.pairs)


def test_all_formats_name_the_same_best(cases: list[_Case]) -> None:
    for case in cases:
        _, analysis, _ = case
        lines = BRIEF.render(analysis, 4000).splitlines()
        sections = document(analysis, whole=True).sections
        for number, (claims, group, _) in enumerate(_places(case)):
            rows = sections[number].tables[0].rows
            assert [row[0] for row in rows][: len(group.ranking)] == group.ranking
            assert not any("?" in cell for row in rows for cell in row)
            if claims.kind == "decided":
                name = "tcp-rr on one node" + " (less is better)" * (group.better == "lower")
                assert brief_rows(lines)[name][claims.best].startswith("best ")


def test_what_is_proven_is_true(cases: list[_Case]) -> None:
    """Level: where profiles differ in nothing, at most 5 % of the paragraphs may say that any do;
    and no more may leave out the best of those that lead, or give an interval without the truth.
    """
    wrong: dict[str, list[bool]] = {"different": [], "leading": [], "interval": []}
    for case in cases:
        one = case[0]
        sound = _sound(one)
        for claims, _group, pairs in _places(case):
            proven = [
                (pair.a, pair.b) if pair.verdict == "a-better" else (pair.b, pair.a)
                for pair in pairs.values()
                if pair.verdict in _PROVEN
            ]
            wrong["different"].append(any(not one.better(*names) for names in proven))
            if claims.kind == "decided":
                behind = set(sound) - {claims.best, *claims.close, *claims.uncompared}
                leaders = [a for a in sound if not any(one.better(b, a) for b in sound)]
                if not claims.more:
                    wrong["leading"].append(bool(set(leaders) & behind))
            for label, interval in claims.ranks.items():
                if interval and claims.best:
                    ratio = one.truth[label] / one.truth[claims.best]
                    wrong["interval"].append(
                        not interval[0] * 0.995 <= ratio <= interval[1] * 1.005
                    )
    for what, found in wrong.items():
        assert len(found) >= 100
        assert sum(found) <= binom.ppf(0.99, len(found), 0.05), (what, sum(found), len(found))


def test_the_documentation_shows_what_reports_say(cases: list[_Case]) -> None:
    sections = _PAGE.read_text(encoding="utf-8").split("\n## ")[1:]
    assert len(sections) == 5
    for title, _, text in (one.partition("\n") for one in sections):
        number = title.split("(situation ")[1].rstrip(")")
        said = " ".join(line for line in text.splitlines() if line.startswith("    "))
        assert said.split() == " ".join(cases[int(number)][1].summary).split()
