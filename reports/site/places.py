"""One place (workload, placement, parameters): its verdict in words, its table, its charts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from cnibench.analysis.comparison.groups import PROVEN
from cnibench.analysis.model import Analysis, Cpp, Group, Pair, Result
from cnibench.analysis.text.certainty import percent
from cnibench.analysis.text.narrative import place_of
from cnibench.analysis.text.notes.certificates import certified
from cnibench.analysis.text.places import cycles_of, describe
from cnibench.analysis.text.summary import assuming
from cnibench.analysis.text.wording import failures, few_figures, names, replicates
from cnibench.model.context import fact
from cnibench.model.metrics import METRICS
from cnibench.model.units import human
from cnibench.reports._numbers import Scale
from cnibench.reports.document.parts import Section, text_of

_FINE = 0.1  # a difference below this does not make one choose
FAILED_OFTEN = "failed often"  # the position of who is not ranked for it
_BULK = 64 * 1024  # bytes: a response from this size on is as much throughput as latency


@dataclass(frozen=True)
class Row:
    """One label in a place's ranking. ``relative`` is its ratio to the best within the blocks, 1
    for the best and less for the others, whichever way is better; 0 for one that failed often.
    """

    label: str
    result: Result
    shown: str
    interval: str
    letters: str
    relative: float
    position: str
    cycles: str = ""


@dataclass(frozen=True)
class Answer:
    """What a place says to somebody who has to choose.

    ``kind`` is decided, tie, open (no difference found, but a large one could be there),
    inconclusive (too few blocks), none (no recommendation; ``labels`` is empty when none was given
    apart either) or alone.
    """

    kind: str
    labels: list[str]
    text: str


@dataclass(frozen=True)
class Place:
    group: Group
    section: Section
    title: str
    metric: str
    badges: list[str]
    rows: list[Row]
    answer: Answer
    cycles: list[Cpp] = field(default_factory=list)

    @property
    def params(self) -> str:
        return ", ".join(f"{key} {text_of(value)}" for key, value in self.group.params.items())

    @property
    def scale(self) -> Scale:
        return Scale.of([row.result.median for row in self.rows], self.group.unit)


def place(analysis: Analysis, group: Group, section: Section, baselines: frozenset[str]) -> Place:
    """Everything about the place of a primary group; ``section`` is the same place in the report,
    ``baselines`` are labels of no CNI.
    """
    key = place_of(group)
    results = [
        r
        for r in analysis.results
        if r.metric == group.metric and not r.reading and place_of(r) == key
    ]
    results.sort(key=lambda result: group.ranking.index(result.label))
    pairs = [
        p
        for p in analysis.pairs
        if p.metric == group.metric and not p.reading and place_of(p) == key
    ]
    cycles = cycles_of(analysis, group)
    cost = {
        row.label: (
            human(row.total, "1") + (" (estimated)" if row.cycles_source == "estimated" else "")
        )
        for row in cycles
    }
    candidates = [
        result for result in results if result.label not in baselines.union(group.failing)
    ]
    answer = _answer(analysis, group, candidates, pairs)
    if said := _flaws(group, results, bool(candidates)):
        answer = replace(answer, text=f"{answer.text} {said}")
    rows = [
        _row(result, results[0], group, baselines, answer, pairs, cost.get(result.label, ""))
        for result in results
    ]
    metric = METRICS[group.metric].title if group.metric in METRICS else group.metric
    return Place(
        group,
        section,
        describe(group),
        metric,
        badges(analysis, group, results),
        rows,
        answer,
        cycles,
    )


def _flaws(group: Group, results: Sequence[Result], ranked: bool) -> str:
    """Who failed, who is not ranked for it, and whose figures rest on few blocks, in sentences."""
    said = [failures([group])] if group.failed else []
    if ranked and group.failing:
        said.append(f"Not ranked, as it failed often: {names(group.failing)}")
    if few := few_figures(results):
        said.append(names(list(few.values())))
    return "".join(f"{one}. " for one in said).rstrip()


def badges(analysis: Analysis, group: Group, results: Sequence[Result]) -> list[str]:
    """What is said with every figure: where it was measured, and how near that is to a real CNI on
    a real network.
    """
    found = [
        f"testbed {group.testbed}",
        f"wire {group.wire}" + (f", offload {group.wire_offload}" if group.wire_offload else ""),
    ]
    kinds = {result.fidelity for result in results} - {"baseline"}
    found += [
        {"datapath-model": "model of the datapath, not the CNI itself", "cni": "real CNI"}.get(
            kind, kind
        )
        for kind in sorted(kinds)
    ]
    if proxies := sorted({result.proxy for result in results} - {""}):
        found.append(f"Services by {' and '.join(proxies)}")
    found += certified(analysis, results)
    if any(row.cycles_source == "estimated" for row in cycles_of(analysis, group)):
        found.append("cycles estimated")
    if emulated(analysis):
        found.append("CPU emulated: absolute figures mean nothing")
    return found


def emulated(analysis: Analysis) -> bool:
    """Was any of it measured on an emulated processor?"""
    return any(
        str(fact(environment, "accelerator") or "") == "tcg"
        for environment in analysis.environments
    )


def _row(
    result: Result,
    best: Result,
    group: Group,
    baselines: frozenset[str],
    answer: Answer,
    pairs: Sequence[Pair],
    cycles: str,
) -> Row:
    low, high = result.ci_low, result.ci_high
    interval = (
        "no interval: too few blocks"
        if low is None or high is None
        else f"{human(low, group.unit)} to {human(high, group.unit)}"
    )
    if result.label in group.failed:
        interval += "; failed in {} of {} blocks".format(*group.failed[result.label])
    failing = result.label in group.failing
    if failing:
        position = FAILED_OFTEN
    elif result.label in baselines:
        position = "baseline, no CNI"
    elif answer.kind in ("inconclusive", "alone", "open") or not answer.labels:
        position = "not decided"
    else:
        position = "in the leading group" if result.label in answer.labels else "behind it"
    return Row(
        result.label,
        result,
        human(result.median, group.unit),
        interval,
        group.letters.get(result.label, ""),
        0.0 if failing else min(1.0, max(0.0, _relative(result, best, group, pairs))),
        position,
        cycles,
    )


def _relative(result: Result, best: Result, group: Group, pairs: Sequence[Pair]) -> float:
    """How much of the best one it is; by the medians only where the two have no ratio."""
    ratio = float(result.label == best.label or result.median == best.median)
    if result.median and best.median:
        ratio = result.median / best.median
    pair = next((p for p in pairs if {p.a, p.b} == {result.label, best.label}), None)
    if pair and pair.ratio:
        ratio = pair.ratio if pair.a == result.label else 1 / pair.ratio
    return ratio if group.better == "higher" or not ratio else 1 / ratio


def _answer(
    analysis: Analysis, group: Group, candidates: Sequence[Result], pairs: Sequence[Pair]
) -> Answer:
    """Who leads among the CNIs, by the verdicts of the pairs with the best of them."""
    if not candidates:
        said = (
            "Every CNI failed often here."
            if group.failing
            else "Only baselines were measured here, no CNI."
        )
        return Answer("alone", [], said)
    best = candidates[0]
    known = {(p.b if p.a == best.label else p.a): p for p in pairs if best.label in (p.a, p.b)}
    others = [result.label for result in candidates[1:]]
    behind = {label for label, pair in known.items() if pair.verdict in PROVEN}
    leading = [best.label, *(label for label in others if label not in behind)]
    basis = assuming([pair for pair in pairs if {pair.a, pair.b} <= {best.label, *others}])
    if not others:
        return Answer(
            "alone",
            [best.label],
            f"{best.label} was the only CNI with enough figures here; there was no other to compare"
            " it with."
            if group.failed
            else f"{best.label} was the only CNI measured here; there was no other to compare it"
            " with.",
        )
    if not any(known[label].basis for label in others if label in known):
        needed = max((p.blocks_needed for p in pairs), default=0)
        have = max((p.n for p in known.values()), default=0)
        return Answer(
            "inconclusive",
            leading,
            f"Inconclusive: {replicates(have, [best])} {'is' if have == 1 else 'are'} too few; at"
            f" least {needed} are needed.",
        )
    if reason := _no_advice(analysis, group):
        return Answer("none", leading if len(leading) < len(candidates) else [], reason)
    ranked = " that are ranked" if group.failing else ""
    if len(leading) == 1:
        return Answer(
            "decided",
            leading,
            f"{best.label}, significantly different from all others{ranked}{basis}.",
        )
    reach = _reach(leading, pairs)
    if len(leading) < len(candidates):
        return Answer(
            "decided",
            leading,
            f"{best.label} leads; {', '.join(leading[1:])}: not significantly different from"
            f" it{reach[1]}; the others{ranked} are worse{basis}.",
        )
    if reach[0] <= _FINE:
        return Answer("tie", leading, f"Any of them: no significant difference{reach[1]}.")
    return Answer(
        "open",
        leading,
        f"Open: no significant difference{reach[1]}{basis}. Measure more blocks or use a quieter"
        " machine.",
    )


def _reach(leading: Sequence[str], pairs: Sequence[Pair]) -> tuple[float, str]:
    """The difference that would have been detected in every pair of these (a fraction), and words
    for it.
    """
    found = [pair.detectable for pair in pairs if pair.a in leading and pair.b in leading]
    known = [value for value in found if value is not None]
    if not known or len(known) < len(found):
        return math.inf, ""
    return max(known), f" (a difference of {percent(max(known))} or more would have been detected)"


def _no_advice(analysis: Analysis, group: Group) -> str:
    payload = group.params.get("payload")
    bulk = group.metric == "throughput" or (
        group.workload == "http" and isinstance(payload, int) and payload >= _BULK
    )
    if group.placement == "inter" and bulk and group.wire == "not recorded":
        return (
            "No recommendation: it is not recorded whether the wire between the nodes was a network"
            " card."
        )
    if group.placement == "inter" and bulk and group.wire != "nic":
        return (
            f"No recommendation: the wire between the nodes is {group.wire}, not a network card. It"
            " passes packets larger than any NIC would, so throughput between nodes says nothing"
            " about your network."
        )
    if emulated(analysis):
        return "No recommendation: the processor was emulated, which changes what things cost."
    return ""
