"""What was found, how sure, and what was not tested: the paragraph at the top of a report, generated from the verdicts."""

from __future__ import annotations

import json
from collections.abc import Sequence

import msgspec

from cnibench.analysis.comparable import fact
from cnibench.analysis.model import Analysis, Group, Pair, Result, Where
from cnibench.stats_plan import POWER
from cnibench.units import human

# The metric that a workload is first judged by: the first of these that it has.
PRIMARY = (
    "transaction_rate", "request_rate", "throughput", "pod_ready", "policy_effect", "pod_network", "latency_p50", "latency_mean", "rules",
    "cycles_per_packet",
)  # fmt: skip
_PLACEMENT = {"intra": "on one node", "inter": "between nodes"}
_SEVERAL = 6  # names listed before the rest is counted


def place_of(where: Where) -> tuple[object, ...]:
    """What figures of one table share: everything about where they stand but the metric."""
    params = {key: value for key, value in where.params.items() if key not in where.reading}
    return (
        where.environment, where.testbed, where.wire, where.wire_offload, where.workload, where.placement, where.path,
        json.dumps(params, sort_keys=True), where.ip, where.mtu, where.cpus, where.pair,
    )  # fmt: skip


def primary(metrics: Sequence[str]) -> str:
    """The metric by which these are compared first; '' when there is none of the known ones."""
    return next((name for name in PRIMARY if name in metrics), metrics[0] if metrics else "")


def primary_groups(analysis: Analysis) -> list[Group]:
    """One group of labels for each place: that of its primary metric."""
    metrics: dict[tuple[object, ...], list[str]] = {}
    whole = [group for group in analysis.groups if not group.reading]
    for group in whole:
        metrics.setdefault(place_of(group), []).append(group.metric)
    return [group for group in whole if group.metric == primary(metrics[place_of(group)])]


def with_words(analysis: Analysis) -> Analysis:
    """The same analysis with its summary and its notes."""
    return msgspec.structs.replace(analysis, summary=_summary(analysis), notes=analysis.notes + _oddities(analysis))


def _summary(analysis: Analysis) -> list[str]:
    if not analysis.results:
        failed = sum(failure.status != "unsupported" for failure in analysis.failures)
        return [
            f"Nothing was measured: {failed} sample{'s' * (failed != 1)} failed, none gave a figure." if failed else "Nothing was measured."
        ]
    shown = primary_groups(analysis)
    found = [_found(analysis, group) for group in shown]
    return [*found, _sure(analysis, shown), _not_tested(analysis)]


def describe(where: Where) -> str:
    """``tcp-rr between nodes``, and what of its place is not the usual; 0 stands for what was not recorded."""
    rest = (
        [f"path {where.path}"] * (where.path != "pod")
        + [f"IPv{where.ip}"] * (where.ip not in (0, 4))
        + [f"MTU {where.mtu}"] * (where.mtu not in (0, 1500))
    )
    rest += [f"pair {where.pair}"] * (where.pair != 0) + [f"environment {where.environment + 1}"] * (where.environment != 0)
    return f"{where.workload} {_PLACEMENT.get(where.placement, where.placement)}" + (f" ({', '.join(rest)})" if rest else "")


def _found(analysis: Analysis, group: Group) -> str:
    place = place_of(group)
    results = {r.label: r for r in analysis.results if r.metric == group.metric and not r.reading and place_of(r) == place}
    pairs = [p for p in analysis.pairs if p.metric == group.metric and not p.reading and place_of(p) == place]
    beginning = describe(group)
    first, rest = beginning[0].upper() + beginning[1:], group.order[0][1:]
    best = results[group.order[0][0]]
    if not pairs:
        return f"{first}: {best.label} reached {_figure(best)}; there was nothing to compare it with."
    if all(pair.verdict == "inconclusive" for pair in pairs):
        needed = max(pair.blocks_needed for pair in pairs)
        return f"{first}: inconclusive; {pairs[0].n} blocks cannot tell {len(results)} profiles apart, {needed} could."
    together = f"; not told apart from it: {_names(rest)}" if rest else ", told apart from all others"
    if len(group.order) == 1:
        return f"{first}: no difference was found among the {len(results)} profiles ({best.label}: {_figure(best)})."
    ranked = sorted(results.values(), key=lambda r: r.median, reverse=group.better == "higher")
    worst = ranked[-1]
    pair = next(p for p in pairs if {p.a, p.b} == {best.label, worst.label})
    return f"{first}: best {best.label} ({_figure(best)}){together}; last {worst.label} ({_figure(worst)}){_against(pair, worst.label)}."


def _against(pair: Pair, label: str) -> str:
    """``, 12 % to 15 % below``: the interval of ``label`` against the other one."""
    if pair.ci_low is None or pair.ci_high is None or pair.verdict not in ("a-better", "b-better"):
        return ""
    low, high = (pair.ci_low, pair.ci_high) if pair.a == label else (1 / pair.ci_high, 1 / pair.ci_low)
    return f", at {low:.3g} to {high:.3g} times the best"


def _figure(result: Result) -> str:
    return f"{human(result.median, result.unit)}"


def _names(labels: Sequence[str]) -> str:
    shown = list(labels[:_SEVERAL])
    more = len(labels) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _sure(analysis: Analysis, shown: Sequence[Group]) -> str:
    keys = {(place_of(group), group.metric) for group in shown}
    pairs = [pair for pair in analysis.pairs if not pair.reading and (place_of(pair), pair.metric) in keys]
    if not pairs:
        return "How sure: a single profile has no verdicts; its intervals are those of the median."
    count = {verdict: sum(pair.verdict == verdict for pair in pairs) for verdict in ("no-difference-found", "inconclusive")}
    apart = len(pairs) - sum(count.values())
    reach = [pair.detectable for pair in pairs if pair.detectable is not None]
    blocks = sorted({pair.n for pair in pairs})
    text = (
        f"How sure: of {len(pairs)} pair{'s' * (len(pairs) != 1)}, {apart} {'was' if apart == 1 else 'were'} told apart, "
        f"{count['no-difference-found']} not, "
        f"{count['inconclusive']} inconclusive ({_range(blocks)} paired blocks; exact signed-rank test of log ratios, Holm's correction, "
        f"level {analysis.level:.3g})."
    )
    if reach:
        text += f" Differences of {_percent(max(reach))} or more would have been found with a power of {POWER:.0%} in every pair."
    if count["inconclusive"]:
        text += f" At least {max(pair.blocks_needed for pair in pairs)} blocks are needed to decide."
    return text


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.2g} %" if fraction < 1 else f"{100 * fraction:.0f} %"


def _range(numbers: Sequence[int]) -> str:
    return str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"


def _not_tested(analysis: Analysis) -> str:
    parts = []
    unsupported = list(dict.fromkeys(f.label for f in analysis.failures if f.status == "unsupported"))
    if unsupported:
        parts.append(f"unsupported here: {_names(unsupported)}")
    failed = list(dict.fromkeys(f.label for f in analysis.failures if f.status != "unsupported"))
    if failed:
        parts.append(f"some or all samples failed: {_names(failed)}")
    placements = {result.placement for result in analysis.results}
    parts += [f"nothing {words}" for name, words in _PLACEMENT.items() if name not in placements]
    if not any(result.wire == "nic" for result in analysis.results):
        parts.append("no NIC was in the path, so inter-node throughput says nothing about your network")
    parts.append("other machines, kernels and loads than this run's")
    return f"Not tested: {'; '.join(parts)}."


def conditions(analysis: Analysis) -> list[str]:
    """What stands where the figures stand: testbed, wire, model or real CNI, estimated cycles, emulated CPU."""
    found = []
    for testbed, wire, offload in dict.fromkeys((r.testbed, r.wire, r.wire_offload) for r in analysis.results):
        found.append(f"testbed: {testbed}, wire: {wire}" + (f", offload of the wire: {offload}" if offload else ""))
    fidelity = {result.fidelity for result in analysis.results}
    if "datapath-model" in fidelity:
        found.append("fidelity: datapath-model (the CNI's datapath rebuilt from the same kernel objects, not the CNI itself)")
    if "cni" in fidelity:
        found.append("fidelity: cni (the real CNI)")
    if any(row.cycles_source == "estimated" for row in analysis.cpp):
        found.append("cycles: estimated (cpu-clock samples times the TSC frequency: this machine gives no cycle counter)")
    if any(str(fact(environment, "accelerator") or "") == "tcg" for environment in analysis.environments):
        found.append("CPU emulated: ratios may hold, absolute figures do not")
    return found


def _oddities(analysis: Analysis) -> list[str]:
    """Outliers, drift and dependence, in words; nothing is dropped for them."""
    shown = {(place_of(group), group.metric) for group in primary_groups(analysis)}
    results = [result for result in analysis.results if not result.reading and (place_of(result), result.metric) in shown]
    found = []
    for result in results:
        if result.outliers:
            blocks = ", ".join(str(block + 1) for block in result.outliers[:8])
            found.append(f"{result.label}, {describe(result)}: outlying {result.metric} in block {blocks}; kept in all figures")
    drifting = [f"{r.label} in {describe(r)}" for r in results if r.drift_p is not None and r.drift_p <= analysis.level]
    if drifting:
        found.append(
            f"values drift over the run (Spearman, Holm's correction): {_names(drifting)}; ratios are taken within blocks and bear it"
        )
    tied = [
        f"{p.a} / {p.b} in {describe(p)}"
        for p in analysis.pairs
        if p.dependence_p is not None and p.dependence_p <= analysis.level and not p.reading and (place_of(p), p.metric) in shown
    ]
    if tied:
        found.append(
            f"log ratios of neighbouring blocks depend on each other (Bartels, Holm's correction): {_names(tied)}; "
            "their p values are too small, take more blocks over a longer time"
        )
    return found + _missing(analysis)


def _missing(analysis: Analysis) -> list[str]:
    """Labels that a workload's main metric lacks, though they were measured elsewhere: never a silent omission."""
    found = []
    for group in primary_groups(analysis):
        lacking = [label for label in analysis.labels if label not in group.letters]
        if lacking and group.environment == 0:
            found.append(f"{describe(group)}: no {group.metric} from {_names(lacking)}")
    return list(dict.fromkeys(found))
