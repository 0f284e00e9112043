"""From an analysis to a judgement on every claim: preconditions first, then the figures, never a
verdict without data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from cnibench.analysis.model import Analysis
from cnibench.claims.judge import interval, judge
from cnibench.claims.measured import Place, complete, counted, places
from cnibench.claims.model import Claim, Preconditions, Study, studies
from cnibench.claims.units import base
from cnibench.claims.verdict import Figure, Judgement, Outcome
from cnibench.errors import UsageError
from cnibench.model import measured
from cnibench.model.context import fact
from cnibench.model.coordinates import PLACE
from cnibench.model.metrics import METRICS

_OUTCOMES: Mapping[str, Outcome] = {
    "agrees": "holds",
    "contradicts": "does-not-hold",
    "open": "inconclusive",
}


def evaluate(analysis: Analysis, names: tuple[str, ...] = ()) -> list[Judgement]:
    """A judgement on every claim of the studies ``names`` (all when empty), in their order. Raises
    UsageError for an unknown study.
    """
    known = studies()
    for name in names:
        if name not in known:
            raise UsageError(f"there is no study '{name}'", f"there are: {', '.join(known)}")
    return [
        judgement(study, claim, analysis)
        for study in known.values()
        if not names or study.name in names
        for claim in study.claims
    ]


def judgement(study: Study, claim: Claim, analysis: Analysis) -> Judgement:
    """The verdict on one claim, with the published figures and ours."""
    found = places(analysis, claim) if claim.metric and claim.workload else []
    for place in found:
        complete(place, analysis)
    if claim.untestable:
        return _say(
            study,
            claim,
            "not-testable-here",
            claim.untestable,
            found[0] if found else None,
            analysis,
        )
    if not found:
        return _say(study, claim, "not-measured", _nothing(claim, analysis), None, analysis)
    return _of_places(study, claim, found, analysis)


def _of_places(study: Study, claim: Claim, found: list[Place], analysis: Analysis) -> Judgement:
    """One verdict of all places: those that fulfil the preconditions decide, and where they
    disagree nothing is decided.
    """
    fit: list[tuple[Outcome, str, Place]] = []
    unmet = ""
    for place in found:
        lacks = [*_lacking(study.asked(claim), place, analysis), *_emulated(claim, analysis)]
        if lacks:
            unmet = unmet or "; ".join(lacks)
        elif _speaks(claim, place):
            vote, why = judge(claim, place, analysis.level)
            outcome = _OUTCOMES[vote]
            if outcome == "holds" and claim.by_construction and _is_model(place):
                outcome, why = "by-construction", claim.by_construction
            fit.append((outcome, why, place))
    if not fit:
        if unmet:
            return _say(study, claim, "not-testable-here", unmet, found[0], analysis)
        return _say(study, claim, "not-measured", _nothing(claim, analysis), None, analysis)
    decided = [item for item in fit if item[0] != "inconclusive"]
    if len({item[0] for item in decided}) > 1:
        why = "it depends on the conditions: " + "; ".join(
            f"{_short(claim, place)}: {outcome}" for outcome, _, place in decided[:4]
        )
        return _say(study, claim, "inconclusive", why, decided[0][2], analysis)
    outcome, why, place = (decided or fit)[0]
    return _say(study, claim, outcome, why, place, analysis)


def _speaks(claim: Claim, place: Place) -> bool:
    """Is there a figure to put the question to?"""
    have = set(place.series)
    if claim.kind == "trend":
        return any(name in have and name in place.at_end for name in claim.profiles)
    if claim.kind in ("order", "ratio"):
        return any(name in have for name in claim.higher) and any(
            name in have for name in claim.lower
        )
    if claim.kind in ("equality", "ranking"):
        return len(have) > 1
    return bool(have)


def _lacking(asked: Preconditions, place: Place, analysis: Analysis) -> Iterator[str]:
    """What of the preconditions is not fulfilled, in words."""
    for one in PLACE:
        wanted = [one.words(value) for value in getattr(asked, one.name, ())]
        have = one.words(place.conditions.get(one.name))
        if wanted and have not in wanted:
            yield (
                f"not tested here: the {one.title} is {have}, the claim is about"
                f" {' or '.join(wanted)}"
            )
    for name, values in asked.conditions.items():
        value = place.conditions["params"].get(name, "default")
        if value not in values:
            yield (
                f"not tested here: the condition {name} is {value}, the claim is about"
                f" {' or '.join(values)}"
            )
    kinds = sorted({one.fidelity for one in place.series.values()} - {"baseline"})
    if asked.fidelity and (not kinds or any(kind not in asked.fidelity for kind in kinds)):
        yield (
            f"measured on {' and '.join(kinds) or 'a baseline'}, the claim is about"
            f" {' or '.join(asked.fidelity)}"
        )
    if asked.cycles and any(one.cycles_source != asked.cycles for one in place.series.values()):
        yield "the cycles are estimated, the claim is about counted ones"
    yield from _machine(asked, place, analysis.environment)


def _machine(asked: Preconditions, place: Place, environment: Mapping[str, Any]) -> Iterator[str]:
    other = place.conditions.get("environment", 0) != 0
    cpus, kernels = (
        [] if other else measured.values(environment, name) for name in ("cpu_model", "kernel")
    )
    cpu, kernel = (", ".join(found) or "not recorded" for found in (cpus, kernels))
    if asked.cpu and not (cpus and all(asked.cpu.lower() in one.lower() for one in cpus)):
        yield f"the figure belongs to another machine ({asked.cpu}), this CPU is {cpu}"
    if asked.releases and asked.releases != environment.get("releases"):
        yield f"the figure belongs to {asked.releases}, and this run is of others"
    if asked.kernel and not (kernels and all(one.startswith(asked.kernel) for one in kernels)):
        yield f"the claim is about kernel {asked.kernel}, this one is {kernel}"


def _emulated(claim: Claim, analysis: Analysis) -> Iterator[str]:
    if not counted(claim) and fact(analysis.environment, "accelerator") == "tcg":
        yield "the CPU of this VM is emulated: its speeds say nothing about real ones"


def _is_model(place: Place) -> bool:
    return all(one.fidelity in ("datapath-model", "baseline") for one in place.series.values())


def _nothing(claim: Claim, analysis: Analysis) -> str:
    measured = {result.profile for result in analysis.results}
    missing = [name for name in claim.named if name not in measured]
    if missing:
        return f"not in this run: {', '.join(missing)}"
    works = " or ".join(claim.workload)
    params = "".join(f" {key}={value}" for key, value in claim.params.items())
    sweep = (
        f" with {claim.sweep.param} at {claim.sweep.start} and {claim.sweep.end}"
        if claim.sweep
        else ""
    )
    return f"this run has no {claim.metric} of {works}{params} {claim.placement}".rstrip() + sweep


def _short(claim: Claim, place: Place) -> str:
    have = place.conditions
    params = {key: value for key, value in have["params"].items() if key not in claim.params}
    words = [
        have["workload"],
        have["placement"],
        f"IPv{have['ip']}",
        f"MTU {have['mtu']}",
        have["cpus"],
    ]
    return ", ".join(map(str, [*words, *(f"{key}={value}" for key, value in params.items())]))


def _say(
    study: Study,
    claim: Claim,
    outcome: Outcome,
    reason: str,
    place: Place | None,
    analysis: Analysis,
) -> Judgement:
    return Judgement(
        study=study.name,
        id=claim.id,
        source=claim.source,
        sentence=claim.sentence,
        kind=claim.kind,
        verdict=outcome,
        reason=reason,
        figures=list(_figures(claim, place, analysis.level)),
        where=_conditions(place),
        contradicts=list(claim.contradicts),
        published=_published(claim),
    )


def _published(claim: Claim) -> str:
    """What the study says, in a word: its own unit stays."""
    unit = "" if claim.unit in ("", "1") else f" {claim.unit}"
    if claim.words:
        return claim.words
    if claim.published:
        return ", ".join(f"{name} {value:g}" for name, value in claim.published.items()) + unit
    if claim.ratio is not None:
        return f"x {claim.ratio:g}"
    if claim.between is not None:
        least, most = claim.between
        return (
            f"{least:.0%} to {most:.0%}"
            if claim.kind == "share"
            else f"{least:g} to {most:g}{unit}"
        )
    if claim.kind == "order":
        return f"{', '.join(claim.higher)} > {', '.join(claim.lower)}"
    words = {
        "equality": "alike",
        "absence": "none",
        "stays": "no change",
        "rises": "rises",
        "falls": "falls",
    }
    return words.get(claim.kind, words.get(claim.direction, ""))


def _conditions(place: Place | None) -> dict[str, Any]:
    if place is None:
        return {}
    return {**place.conditions, "fidelity": sorted({one.fidelity for one in place.series.values()})}


def _figures(claim: Claim, place: Place | None, level: float) -> Iterator[Figure]:
    unit = "1" if claim.kind == "share" or not claim.metric else METRICS[claim.metric].unit
    lots = [("", place.series)] if place else [("", {})]
    if claim.sweep and place:
        lots = [
            (f" at {claim.sweep.start}", place.series),
            (f" at {claim.sweep.end}", place.at_end),
        ]
    for suffix, series in lots:
        for name in claim.named:
            said = base(claim.published[name], claim.unit) if name in claim.published else None
            if name in series:
                middle, low, high, n = interval(series[name], level, counted(claim))
                yield Figure(
                    what=name + suffix,
                    unit=unit,
                    published=said,
                    ours=middle,
                    ci_low=low,
                    ci_high=high,
                    n=n,
                )
            elif said is not None:
                yield Figure(what=name + suffix, unit=unit, published=said)
