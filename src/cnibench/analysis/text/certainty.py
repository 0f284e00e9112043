"""How the differences were decided, what that takes for granted, and what would have been found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cnibench.analysis.comparison.groups import PROVEN
from cnibench.analysis.model import FewRepeats, Group, Pair
from cnibench.analysis.text.wording import replicate, replicates
from cnibench.model.units import plural
from cnibench.stats.power import POWER

_TESTS: Mapping[str, str] = {
    "signed-rank test": "exact signed-rank test of log ratios, corrected for the number of pairs",
    "joint test": "permutation test of the log ratios of all pairs together, corrected for their"
    " number and for earlier looks",
}  # by Pair.basis


def certainty_of(pairs: Sequence[Pair], groups: Sequence[Group], level: float) -> str:
    """One paragraph about these pairs of these groups."""
    if not pairs:
        return (
            "Certainty: nothing was compared, so there are no verdicts; the intervals are those of"
            " each profile's median."
        )
    if all(pair.exact for pair in pairs):
        return (
            f"Certainty: of {plural(len(pairs), 'pair')}, {_were(_apart(pairs))} different; all"
            f" values are counts that are identical in every {replicate(pairs)}, so no test is"
            " needed."
        )
    few = [pair for pair in pairs if pair.basis == "additive model"]
    text = f"Certainty: {_counts(pairs)}"
    if len(few) < len(pairs):
        text += f" ({_tested(pairs, level)})"
    text += f".{_detected(pairs)}"
    if few:
        text += f" {_model(few, [one.model for one in groups if one.model], level)}"
    if any(pair.verdict == "inconclusive" for pair in pairs):
        needed = max(pair.blocks_needed for pair in pairs)
        without = " without a model" if few else ""
        text += f" At least {replicates(needed, pairs)} are needed to decide{without}."
    return text


def assumption(model: FewRepeats, level: float) -> str:
    """The model of one place, for the table that rests on it."""
    shared = f" + what the {model.replicate} adds to all" if model.paired else ""
    noise = (
        f"of one size in all profiles ({percent(model.noise)})"
        if model.prior is None
        else f"of sizes that scatter around {percent(model.noise)} (each profile's own, to which"
        f" that of all adds {model.prior:.2g} degrees of freedom)"
    )
    return (
        f"few repeats: ratios by a model that assumes log(value) = profile{shared} + normal noise"
        f" {noise}; in brackets the {100 * (1 - level):.3g} % intervals that hold for all pairs"
        " together; proven: 1 is outside; suggestive: it would be if this were the only pair, or"
        " one side has a single value; ~: nothing can be said"
    )


def percent(fraction: float) -> str:
    """``2.1 %``, ``230 %``: two digits, more where they precede the decimal point."""
    return f"{100 * fraction:.2g} %" if fraction < 1 else f"{100 * fraction:.0f} %"


def _apart(pairs: Sequence[Pair]) -> int:
    return sum(pair.verdict in PROVEN for pair in pairs)


def _were(number: int) -> str:
    return f"{number} {'was' if number == 1 else 'were'}"


def _counts(pairs: Sequence[Pair]) -> str:
    count = {
        verdict: sum(pair.verdict == verdict for pair in pairs)
        for verdict in ("no-difference-found", "inconclusive")
    }
    return (
        f"of {plural(len(pairs), 'pair')}, {_were(_apart(pairs))} significantly different,"
        f" {count['no-difference-found']} not, {count['inconclusive']} inconclusive"
    )


def _tested(pairs: Sequence[Pair], level: float) -> str:
    """By which test; how many are counts; ``few`` have sentences of their own."""
    tested = [pair for pair in pairs if not pair.exact and pair.basis != "additive model"]
    blocks = sorted({pair.n for pair in tested})
    parts = []
    if tested:
        span = _range(blocks)
        paired = replicates(span, tested).replace(span, f"{span} paired", 1)
        tests = {_TESTS[pair.basis or "signed-rank test"] for pair in tested}
        parts.append(f"{paired}; {' and '.join(sorted(tests))}, level {level:.3g}")
    if counts := sum(pair.exact for pair in pairs):
        parts.append(f"{counts} are counts, not measurements, and need no test")
    return "; ".join(parts)


def _detected(pairs: Sequence[Pair]) -> str:
    tested = [pair for pair in pairs if not pair.exact]
    reach: dict[str, list[float]] = {}
    for pair in tested:
        if pair.detectable is not None:
            reach.setdefault(pair.workload, []).append(pair.detectable)
    if not reach:
        return ""
    decided = sum(map(len, reach.values()))
    where = "every pair" if decided == len(tested) else "every pair that could be decided"
    worst = {workload: percent(max(found)) for workload, found in reach.items()}
    if len(set(worst.values())) == 1:
        said = next(iter(worst.values()))
    else:
        each = [f"{figure} ({workload})" for workload, figure in worst.items()]
        said = f"{', '.join(each[:-1])} and {each[-1]}"
    return (
        f" Differences of {said} or more would have been detected with a power of {POWER:.0%} in"
        f" {where}."
    )


def _model(few: Sequence[Pair], models: Sequence[FewRepeats], level: float) -> str:
    """What the pairs with few blocks rest on. The assumption is said with the result."""
    blocks = _range(sorted({pair.n for pair in few}))
    suggestive = sum(pair.evidence == "suggestive" for pair in few)
    unequal = sum(one.prior is not None for one in models)
    noise = [one.noise for one in models]
    span = percent(min(noise))
    if percent(max(noise)) != span:
        span = f"{span} to {percent(max(noise))}"
    added = f" plus what its {replicate(models)} adds to all"
    shared = added if any(one.paired for one in models) else ""
    text = (
        f"{plural(len(few), 'pair')} with {replicates(blocks, few)}, too few for a test"
        f" without a model, assume{'s' * (len(few) == 1)} that the logarithm of a value is its"
        f" profile's level{shared} plus normal noise ({span}) of one size in all profiles"
    )
    if unequal:
        places = plural(len(models), "place")
        text += f", or of sizes that scatter around one (at {unequal} of {places})"
    text += f"; the {100 * (1 - level):.3g} % intervals hold for all pairs of a place together."
    text += f" By it {_were(_apart(few))} proven to differ"
    if suggestive:
        text += f" and {_were(suggestive)} suggestive (different if tested alone)"
    others = len(few) > _apart(few) + suggestive
    return f"{text}; of the others nothing can be said." if others else f"{text}."


def _range(numbers: Sequence[int]) -> str:
    return str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"
