"""A section for each place: its ranking, the ratios to one profile, and its other metrics."""

from __future__ import annotations

from collections.abc import Sequence

from cnibench.analysis.model import Analysis, Group, Pair, Result
from cnibench.analysis.text.narrative import place_of
from cnibench.analysis.text.places import describe
from cnibench.model import context
from cnibench.model.metrics import METRICS
from cnibench.reports._numbers import Scale, p_value
from cnibench.reports.document.parts import Section, Table, text_of

_ASIDE = ("packets",)  # metrics of little use at a glance: files have them, the terminal does not


def place(analysis: Analysis, group: Group, whole: bool) -> Section:
    """The section of one place; but for ``whole`` without what a terminal has no room for."""
    where = place_of(group)
    here = [result for result in analysis.results if place_of(result) == where]
    main = [result for result in here if result.metric == group.metric and not result.reading]
    main.sort(key=lambda result: result.median, reverse=group.better == "higher")
    scale = Scale.of([result.median for result in main], group.unit)
    base, pairs = _against(analysis, group)
    rows = []
    for result in main:
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
                group.letters[result.label],
            ]
        )
    heads = ["profile", "median", "mean", _percent(main), "n", f"ratio to {base}", "group"]
    if group.failed:  # never a ranking without them
        rows += [
            [label, *["-"] * 3, "0", "-", "-"]
            for label in group.failed
            if label not in group.letters
        ]
        heads.append("failed")
        rows = [
            [*row, "{} of {}".format(*group.failed[row[0]]) if row[0] in group.failed else "-"]
            for row in rows
        ]
    params = " ".join(f"{key}={text_of(value)}" for key, value in group.params.items())
    title = f"{describe(group)}: {_title(group.metric)}{scale.heading()}"
    lines = ["; ".join(filter(None, (*context.circumstances(group), _fidelity(main), params)))]
    lines.append(
        f"{'more' if group.better == 'higher' else 'less'} is better; profiles that share a letter"
        " are not significantly different"
    )
    return Section(title, [Table(heads, rows), *_others(here, group, main, whole)], lines)


def ratio(pair: Pair | None, label: str) -> str:
    """``label`` against the other one of the pair: the ratio with its interval, or why there is
    none.
    """
    if pair is None:
        return ""
    if pair.exact:
        other = pair.ratio if pair.ratio is None or pair.a == label else 1 / pair.ratio
        better = (pair.verdict == "a-better") == (pair.a == label)
        return (
            f"{other:.3f} (counted)"
            if other is not None
            else f"{'better' if better else 'worse'} (counted)"
        )
    if pair.verdict == "inconclusive":
        return f"? (n={pair.n}, needs {pair.blocks_needed})"
    if pair.verdict == "no-difference-found":
        return f"~ (p={p_value(pair.p_holm)} n={pair.n})"
    if pair.ratio is None or pair.ci_low is None or pair.ci_high is None:
        better = (pair.verdict == "a-better") == (pair.a == label)
        return f"{'better' if better else 'worse'} (p={p_value(pair.p_holm)} n={pair.n})"
    if pair.a == label:
        return f"{pair.ratio:.3f} [{pair.ci_low:.3f}, {pair.ci_high:.3f}]"
    return f"{1 / pair.ratio:.3f} [{1 / pair.ci_high:.3f}, {1 / pair.ci_low:.3f}]"


def _against(analysis: Analysis, group: Group) -> tuple[str, dict[str, Pair]]:
    """(the label that ratios of this group refer to, label to its pair with it)."""
    base = analysis.baseline if analysis.baseline in group.letters else group.order[0][0]
    place = place_of(group)
    found = {}
    for pair in analysis.pairs:
        if (
            base in (pair.a, pair.b)
            and pair.metric == group.metric
            and pair.reading == group.reading
            and place_of(pair) == place
        ):
            found[pair.b if pair.a == base else pair.a] = pair
    return base, found


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
    here: Sequence[Result], group: Group, main: Sequence[Result], whole: bool
) -> list[Table]:
    """The medians of the place's other metrics, one column each; but for ``whole`` only what all
    labels have in common (a tunnel device, say, has another name in each profile)."""
    columns: dict[tuple[str, str], list[Result]] = {}
    for result in here:
        if result.metric != group.metric or result.reading:
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
        scale = Scale.of([result.median for result in results], results[0].unit)
        source = (
            " (estimated)" if any(result.cycles_source == "estimated" for result in results) else ""
        )
        heads.append(f"{_title(metric)}{source}{f' {reading}' if reading else ''}{scale.heading()}")
        cells.append({result.label: scale(result.median) for result in results})
    return [
        Table(
            heads,
            [
                [result.label, *(column.get(result.label, "-") for column in cells)]
                for result in main
            ],
        )
    ]
