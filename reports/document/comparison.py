"""A section for each place: its ranking, the ratios to one profile, and its other metrics."""

from __future__ import annotations

from collections.abc import Sequence

from cnibench.analysis.model import Analysis, Group, Pair, Result
from cnibench.analysis.text.certainty import assumption
from cnibench.analysis.text.narrative import place_of
from cnibench.analysis.text.notes.disturbances import taken_there
from cnibench.analysis.text.wording import names, replicate
from cnibench.model import context
from cnibench.model.metrics import COSTS, METRICS, MODES
from cnibench.reports._numbers import Scale, p_value
from cnibench.reports.document.parts import Section, Table, text_of

_MEANS = ("cycles_per_packet", "cycles_per_byte")
_ASIDE = (  # metrics of little use at a glance: files have them, the terminal with --full
    "packets",
    "largest_packet",
    *(f"cpu_{mode}_per_{unit}" for mode in MODES for unit in ("transaction", "byte")),
)


def place(analysis: Analysis, group: Group, name: str, whole: bool) -> Section:
    """The section of one place, which is called ``name``; but for ``whole`` without what a terminal
    has no room for.
    """
    where = place_of(group)
    here = [result for result in analysis.results if place_of(result) == where]
    main = [result for result in here if result.metric == group.metric and not result.reading]
    main.sort(key=lambda result: group.ranking.index(result.label))
    params = " ".join(f"{key}={text_of(value)}" for key, value in group.params.items())
    scale = Scale.of([result.median for result in main], group.unit)
    title = f"{name}: {_title(group.metric)}{scale.heading()}"
    lines = ["; ".join(filter(None, (*context.circumstances(group), _fidelity(main), params)))]
    lines += [*_reading(analysis, group, main), *taken_there(analysis, group)]
    tables = [_ranked(analysis, group, main, "profile")]
    compared = [group.metric]
    for cost in _costs(analysis, group):
        its = [one for one in here if one.metric == cost.metric and not one.reading]
        its.sort(key=lambda result: cost.ranking.index(result.label))
        compared.append(cost.metric)
        heading = Scale.of([one.median for one in its], cost.unit).heading()
        tables.append(_ranked(analysis, cost, its, f"{_title(cost.metric)}{heading}"))
    return Section(title, [*tables, *_others(here, compared, main, whole)], lines)


def _costs(analysis: Analysis, group: Group) -> list[Group]:
    """The CPU time of the same place, which is compared as the main metric is."""
    return [
        one
        for one in analysis.groups
        if one.metric in COSTS
        and one.metric != group.metric
        and not one.reading
        and place_of(one) == place_of(group)
    ]


def _ranked(analysis: Analysis, group: Group, results: Sequence[Result], head: str) -> Table:
    """The labels of ``results`` with their figures and their ratios to the baseline."""
    scale = Scale.of([result.median for result in results], group.unit)
    base, pairs = analysis.baseline, _against(analysis, group)
    rows = []
    for result in results:
        interval = (
            "-"
            if result.ci_low is None or result.ci_high is None
            else f"{scale(result.ci_low)} to {scale(result.ci_high)}"
        )
        versus = (
            "1 (baseline)" if result.label == base else ratio(pairs.get(result.label), result.label)
        )
        rows.append(
            [
                result.label,
                scale(result.median),
                scale(result.mean),
                interval,
                str(result.n),
                versus,
                group.letters.get(result.label, "-"),
            ]
        )
    heads = [head, "median", "mean", _percent(results), "n", f"ratio to {base}", "group"]
    if group.failed:  # never a ranking without them
        rows += [
            [label, *["-"] * 3, "0", "-", "-"]
            for label in group.failed
            if label not in group.ranking
        ]
        heads.append("failed")
        rows = [
            [*row, "{} of {}".format(*group.failed[row[0]]) if row[0] in group.failed else "-"]
            for row in rows
        ]
    return Table(heads, rows)


def _reading(analysis: Analysis, group: Group, main: Sequence[Result]) -> list[str]:
    """How the table is to be read."""
    better = f"{'more' if group.better == 'higher' else 'less'} is better"
    if group.order:
        better += "; profiles that share a letter are not significantly different"
    lines = [better]
    if group.model:
        lines.append(assumption(group.model, analysis.level))
    medians = [result.median for result in main if result.label not in group.failing]
    unit = replicate(main)
    if medians != sorted(medians, reverse=group.better == "higher"):
        lines.append(
            f"ranked by the ratios within {unit}s; the medians, which are of different {unit}s or"
            " of scattering ones, are in another order"
        )
    if group.failing:
        lines.append(f"not ranked, as it failed often: {names(group.failing)}")
    if analysis.baseline not in group.ranking:
        lines.append(f"{analysis.baseline}, the baseline, gave no figure here")
    return lines


def ratio(pair: Pair | None, label: str) -> str:
    """``label`` against the other one of the pair: the ratio with its interval, or why there is
    none.
    """
    if pair is None:
        return "-"
    better = (pair.verdict == "a-better") == (pair.a == label)
    word = "better" if better else "worse"
    numbers = _numbers(pair, label)
    if pair.exact:
        return f"{numbers[0]:.3f} (counted)" if numbers else f"{word} (counted)"
    if pair.basis == "additive model" and numbers:
        said = pair.evidence if pair.evidence != "none" else "~"
        return f"{_with_interval(numbers)} {said}"
    if pair.verdict == "inconclusive":
        if not pair.n:
            return "not compared (n=0)"
        return f"{numbers[0]:.3f} (n={pair.n})" if numbers else f"not decided (n={pair.n})"
    if pair.verdict == "no-difference-found":
        return f"~ (p={p_value(pair.p_holm)} n={pair.n})"
    if numbers is None or len(numbers) == 1:
        return f"{word} (p={p_value(pair.p_holm)} n={pair.n})"
    return _with_interval(numbers)


def _numbers(pair: Pair, label: str) -> tuple[float, ...] | None:
    """(ratio, low, high) of ``label`` to the other; the ratio alone where there is no interval."""
    if pair.ratio is None:
        return None
    found = [pair.ratio]
    if pair.ci_low is not None and pair.ci_high is not None:
        found += [pair.ci_low, pair.ci_high]
    if pair.a == label:
        return tuple(found)
    return (1 / found[0], *(1 / number for number in reversed(found[1:])))


def _with_interval(numbers: tuple[float, ...]) -> str:
    """With three digits after the point, more where they would turn what is not 1 into 1."""
    digits = next(
        (n for n in range(3, 7) if all(float(f"{x:.{n}f}") != 1 or x == 1 for x in numbers[1:])), 6
    )
    centre, low, high = (f"{number:.{digits}f}" for number in numbers)
    return f"{centre} [{low}, {high}]"


def _against(analysis: Analysis, group: Group) -> dict[str, Pair]:
    """Label to its pair with the baseline."""
    base, place, found = analysis.baseline, place_of(group), {}
    for pair in analysis.pairs:
        if (
            base in (pair.a, pair.b)
            and pair.metric == group.metric
            and pair.reading == group.reading
            and place_of(pair) == place
        ):
            found[pair.b if pair.a == base else pair.a] = pair
    return found


def _fidelity(results: Sequence[Result]) -> str:
    """``fidelity datapath-model``; with the names where it differs from label to label."""
    kinds: dict[str, list[str]] = {}
    for result in results:
        kinds.setdefault(result.fidelity, []).append(result.label)
    if len(kinds) == 1:
        return f"fidelity {next(iter(kinds))}"
    most = max(kinds, key=lambda kind: len(kinds[kind]))
    return f"fidelity {most}, but " + ", ".join(
        f"{kind} for {' and '.join(labels)}" for kind, labels in kinds.items() if kind != most
    )


def _percent(results: Sequence[Result]) -> str:
    """The least coverage among the intervals, in the head of their column."""
    known = [result.confidence for result in results if result.confidence is not None]
    return f"{int(1000 * min(known)) / 10:g}% CI" if known else "CI"


def _title(metric: str) -> str:
    return METRICS[metric].title if metric in METRICS else metric


def _others(
    here: Sequence[Result], compared: Sequence[str], main: Sequence[Result], whole: bool
) -> list[Table]:
    """The medians of the metrics that are not ``compared`` in tables of their own, one column each;
    but for ``whole`` only what all labels have in common (a tunnel device, say, has another name in
    each profile). Of cycles the means: so are their components, which add up to them.
    """
    columns: dict[tuple[str, str], list[Result]] = {}
    for result in here:
        if result.metric not in compared or result.reading:
            reading = " ".join(f"{key}={text_of(value)}" for key, value in result.reading.items())
            columns.setdefault((result.metric, reading), []).append(result)
    if not whole:
        columns = {
            key: found
            for key, found in columns.items()
            if key[0] not in _ASIDE and (not key[1] or len(found) == len(main))
        }
    if not columns:
        return []
    heads, cells = ["medians"], []
    for (metric, reading), results in columns.items():
        mean = metric in _MEANS
        values = {one.label: one.mean if mean else one.median for one in results}
        scale = Scale.of(list(values.values()), results[0].unit)
        source = (
            " (estimated)" if any(result.cycles_source == "estimated" for result in results) else ""
        )
        title = f"{_title(metric)}{source}{', mean' if mean else ''}"
        heads.append(f"{title}{f' {reading}' if reading else ''}{scale.heading()}")
        cells.append({label: scale(value) for label, value in values.items()})
    return [
        Table(
            heads,
            [
                [result.label, *(column.get(result.label, "-") for column in cells)]
                for result in main
            ],
        )
    ]
