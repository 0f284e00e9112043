"""The sentences of the answer in about ten lines: where it holds, how certain it is, why profiles
differ, what failed. The report has all of it in full.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from cnibench.analysis.comparison.groups import PROVEN
from cnibench.analysis.comparison.outcome import equal
from cnibench.analysis.model import Analysis, Cpp
from cnibench.analysis.text.decision import settled
from cnibench.analysis.text.places import cycles_of
from cnibench.analysis.text.standings import Place
from cnibench.analysis.text.wording import names, replicates
from cnibench.model import context
from cnibench.model.context import fact
from cnibench.model.units import human, plural

UNDECIDED, EQUAL = "~", "="  # before a difference; what has none of them is proven
_FIDELITY = {"datapath-model": "a model, not the CNI", "cni": "the real CNI"}


def setting(analysis: Analysis) -> str:
    """Testbed, wire, model or real CNI, emulated CPU, in one line."""
    said = dict.fromkeys(
        f"testbed: {one.testbed}, wire: {one.wire}"
        + _wire(one.wire, one.wire_offload, one.wire_rate)
        for one in analysis.results
    )
    labels: dict[str, list[str]] = {}
    for one in analysis.results:
        labels.setdefault(one.fidelity, []).append(one.label)
    known = [name for name in _FIDELITY if name in labels]
    for name in known:
        whose = f" of {names(list(dict.fromkeys(labels[name])))}" if len(known) > 1 else ""
        said[f"fidelity{whose}: {_FIDELITY[name]}"] = None
    if any(str(fact(one, "accelerator") or "") == "tcg" for one in analysis.environments):
        said["CPU emulated: ratios may be valid, absolute values are not"] = None
    return "; ".join(said)


def _wire(wire: str, offload: str, rate: float) -> str:
    more = ["no NIC"] * (wire not in ("nic", "not recorded"))
    more += [f"offload {offload}"] * bool(offload)
    more += [f"limited to {human(rate, 'bit/s')}"] * bool(rate)
    return f" ({'; '.join(more)})" if more else ""


def certainty(analysis: Analysis, places: Sequence[Place]) -> str:
    """How many pairs are decided, how, and what the others need."""
    pairs = [pair for place in places for pair in place.pairs]
    if not pairs:
        return "Certainty: nothing was compared, so there are no verdicts."
    resolution = analysis.run.resolution
    different = [pair for pair in pairs if pair.verdict in PROVEN]
    same = [p for p in pairs if p.verdict not in PROVEN and equal(p, resolution)]
    rest = len(pairs) - len(different) - len(same)
    blocks = sorted({pair.n for pair in pairs})
    span = str(blocks[0]) if len(blocks) == 1 else f"{blocks[0]} to {blocks[-1]}"
    said = f"Certainty: after {replicates(span, pairs)}, {len(different)} of"
    said += f" {plural(len(pairs), 'pair')} different"
    if modelled := sum(pair.basis == "additive model" for pair in different):
        said += f", {modelled} of them assuming normal noise"
    if same:
        said += f", {len(same)} equal within {100 * resolution:.3g} % ({EQUAL})"
    if rest:
        said += f", {rest} undecided ({UNDECIDED})"
    least = max((pair.blocks_needed for pair in pairs if not pair.basis), default=0)
    if (found := settled(analysis, pairs)) and found.blocks_for_all:
        said += f"; --blocks {found.blocks_for_all} would decide all"
    elif least:
        said += f"; at least {replicates(least, pairs)} are needed"
    return f"{said}."


def why(analysis: Analysis, places: Sequence[Place]) -> list[str]:
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
    if "estimated" in (best.cycles_source, worst.cycles_source):
        said += " (estimated)"
    if differences:
        sign = math.copysign(1, worst.total - best.total)
        most = max(differences, key=lambda name: sign * differences[name])
        said += f"; {most} contributes most ({differences[most]:+.0f})"
    return said


def failed(analysis: Analysis) -> list[str]:
    """How many samples failed, and the first one's reason."""
    found = [one for one in analysis.failures if one.status != "unsupported"]
    if not found:
        return []
    labels = names(list(dict.fromkeys(one.label for one in found)))
    samples = plural(len(found), "sample")
    return [f"Failed: {samples} of {labels}, first: {found[0].reason}"]


def not_tested(analysis: Analysis) -> list[str]:
    """What was asked for and is unsupported here, and the placements of which nothing is known."""
    unsupported = dict.fromkeys(
        one.label for one in analysis.failures if one.status == "unsupported"
    )
    parts = [f"unsupported here: {names(list(unsupported))}"] if unsupported else []
    measured = {one.placement for one in analysis.results}
    parts += [
        f"nothing {words}"
        for name, words in context.coordinate("placement").named
        if name not in measured
    ]
    return [f"Not tested: {'; '.join(parts)}."] if parts else []
