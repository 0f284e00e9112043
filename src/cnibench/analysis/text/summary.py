"""The first sentences of a report: what was found at each place, places with the same outcome
together.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from cnibench.analysis.comparison.groups import PROVEN
from cnibench.analysis.model import Pair
from cnibench.analysis.text import against
from cnibench.analysis.text.standings import Place, leading
from cnibench.analysis.text.wording import (
    failures,
    few_figures,
    figure,
    more_in_brackets,
    names,
    replicates,
    times,
)
from cnibench.model.units import human, plural

_EACH = 4  # settings of one sweep that get a sentence each; more get one together


def sentences(places: Sequence[Place]) -> list[str]:
    """One for each outcome, in the order of the places."""
    lots: dict[Hashable, list[Place]] = {}
    for one in places:
        lots.setdefault(_outcome(one), []).append(one)
    return [text for lot in lots.values() for text in _sentences_of(lot)]


def _outcome(one: Place) -> tuple[Any, ...]:
    """Places with the same outcome share a sentence."""
    failing, sound = tuple(one.group.failing), [result.label for result in one.sound]
    pairs = [pair for pair in one.pairs if pair.a in sound and pair.b in sound]
    if not sound:
        return "failing", one.name
    if len(sound) == 1:
        return "alone", sound[0], one.sweep, failing
    if not pairs:  # only those with a baseline that gave no figure were asked for
        return "uncompared", len(sound), failing
    if one.base:
        return "against", one.name
    if all(pair.verdict == "inconclusive" and not pair.basis for pair in pairs):
        needed = max(pair.blocks_needed for pair in pairs)
        blocks = [pair.n for pair in pairs]
        low, n = min(blocks), max(blocks)
        have = replicates(f"{low} to {n}" if low < n else n, pairs)
        return "inconclusive", have, len(sound), needed, failing
    if not any(pair.verdict in PROVEN for pair in pairs):
        tested = any(pair.verdict == "no-difference-found" for pair in pairs)
        rest = assuming(pairs), _suggested(one), _untested(pairs), failing
        return "none", len(sound), tested, *rest
    return "decided", one.sweep, failing


def _sentences_of(lot: Sequence[Place]) -> list[str]:
    outcome, one = _outcome(lot[0]), lot[0]
    kind, where = str(outcome[0]), names(_together(lot))
    if kind == "failing":
        return [f"{where}: every profile failed often, so there is no ranking{_failed(lot)}."]
    if kind == "uncompared":
        said = f"{where}: nothing was compared, as the baseline or the host network lacks figures"
        return [f"{said}{_failed(lot)}."]
    if kind == "against":
        return [against.sentence(place) + _failed([place]) + "." for place in lot]
    if kind == "inconclusive":
        _, have, profiles, needed, _ = outcome
        return [
            f"{where}: inconclusive; {have} {'is' if have.startswith('1 ') else 'are'} too few to"
            f" compare {profiles} profiles, at least {needed} are needed{_failed(lot)}."
        ]
    if kind == "none":
        _, profiles, tested, basis, suggested, untested, _ = outcome
        said = "no significant difference" if tested else "no difference is proven"
        first = one.sound[0]
        shown = f" ({first.label}: {figure(first)})" if len(lot) == 1 else ""
        return [
            f"{where}: {said} among the {profiles} profiles{shown}{basis}"
            f"{suggested}{untested}{_failed(lot)}."
        ]
    if len(lot) > _EACH:
        return [_swept(lot, kind)]
    return [_alone(place) if kind == "alone" else _decided(place) for place in lot]


def assuming(pairs: Sequence[Pair]) -> str:
    """What verdicts on few blocks rest on; '' where none does."""
    modelled = [pair for pair in pairs if pair.basis == "additive model"]
    few = [pair.n for pair in modelled]
    if not few:
        return ""
    every = "" if len(few) == len(pairs) else f" for {len(few)} of {len(pairs)} pairs"
    blocks = f"{min(few)}" if min(few) == max(few) else f"{min(few)} to {max(few)}"
    return f", assuming normal noise{every} ({replicates(blocks, modelled)})"


def _suggested(one: Place, best: str = "") -> str:
    """Pairs that alone would be significant, and are not among all: worse / better; those with
    ``best`` by the other's name. The tables have their intervals."""
    found = [
        _worse_first(one, pair)
        for pair in one.pairs
        if pair.evidence == "suggestive"
        and not {pair.a, pair.b} & set(one.group.failing)
        and (not best or best in (pair.a, pair.b))
    ]
    said = [worse if best else f"{worse} / {better}" for worse, better in found]
    return f"; suggestive, not proven: {names(said)}" if said else ""


def _worse_first(one: Place, pair: Pair) -> tuple[str, str]:
    place = one.group.ranking.index
    return (pair.a, pair.b) if place(pair.a) > place(pair.b) else (pair.b, pair.a)


def _untested(pairs: Sequence[Pair]) -> str:
    number = sum(not pair.basis for pair in pairs)
    return f"; {number} of {plural(len(pairs), 'pair')} could not be tested" if number else ""


def _together(lot: Sequence[Place]) -> list[str]:
    """Their names; settings of one sweep are counted."""
    found: dict[str, list[str]] = {}
    for one in lot:
        found.setdefault(one.plain, []).append(one.name)
    return [
        every[0] if len(every) == 1 else more_in_brackets(plain, f"{len(every)} settings")
        for plain, every in found.items()
    ]


def _alone(one: Place) -> str:
    first = one.sound[0]
    others = one.group.failing or one.group.failed.keys() - {first.label}
    text = f"{one.name}: {first.label} reached {figure(first)}; "
    text += (
        "no other profile gave enough figures to compare it with"
        if others
        else "there was no other profile to compare it with"
    )
    return f"{text}{_failed([one])}."


def _decided(one: Place) -> str:
    best, others = one.sound[0], one.sound[1:]
    pairs = {other.label: one.pair(best.label, other.label) for other in others}
    behind = {name: pair for name, pair in pairs.items() if pair and pair.verdict in PROVEN}
    untested = [name for name, pair in pairs.items() if pair is None or not pair.basis]
    close = [name for name in pairs if name not in behind and name not in untested]
    text = f"{one.name}: best {best.label} ({figure(best)})"
    if close:
        text += f"; not significantly different from it: {names(close)}"
    if untested:
        text += f"; not compared with it: {names(untested)}"
    if len(behind) == len(pairs):
        ranked = " that are ranked" if one.group.failing else ""
        text += f", significantly different from all others{ranked}"
    text += assuming([pair for pair in one.pairs if not {pair.a, pair.b} & set(one.group.failing)])
    if behind:
        each = [f"{name} {times(pair, name)}".strip() for name, pair in behind.items()]
        text += f"; worse (ratio to {best.label}): {names(each)}"
    return f"{text}{_suggested(one, best.label)}{_failed([one])}."


def _swept(lot: Sequence[Place], kind: str) -> str:
    """A sweep in one sentence: who leads how often."""
    first = lot[0]
    where = more_in_brackets(first.plain, f"{len(lot)} settings")
    figures = [place.sound[0].median for place in lot]
    span = f"{human(min(figures), first.group.unit)} to {human(max(figures), first.group.unit)}"
    if kind == "alone":
        return (
            f"{where}: {first.sound[0].label} reached {span}; no other profile gave figures to"
            f" compare it with{_failed(lot)}."
        )
    leads: dict[str, int] = {}
    for place in lot:
        for label in leading(place):
            leads[label] = leads.get(label, 0) + 1
    counts = [
        f"{label} in {number}" for label, number in sorted(leads.items(), key=lambda item: -item[1])
    ]
    basis = assuming([pair for place in lot for pair in place.pairs])
    return (
        f"{where}: in the leading group {names(counts)}{basis}; the best reached"
        f" {span}{_failed(lot)}."
    )


def _failed(lot: Sequence[Place]) -> str:
    """Who failed, who is not ranked for it, and whose figures rest on less than half of the
    blocks."""
    said = []
    if text := failures([one.group for one in lot]):
        said.append(text)
    if lot[0].group.failing and lot[0].sound:
        said.append(f"not ranked, as it failed often: {names(lot[0].group.failing)}")
    few: dict[str, str] = {}
    for one in lot:
        few = few_figures(one.results) | few
    said += [names(list(few.values()))] if few else []
    return "".join(f"; {one}" for one in said)
