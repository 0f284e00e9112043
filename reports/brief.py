"""The answer on one screen: who is best in each place and by how much, how certain that is,
where the difference comes from, and what disturbed the measurement. ``run`` ends with it.
"""

from __future__ import annotations

import math
import shutil
import sys
import textwrap

from cnibench.analysis.comparison.groups import PROVEN
from cnibench.analysis.model import Analysis, Cpp, Pair, Result
from cnibench.analysis.text import disturbances
from cnibench.analysis.text.narrative import (
    certainty,
    conditions,
    not_tested,
    primary_places,
    selected,
    unheld,
)
from cnibench.analysis.text.places import cycles_of
from cnibench.analysis.text.standings import Place
from cnibench.analysis.text.summary import assuming
from cnibench.analysis.text.wording import names
from cnibench.model.units import human, plural
from cnibench.reports._escape import plain

_WIDTH = 80
_PLACES = 6  # that get a line; the report has all
_OTHERS = 4  # profiles of a place after the best one


class BriefReport:
    """``name`` is the format's name of ``report --format``."""

    name = "brief"
    suffix = ".txt"

    def render(self, analysis: Analysis, width: int | None = None) -> str:
        """Lines of at most ``width`` characters where its names allow it; None: as wide as the
        terminal, else 80.
        """
        if width is None:
            width = (
                shutil.get_terminal_size((_WIDTH, 24)).columns if sys.stdout.isatty() else _WIDTH
            )
        places = primary_places(analysis)
        lines = [*conditions(analysis), *unheld(analysis), *disturbances.brief(analysis)]
        lines += selected(analysis)
        lines += [f"{place.name}: {_ranking(analysis, place)}" for place in places[:_PLACES]]
        if len(places) > _PLACES:
            lines.append(f"{len(places) - _PLACES} more comparisons are in the report")
        if places:
            lines.append(certainty(analysis))
        if analysis.independence:
            lines.append(analysis.independence)
        lines += [*_why(analysis, places), *_failed(analysis), not_tested(analysis)]
        if analysis.notes:
            others = len(analysis.notes) - 1
            more = f" ({others} more in the report)" if others else ""
            lines.append(f"Note: {analysis.notes[0]}{more}")
        return "".join(
            textwrap.fill(
                plain(line, 4000), max(60, width), subsequent_indent="  ", break_on_hyphens=False
            )
            + "\n"
            for line in lines
        )


def _ranking(analysis: Analysis, place: Place) -> str:
    """``cilium 18.3 k/s; flannel -12.1 % to -9.8 %; weave no significant difference``"""
    sound = place.sound
    sound.sort(key=lambda one: one.label != place.base)  # what the others were compared with first
    words = _standings(place, sound) if sound else ["every profile failed often"]
    if place.group.failing and sound:
        words.append(f"failed often: {names(place.group.failing)}")
    gone = [name for name in analysis.labels if name not in place.group.ranking]
    if missing := [name for name in gone if name not in place.group.failing]:
        words.append(f"no figure from {names(missing)}")
    return "; ".join(words) + " (less is better)" * (place.group.better == "lower")


def _standings(place: Place, ranked: list[Result]) -> list[str]:
    first, *others = ranked
    pairs = {other.label: place.pair(first.label, other.label) for other in others}
    known = [pair for pair in pairs.values() if pair]
    undecided = [pair for pair in known if not pair.basis]
    words = [_median(first)]
    for one in others[:_OTHERS]:
        if len(undecided) == len(known):
            words.append(_median(one))
        else:
            words.append(f"{one.label} {_versus(pairs[one.label], one.label)}")
    if len(others) > _OTHERS:
        words.append(f"{len(others) - _OTHERS} more")
    if undecided and len(undecided) == len(known):
        needed = max(pair.blocks_needed for pair in undecided)
        have = plural(undecided[0].n, undecided[0].replicate)
        words.append(f"inconclusive ({have}, needs {needed})")
    if basis := assuming(known):
        words.append(basis.removeprefix(", "))
    return words


def _median(result: Result) -> str:
    return f"{result.label} {human(result.median, result.unit)}"


def _versus(pair: Pair | None, label: str) -> str:
    """How much more or less ``label`` has than the other one of the pair."""
    if pair is None:
        return "not compared"
    if not pair.basis:
        return f"inconclusive ({plural(pair.n, pair.replicate)}, needs {pair.blocks_needed})"
    if pair.verdict not in PROVEN and pair.evidence != "suggestive":
        return "inconclusive" if pair.verdict == "inconclusive" else "no significant difference"
    if pair.ratio is None:
        return "better" if (pair.verdict == "a-better") == (pair.a == label) else "worse"
    low = pair.ci_low if pair.ci_low is not None else pair.ratio
    high = pair.ci_high if pair.ci_high is not None else pair.ratio
    if pair.a != label:
        low, high = 1 / high, 1 / low
    percents = [f"{100 * (one - 1):+.1f} %" for one in (low, high)]
    said = percents[0] if percents[0] == percents[1] else " to ".join(percents)
    return f"{said} (suggestive, not proven)" if pair.verdict not in PROVEN else said


def _why(analysis: Analysis, places: list[Place]) -> list[str]:
    """The component that contributes most to the difference in cycles per packet between the best
    and the worst, in the place where their totals differ most; none where no difference is
    significant.
    """
    found: list[tuple[float, str]] = []
    for place in places:
        if len(place.sound) < 2:
            continue
        best, worst = place.sound[0], place.sound[-1]
        pair = place.pair(best.label, worst.label)
        cycles = {row.label: row for row in cycles_of(analysis, place.group)}
        if pair and pair.verdict in PROVEN and {best.label, worst.label} <= set(cycles):
            ours, theirs = cycles[best.label], cycles[worst.label]
            found.append((abs(theirs.total - ours.total), f"{place.name}: {_cycles(ours, theirs)}"))
    return [f"Why, {max(found)[1]}."] if found else []


def _cycles(best: Cpp, worst: Cpp) -> str:
    """``flannel takes 5210 cycles per packet, cilium 3840; bridge contributes most (+1930)``"""
    components = best.components.keys() | worst.components.keys()
    differences = {
        name: worst.components.get(name, 0.0) - best.components.get(name, 0.0)
        for name in sorted(components)
    }
    said = f"{worst.label} takes {worst.total:.0f} cycles per packet, {best.label} {best.total:.0f}"
    if differences:
        sign = math.copysign(1, worst.total - best.total)
        most = max(differences, key=lambda name: sign * differences[name])
        said += f"; {most} contributes most ({differences[most]:+.0f})"
    return said


def _failed(analysis: Analysis) -> list[str]:
    """How many samples failed, and the first one's reason; what is unsupported is not tested."""
    failed = [one for one in analysis.failures if one.status != "unsupported"]
    if not failed:
        return []
    labels = names(list(dict.fromkeys(one.label for one in failed)))
    samples = plural(len(failed), "sample")
    return [f"Failed: {samples} of {labels}, first: {failed[0].reason}"]


PROVIDER = BriefReport()
