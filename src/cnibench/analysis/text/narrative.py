"""What was found, how certain it is, and what was not tested: the paragraph at the top of a report,
generated from the verdicts.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

import msgspec

from cnibench.analysis.model import Analysis, Failure, Group, Result, Where
from cnibench.analysis.samples.series import CPP_METRICS
from cnibench.analysis.text import costs
from cnibench.analysis.text.certainty import certainty_of, percent
from cnibench.analysis.text.encryption import encryption
from cnibench.analysis.text.notes import disturbances
from cnibench.analysis.text.notes.certificates import certified
from cnibench.analysis.text.places import describe
from cnibench.analysis.text.proxies import proxies
from cnibench.analysis.text.standings import Place, places_of
from cnibench.analysis.text.summary import sentences
from cnibench.analysis.text.wording import names, replicate
from cnibench.analysis.trend.model import Trend
from cnibench.model import context
from cnibench.model.context import fact
from cnibench.model.metrics import COSTS, main_metric
from cnibench.model.units import human, plural
from cnibench.stats.power import POWER, about

_PLACEMENT = dict(context.coordinate("placement").named)
_LISTED = 10  # problems that a report names
_FIDELITIES = (
    (
        "datapath-model",
        "a model of the CNI's datapath, built from the same kernel objects, not the CNI itself",
    ),
    ("cni", "the real CNI"),
)
_MORE = 1.25  # times the planned noise: beyond, the plan did not hold


def place_of(where: Where) -> tuple[object, ...]:
    """The coordinates that figures of one table share: all but the metric."""
    params = {key: value for key, value in where.params.items() if key not in where.reading}
    return where.environment, context.key(context.place(where) | {"params": params})


def primary_groups(analysis: Analysis) -> list[Group]:
    """One group of labels for each place: that of its primary metric. Cycles are none: where only
    they were measured, nobody is known to be faster.
    """
    placed: dict[tuple[object, ...], list[Group]] = {}
    for group in analysis.groups:
        if not group.reading and group.metric not in CPP_METRICS:
            placed.setdefault(place_of(group), []).append(group)
    main = {
        id(group)
        for groups in placed.values()
        for group in groups
        if group.metric
        == main_metric(group.workload, [one.metric for one in groups], analysis.main)
    }
    return [group for group in analysis.groups if id(group) in main]


def primary_places(analysis: Analysis) -> list[Place]:
    """The places of the primary groups, with their results and pairs."""
    return places_of(analysis, primary_groups(analysis), describe, place_of)


def cost_places(analysis: Analysis) -> list[Place]:
    """The same places with their CPU time per transaction or byte, of those that have it."""
    groups = [one for one in analysis.groups if one.metric in COSTS and not one.reading]
    return places_of(analysis, groups, describe, place_of)


def with_words(analysis: Analysis) -> Analysis:
    """The same analysis with its summary and its notes."""
    return msgspec.structs.replace(
        analysis, summary=_summary(analysis), notes=analysis.notes + _oddities(analysis)
    )


def _summary(analysis: Analysis) -> list[str]:
    disturbed = [*unheld(analysis), *disturbances.summary(analysis)]
    if not analysis.results:
        return [*disturbed, _nothing(analysis)]
    shown = primary_groups(analysis)
    return [
        *disturbed,
        *_apart(analysis),
        *combined(analysis),
        *selected(analysis),
        *sentences(primary_places(analysis)),
        *_costs(analysis),
        *without_figures(analysis),
        certainty(analysis),
        *([analysis.independence] if analysis.independence else []),
        *_dependent(analysis),
        *_planned(analysis, shown),
        not_tested(analysis),
    ]


def _costs(analysis: Analysis) -> list[str]:
    """Who takes more CPU time than the least of each place, where several were compared."""
    said = costs.cells(cost_places(analysis))
    if len(said) < 2:
        return []
    base = analysis.baseline if analysis.family == "baseline" else ""
    each = "; ".join(f"{label} {words}" for label, words in said.items())
    return [f"{costs.title(base)}, per transaction or byte, over all places: {each}."]


def _nothing(analysis: Analysis) -> str:
    failed = [one.label for one in analysis.failures if one.status != "unsupported"]
    if not failed:
        return "Nothing was measured."
    each = [f"{label} {failed.count(label)}" for label in dict.fromkeys(failed)]
    return (
        f"Nothing was measured: {plural(len(failed), 'sample')} failed, none gave a figure"
        f" ({names(each)})."
    )


def _apart(analysis: Analysis) -> list[str]:
    number = 1 + max(result.environment for result in analysis.results)
    if number == 1:
        return []
    return [f"Environments: {number} side by side, not pooled; the notes say how they differ."]


def combined(analysis: Analysis) -> list[str]:
    """That several runs count as so many, and what few of them say."""
    tested = [pair for pair in analysis.pairs if pair.replicate == "run"]
    if not tested:
        return []
    text = (
        f"Runs: {len(analysis.runs)} together. A run counts once for each profile and place, by its"
        " mean over its blocks; tests and intervals are about the scatter between runs."
    )
    few = [pair for pair in tested if pair.n < pair.blocks_needed]
    if few:
        text += (
            f" Few runs say little about it: below {max(pair.blocks_needed for pair in few)} runs,"
            " verdicts rest on a model, and intervals are wide for such a scatter."
        )
    return [text]


def selected(analysis: Analysis) -> list[str]:
    """Which comparisons were asked for, where these are not all."""
    text = []
    if analysis.unselected:
        text.append(f"without {names(analysis.unselected)}, as asked (--cni)")
    if analysis.family == "baseline":
        text.append(f"with {analysis.baseline} only, as asked (--family baseline)")
    if not text:
        return []
    return [f"Compared {' and '.join(text)}; corrected for these comparisons and no others."]


def without_figures(analysis: Analysis) -> list[str]:
    """Places of which nothing is known, since everything failed there."""
    known = {(one.workload, one.placement, _params(one)) for one in analysis.results}
    found: dict[str, dict[str, int]] = {}
    for one in analysis.failures:
        key = (one.workload, one.placement, _params(one))
        if one.status != "unsupported" and not one.metric and key not in known:
            params = " ".join(f"{name} {value}" for name, value in one.params.items())
            where = f"{one.workload} {_PLACEMENT.get(one.placement, one.placement)}"
            counts = found.setdefault(f"{where} ({params})" if params else where, {})
            counts[one.label] = counts.get(one.label, 0) + 1
    return [
        f"{where}: no profile gave a figure; failed samples:"
        f" {names([f'{label} {number}' for label, number in counts.items()])}."
        for where, counts in list(found.items())[:_LISTED]
    ]


def _params(one: Result | Failure) -> str:
    own = {} if isinstance(one, Failure) else one.reading
    params = {name: value for name, value in one.params.items() if name not in own}
    return json.dumps(params, sort_keys=True)


def unheld(analysis: Analysis) -> list[str]:
    """Settings that were asked for and do not hold: they may decide what was measured."""
    found: list[str] = []
    for environment in analysis.environments:
        said = environment.get("unheld")
        found += [str(one) for one in said] if isinstance(said, list) else []
    every = list(dict.fromkeys(found))
    lines = []
    if every:
        more = f"; and {len(every) - _LISTED} more" if len(every) > _LISTED else ""
        lines.append(f"Settings that do not hold: {'; '.join(every[:_LISTED])}{more}.")
    for name, number in analysis.unread.items():
        lines.append(
            f"Settings that were not read back: {context.coordinate(name).title} of {number} of"
            f" {analysis.samples} samples."
        )
    return lines + _mixed(analysis)


def _mixed(analysis: Analysis) -> list[str]:
    """Cells whose samples differ in what was read back from them: each value has figures of its
    own.
    """
    found: dict[tuple[object, ...], dict[str, set[str]]] = {}
    for one in analysis.results:
        key = (one.environment, one.label, context.key(context.place(one), context.IDENTITY))
        for name in context.READ_BACK:
            values = found.setdefault(key, {}).setdefault(name, set())
            values.add(context.coordinate(name).words(getattr(one, name)))
    kinds: dict[str, int] = {}
    for cell in found.values():
        for name, values in cell.items():
            if len(values) > 1:
                said = f"{context.coordinate(name).title} ({' and '.join(sorted(values))})"
                kinds[said] = kinds.get(said, 0) + 1
    return [
        f"The samples of {number} cell{'s' * (number != 1)} differ in {said}; they are not pooled."
        for said, number in kinds.items()
    ]


def certainty(analysis: Analysis) -> str:
    """How the pairs of the main metrics were decided, and what would have been detected."""
    groups = primary_groups(analysis)
    keys = {(place_of(group), group.metric) for group in groups}
    pairs = [
        pair
        for pair in analysis.pairs
        if not pair.reading and (place_of(pair), pair.metric) in keys
    ]
    return certainty_of(pairs, groups, analysis.level)


def _planned(analysis: Analysis, shown: Sequence[Group]) -> list[str]:
    """What the number of blocks was planned for, and whether the noise was what the plan took: one
    sentence or none.
    """
    found = []
    for plan in dict.fromkeys(
        (one.workload, one.resolution, one.noise, one.source)
        for run in analysis.runs
        for one in run.planned
        if one.noise
    ):
        workload, resolution, noise, source = plan
        keys = {(place_of(group), group.metric) for group in shown if group.workload == workload}
        pairs = [
            p
            for p in analysis.pairs
            if not p.reading
            and (place_of(p), p.metric) in keys
            and p.scale is not None
            and p.replicate == "block"
        ]
        text = f"{workload} for {percent(resolution)} at a noise of {percent(noise)} ({source})"
        if pairs:
            lots: dict[object, list[float | None]] = {}
            for pair in pairs:
                lots.setdefault((place_of(pair), pair.metric), []).append(pair.scale)
            spread = max(_together(lot) for lot in lots.values())
            text += f", measured: {percent(spread / math.sqrt(2))}"
            needed = about(pairs[0].family, spread, resolution, analysis.level)
            if spread / math.sqrt(2) > _MORE * noise and needed > min(pair.n for pair in pairs):
                text += f", which requires about {needed} blocks for {percent(resolution)}"
        found.append(text)
    return (
        [
            f"The number of blocks was planned to detect a difference with a power of {POWER:.0%}:"
            f" {'; '.join(found)}."
        ]
        if found
        else []
    )


def _together(spreads: Sequence[float | None]) -> float:
    """The root mean square of the pairs' standard deviations."""
    known = [spread for spread in spreads if spread is not None]
    return math.sqrt(sum(spread**2 for spread in known) / len(known))


def not_tested(analysis: Analysis) -> str:
    """What is unsupported or failed, and what a run like this one says nothing about."""
    parts = []
    unsupported = list(
        dict.fromkeys(f.label for f in analysis.failures if f.status == "unsupported")
    )
    if unsupported:
        parts.append(f"unsupported here: {names(unsupported)}")
    failed = list(dict.fromkeys(f.label for f in analysis.failures if f.status != "unsupported"))
    if failed:
        parts.append(f"some or all samples failed: {names(failed)}")
    placements = {result.placement for result in analysis.results}
    parts += [f"nothing {words}" for name, words in _PLACEMENT.items() if name not in placements]
    wires = {result.wire for result in analysis.results if result.placement != "intra"}
    if wires == {"not recorded"}:
        parts.append(
            "whether a NIC was in the path is not recorded, so inter-node throughput may not"
            " represent your network"
        )
    elif wires and "nic" not in wires:
        parts.append(
            "no NIC was in the path, so inter-node throughput does not represent your network"
        )
    parts.append("other machines, kernels and loads than this run's")
    return f"Not tested: {'; '.join(parts)}."


def problems(analysis: Analysis | Trend) -> list[str]:
    """The first lines of every report of a damaged run directory."""
    lines = [f"problem: {problem}" for problem in analysis.problems[:_LISTED]]
    more = len(analysis.problems) - len(lines)
    return lines + [f"problem: and {more} more; 'cnibench verify RUN' lists all"] * (more > 0)


def conditions(analysis: Analysis) -> list[str]:
    """What is shown next to the figures: what the CNI is that the cluster had, testbed, wire, model
    or real CNI, estimated cycles, emulated CPU.
    """
    found = problems(analysis)
    found += [f"{label}: {what}" for label, what in analysis.current.items()]
    for testbed, wire, offload, rate in dict.fromkeys(
        (r.testbed, r.wire, r.wire_offload, r.wire_rate) for r in analysis.results
    ):
        text = f"testbed: {testbed}, wire: {wire}" + (
            f", offload of the wire: {offload}" if offload else ""
        )
        found.append(text + (f", limited to {human(rate, 'bit/s')}" if rate else ""))
    found += _fidelity(analysis) + certified(analysis)
    found += proxies(analysis, primary_groups(analysis))
    found += encryption(analysis, primary_groups(analysis))
    if any(row.cycles_source == "estimated" for row in analysis.cpp):
        found.append(
            "cycles: estimated (cpu-clock samples times the TSC frequency: this machine has no"
            " cycle counter)"
        )
    if any(
        str(fact(environment, "accelerator") or "") == "tcg"
        for environment in analysis.environments
    ):
        found.append("CPU emulated: ratios may be valid, absolute values are not")
    return found


def _fidelity(analysis: Analysis) -> list[str]:
    """Model or real CNI; whose, where both were measured."""
    labels: dict[str, list[str]] = {}
    for result in analysis.results:
        labels.setdefault(result.fidelity, []).append(result.label)
    known = [(name, words) for name, words in _FIDELITIES if name in labels]
    return [
        "fidelity"
        + (f" of {names(list(dict.fromkeys(labels[name])))}" if len(known) > 1 else "")
        + f": {name} ({words})"
        for name, words in known
    ]


def _oddities(analysis: Analysis) -> list[str]:
    """Outliers, drift and dependence, in words; nothing is dropped for them."""
    shown = {(place_of(group), group.metric) for group in primary_groups(analysis)}
    results = [
        result
        for result in analysis.results
        if not result.reading and (place_of(result), result.metric) in shown
    ]
    found = []
    for result in results:
        if result.outliers:
            blocks = ", ".join(str(block + 1) for block in result.outliers[:8])
            found.append(
                f"{result.label}, {describe(result)}: outlying {result.metric} in"
                f" {result.replicate} {blocks}; included in all figures"
            )
    drifting = [
        f"{r.label} in {describe(r)}"
        for r in results
        if r.drift_p is not None and r.drift_p <= analysis.level
    ]
    if drifting:
        found.append(
            f"values drift over time (Spearman, Holm's correction): {names(drifting)}; "
            + (
                "repeats of different profiles have no time in common, so ratios are affected"
                if any("imported" in environment for environment in analysis.environments)
                else f"ratios are computed within {replicate(results)}s, so what drifts in all"
                " profiles cancels"
            )
        )
    return found + _missing(analysis)


def _dependent(analysis: Analysis) -> list[str]:
    """Pairs of which neighbouring blocks have something in common: they are proven too easily."""
    shown = {(place_of(group), group.metric) for group in primary_groups(analysis)}
    found = [
        p
        for p in analysis.pairs
        if p.dependence_p is not None
        and p.dependence_p <= analysis.level
        and not p.reading
        and (place_of(p), p.metric) in shown
    ]
    if not found:
        return []
    tied, unit = [f"{p.a} / {p.b} in {describe(p)}" for p in found], replicate(found)
    return [
        f"Dependence: log ratios of neighbouring {unit}s depend on each other (Bartels, Holm's"
        f" correction): {names(tied)}; their p values are too small; measure more {unit}s over a"
        " longer time."
    ]


def _missing(analysis: Analysis) -> list[str]:
    """Labels that a workload's main metric lacks, though they were measured elsewhere: never a
    silent omission.
    """
    found = []
    for group in primary_groups(analysis):
        lacking = [label for label in analysis.labels if label not in group.ranking]
        if lacking and group.environment == 0:
            found.append(f"{describe(group)}: no {group.metric} from {names(lacking)}")
    return list(dict.fromkeys(found))
