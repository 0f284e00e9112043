"""Two profiles against each other: one page for each pair, with every verdict, the cycles and the
features side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import msgspec

from cnibench.analysis.comparison.groups import PROVEN
from cnibench.analysis.model import Cpp, Pair, Result
from cnibench.analysis.text.narrative import place_of
from cnibench.cpp.colors import grouped
from cnibench.model import context
from cnibench.model.units import human
from cnibench.reports._numbers import p_value
from cnibench.reports.document.comparison import ratio
from cnibench.reports.document.parts import Table
from cnibench.reports.site.dataset import Material
from cnibench.reports.site.figures import pairs, waterfall
from cnibench.reports.site.figures.charts import Chart
from cnibench.reports.site.places import FAILED_OFTEN, Place

_ASSUMES = "assumes normal noise"
_TOTAL = "total"
MOST = 120  # pairs with a page of their own: those of 16 profiles
_MEANING = {
    "a-better": "{a} is better",
    "b-better": "{b} is better",
    "no-difference-found": "no difference found",
    "inconclusive": "inconclusive",
}


@dataclass(frozen=True)
class Steps:
    """Where the difference in cycles per packet is, in words and as a chart."""

    sentence: str
    chart: Chart


@dataclass(frozen=True)
class Versus:
    """``figures`` has each place's main metric; ``lead`` says in a sentence who is ahead where.
    ``cycles`` is None where each place has ``steps``, whose charts have the same numbers.
    """

    a: str
    b: str
    lead: str
    figures: Table
    chart: Chart | None
    cycles: Table | None
    steps: list[Steps]
    features: list[tuple[str, str, str]]


def pairs_of(labels: Sequence[str], places: Sequence[Place]) -> list[tuple[str, str]]:
    """The pairs that were measured at one place at least, the first MOST of them."""
    together = {
        frozenset((p, q))
        for place in places
        for p, q in combinations(sorted(row.label for row in place.rows), 2)
    }
    return [pair for pair in combinations(labels, 2) if frozenset(pair) in together][:MOST]


def versus(
    material: Material,
    places: Sequence[Place],
    a: str,
    b: str,
    features: Sequence[tuple[str, str, str]],
) -> Versus:
    """Everything that was measured of both."""
    rows, bars, count = [], [], dict.fromkeys((*_MEANING, FAILED_OFTEN), 0)
    modelled = False
    for place in places:
        results = {row.label: row.result for row in place.rows}
        pair = _pair(material, place, a, b, place.group.metric)
        if a not in results or b not in results or pair is None:
            continue
        verdict = (
            pair.verdict
            if pair.a == a
            else {"a-better": "b-better", "b-better": "a-better"}.get(pair.verdict, pair.verdict)
        )
        failing = {a, b} & set(place.group.failing)
        count[FAILED_OFTEN if failing else verdict] += 1
        said = _MEANING[verdict].format(a=a, b=b)
        often = "".join(f"; {one} {FAILED_OFTEN}" for one in sorted(failing))
        modelled = modelled or (pair.basis == "additive model" and verdict in PROVEN)
        rows.append(_row(place, results[a], results[b], pair, a, said + often))
        if pair.ratio is not None and pair.ci_low is not None and pair.ci_high is not None:
            bars.append(_bar(place, pair, a, rows[-1][3], said))
    heads = ["where", a, b, f"{a} / {b}", "p", "blocks", "verdict"]
    steps = [one for place in places if (one := _steps(material, place, a, b))]
    cycles = _cycles(material, a, b)
    if cycles and sum(row[1] == _TOTAL for row in cycles.rows) <= len(steps):
        cycles = None
    return Versus(
        a,
        b,
        _lead(a, b, count) + (f" This {_ASSUMES}." if modelled else ""),
        Table(heads, rows, False),
        _chart(material, a, b, bars),
        cycles,
        steps,
        list(features),
    )


def _pair(material: Material, place: Place, a: str, b: str, metric: str) -> Pair | None:
    key = place_of(place.group)
    return next(
        (
            p
            for p in material.analysis.pairs
            if {p.a, p.b} == {a, b} and p.metric == metric and not p.reading and place_of(p) == key
        ),
        None,
    )


def _row(place: Place, one: Result, other: Result, pair: Pair, a: str, verdict: str) -> list[str]:
    unit = place.group.unit
    name = (
        f"{place.title}: {place.metric}, {'more' if place.group.better == 'higher' else 'less'} is"
        " better"
    )
    return [
        name,
        human(one.median, unit),
        human(other.median, unit),
        ratio(pair, a),
        _ASSUMES if pair.basis == "additive model" else p_value(pair.p_holm),
        str(pair.n),
        verdict,
    ]


def _bar(place: Place, pair: Pair, a: str, shown: str, verdict: str) -> dict[str, object]:
    """The ratio turned so that above 1 ``a`` is the better one."""
    ratio, low, high = pair.ratio or 1.0, pair.ci_low or 1.0, pair.ci_high or 1.0
    if (pair.a == a) != (place.group.better == "higher"):
        ratio, low, high = 1 / ratio, 1 / high, 1 / low
    return {
        "where": place.title,
        "ratio": ratio,
        "low": low,
        "high": high,
        "verdict": verdict,
        "shown": shown,
    }


def _chart(material: Material, a: str, b: str, bars: Sequence[dict[str, object]]) -> Chart | None:
    """Without a table: the page has its figures."""
    if not bars:
        return None
    title = f"How much better {a} is than {b}"
    about = (
        f"{title} at each place: the ratio with its interval; right of 1 {a} is the better"
        " one, an interval that holds 1 is open."
    )
    notes = (
        (
            f"right of 1: {a} is better, left of it {b}, whichever way is better for the figure;"
            " point: ratio within the blocks, line: its interval"
        ),
    )
    verdicts = (
        f"{a} is better",
        f"{b} is better",
        _MEANING["no-difference-found"],
        _MEANING["inconclusive"],
    )
    colors = [material.looks[one].color for one in (a, b)]
    spec = pairs.ratios(bars, "times better (log scale)", verdicts, colors)
    return Chart(title, about, spec, None, notes, pictured=False)


def _lead(a: str, b: str, count: dict[str, int]) -> str:
    whole = sum(count.values())
    if not whole:
        return f"{a} and {b} were not measured in the same blocks anywhere."
    parts = []
    for name, number in ((a, count["a-better"]), (b, count["b-better"])):
        if number:
            parts.append(f"{name} is better in {number}")
    if count["no-difference-found"]:
        parts.append(f"no significant difference in {count['no-difference-found']}")
    if count["inconclusive"]:
        parts.append(f"{count['inconclusive']} could not be decided")
    if count[FAILED_OFTEN]:
        parts.append(f"in {count[FAILED_OFTEN]} one of them {FAILED_OFTEN}")
    return f"Of {whole} comparison{'s' * (whole != 1)}: {'; '.join(parts)}."


def _steps(material: Material, place: Place, a: str, b: str) -> Steps | None:
    """Where the difference in cycles of one place is; None where one of them has no cycles."""
    rows = {row.label: row for row in place.cycles}
    if a not in rows or b not in rows:
        return None
    pair = _pair(material, place, a, b, "cycles_per_packet")
    known = [material.looks[label] for label in (a, b)]
    return Steps(
        waterfall.sentence(rows[a], rows[b], pair),
        waterfall.chart(rows[a], rows[b], place.title, known),
    )


def _cycles(material: Material, a: str, b: str) -> Table | None:
    """Cycles per packet of both by component, where both have them: means over the blocks, without
    a test.
    """
    found: dict[tuple[object, ...], dict[str, Cpp]] = {}
    for row in material.analysis.cpp:
        if row.label in (a, b):
            key = (row.environment, context.key(msgspec.structs.asdict(row), context.OF_RECORD))
            found.setdefault(key, {})[row.label] = row
    both = [(rows[a], rows[b]) for rows in found.values() if a in rows and b in rows]
    if not both:
        return None
    lines = []
    for one, other in both:
        where = f"{one.workload} {one.placement}" + (
            f" ({one.cycles_source})" if one.cycles_source != "pmu" else ""
        )
        mine, theirs = (grouped(row.components, row.unclassified) for row in (one, other))
        names = sorted(
            {*mine, *theirs},
            key=lambda name: (-max(mine.get(name, 0.0), theirs.get(name, 0.0)), name),
        )
        parts = [
            (_TOTAL, one.total, other.total),
            *((name, mine.get(name, 0.0), theirs.get(name, 0.0)) for name in names),
        ]
        lines += [[where, name, f"{x:.1f}", f"{y:.1f}", f"{x - y:+.1f}"] for name, x, y in parts]
    return Table(["where", "component", a, b, "difference"], lines, numbers=False)
