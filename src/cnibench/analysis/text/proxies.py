"""How implementations of Services compare, in a sentence with its figures: for those who have to
leave kube-proxy's ipvs mode.
"""

from __future__ import annotations

from collections.abc import Sequence

from cnibench.analysis.model import Analysis, Group, Result
from cnibench.analysis.text.places import describe
from cnibench.model import context
from cnibench.model.units import human

_COUNT = "services.count"
_PER_CONNECTION = ("tcp-crr", "tcp-connect", "service-change", "rule-path")
_IPVS = "kube-proxy's ipvs mode is deprecated (Kubernetes 1.35)"


def proxies(analysis: Analysis, groups: Sequence[Group]) -> list[str]:
    """One line for each place and workload at the most Services that were measured there, where
    one profile was measured with several implementations; [] elsewhere.
    """
    known = {result.label: result.proxy for result in analysis.results if result.proxy}
    if len(set(known.values())) < 2:
        return []
    largest: dict[str, Group] = {}
    for group in groups:
        if group.workload not in _PER_CONNECTION or _COUNT not in group.params:
            continue
        if len({known.get(label) for label in group.ranking} - {None}) < 2:
            continue
        rest = {name: value for name, value in group.params.items() if name != _COUNT}
        key = context.key(context.place(group) | {"params": rest}) + group.metric
        if key not in largest or largest[key].params[_COUNT] < group.params[_COUNT]:
            largest[key] = group
    found = [_line(group, analysis, known) for group in largest.values()]
    if found:
        found.append(f"Services: {_advice(list(largest.values()), known)}")
    return found


def _line(group: Group, analysis: Analysis, known: dict[str, str]) -> str:
    results = {
        result.label: result
        for result in analysis.results
        if result.metric == group.metric
        and not result.reading
        and context.key(context.place(result)) == context.key(context.place(group))
        and result.environment == group.environment
    }
    said = [
        f"{known[label]} {_figure(results[label], group)}"
        for label in group.ranking
        if label in results and label in known
    ]
    count = group.params[_COUNT]
    return f"Services, {describe(group)}, {count} of them, {group.metric}: {', '.join(said)}"


def _figure(result: Result, group: Group) -> str:
    if result.ci_low is None or result.ci_high is None:
        return f"{human(result.median, group.unit)} (n = {result.n})"
    low, high = human(result.ci_low, group.unit), human(result.ci_high, group.unit)
    return f"{human(result.median, group.unit)} ({low} to {high}, n = {result.n})"


def _advice(groups: Sequence[Group], known: dict[str, str]) -> str:
    """Who leads everywhere, as far as the verdicts say so."""
    first = [known.get(group.ranking[0], "") for group in groups if group.ranking]
    measured = sorted(set(known.values()))
    own = "its figures are among these" if "ipvs" in measured else "it was not measured here"
    leaders = dict.fromkeys(first)
    words = " and ".join(f"{name} in {first.count(name)}" for name in leaders)
    return (
        f"{_IPVS}; {own}. Of {', '.join(measured)}, the best medians at the most Services are those"
        f" of {words} of {len(first)} measurements; the tables say which differences are"
        " significant, and the turning points from how many Services on"
    )
