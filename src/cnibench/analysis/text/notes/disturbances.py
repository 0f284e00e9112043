"""Disturbed samples in words: how many, which, why, and which cells they leave without a figure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from cnibench.analysis import cluster_load
from cnibench.analysis.model import LEFT_OUT, TAKEN, Analysis, Disturbed, Group
from cnibench.analysis.text.places import describe, of_cell
from cnibench.model import context
from cnibench.model.node_names import named
from cnibench.model.units import is_number, plural
from cnibench.system.usage import BUSY

_SHOWN = 3  # in the summary; the report's table has all


def summary(analysis: Analysis) -> list[str]:
    """The first sentences of a report with disturbed samples; none without."""
    found = analysis.disturbed
    if not found:
        return [*busy(analysis), *_taken(analysis), *_left_out(analysis)]
    shown = [f"{_place(one)}, block {one.block + 1}: {one.reason}" for one in found[:_SHOWN]]
    more = f"; and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    are = "sample was" if analysis.samples == 1 else "samples were"
    text = (
        f"Disturbed: {len(found)} of {analysis.samples} {are} disturbed and not used:"
        f" {'; '.join(shown)}{more}."
    )
    alone = list(dict.fromkeys(_place(one) for one in found if one.alone))
    if alone:
        text += f" For these there is no figure: {'; '.join(alone)}."
    return [*busy(analysis), *_taken(analysis), text, *_left_out(analysis)]


def busy(analysis: Analysis) -> list[str]:
    """Other programs that used CPUs before the run, or while it measured; none where none did."""
    found = []
    for environment in analysis.environments:
        before, cpus = (_number(environment.get(name)) for name in ("busy", "cpus_online"))
        if before > BUSY * cpus > 0:
            found.append(f"{before:.1f} of {cpus:.0f} CPUs before it started")
        found += [
            f"{one.others:.1f} of {one.cpus} CPUs of {named(one.node)} before it started"
            for one in cluster_load.said(environment.get("node_load"))
            if one.others > BUSY * one.cpus
        ]
    if analysis.node_load:
        found += _on_nodes(analysis)
    else:
        found += _on_this_machine(analysis)
    if not found:
        return []
    return [f"Busy machine: other programs used {' and '.join(dict.fromkeys(found))}."]


def _on_this_machine(analysis: Analysis) -> list[str]:
    during, cpus = analysis.others or 0.0, _number(analysis.environment.get("cpus_online"))
    if not during > BUSY * cpus > 0:
        return []
    how = "about" if all(one.method == "slices" for one in analysis.results) else "at least"
    return [f"{how} {during:.1f} of {cpus:.0f} CPUs while it measured (median)"]


def _on_nodes(analysis: Analysis) -> list[str]:
    """On clusters, where the programs that every node has are among them."""
    found = ", ".join(
        f"{'at least' if one.least else 'about'} {one.others:.1f} of {one.cpus} CPUs of"
        f" {named(one.node)}"
        for one in analysis.node_load
        if one.others > BUSY * one.cpus
    )
    included = "median, the nodes' own programs included"
    return [f"{found} while it measured ({included})"] if found else []


def _number(value: Any) -> float:
    return float(value) if is_number(value) else 0.0


def brief(analysis: Analysis) -> list[str]:
    """What disturbed the run, in one sentence, the first reason for all; nothing where nothing
    did.
    """
    found, left = analysis.disturbed, analysis.left_out
    if not found and not left:
        return [*busy(analysis), *_taken(analysis)]
    text = f"Disturbed and not used: {len(found)} of {plural(analysis.samples, 'sample')}"
    if found:
        text += f", first {_place(found[0])}, block {found[0].block + 1}: {found[0].reason}"
    if left:
        text += (
            f"; {len(left)} other{'s' * (len(left) != 1)} left out more than {LEFT_OUT:.0%} of"
            f" their slices (at most {max(left):.0%})"
        )
    return [f"{text}.", *busy(analysis), *_taken(analysis)]


def _taken(analysis: Analysis) -> list[str]:
    """How many samples lost time to the host or to a CPU quota, and at most how much."""
    words = {
        "steal": ("Steal: the machine's host took", "of the CPU time"),
        "quota": ("CPU quota: it held back", "of the time"),
    }
    shares = {
        cause: [share for one in analysis.taken if one.cause == cause for share in one.shares]
        for cause in words
    }
    return [
        f"{words[cause][0]} {TAKEN:.0%} or more {words[cause][1]} in {len(found)} of"
        f" {analysis.samples} samples (at most {max(found):.0%})."
        for cause, found in shares.items()
        if found
    ]


def taken_there(analysis: Analysis, group: Group) -> list[str]:
    """The same of one place, by profile, and what other programs used there."""
    here = {name: getattr(group, name, None) for name in context.OF_RECORD}
    found = []
    for cause, words in (("steal", "taken by the host (steal)"), ("quota", "held by a CPU quota")):
        most = [
            f"{one.label} {max(one.shares):.0%}"
            for one in analysis.taken
            if (one.cause, one.environment) == (cause, group.environment) and one.where == here
        ]
        if most:
            found.append(f"{words}, at most in one sample: {', '.join(most)}")
    used = [
        (one, statistics.median(one.shares))
        for one in analysis.taken
        if (one.cause, one.environment) == ("others", group.environment) and one.where == here
    ]
    nodes = {one.node for one in analysis.node_load if one.environment == group.environment}
    # other programs always run on a cluster's nodes: what they use is part of the conditions there
    if shown := [(one, share) for one, share in used if nodes or share > BUSY]:
        # of a window it is a lower bound
        least = group.method != "slices" or any(one.least for one, _ in shown)
        how = ", at least" if least else ""
        of = "the busiest node's CPUs" if len(nodes) > 1 else "all CPUs"
        words = ", ".join(f"{one.label} {share:.0%}" for one, share in shown)
        found.append(f"used by other programs, median share of {of}{how}: {words}")
    return found


def _left_out(analysis: Analysis) -> list[str]:
    found = analysis.left_out
    if not found:
        return []
    return [
        f"Slices left out: in {len(found)} of {analysis.samples} samples more than {LEFT_OUT:.0%}"
        f" of the slices were disturbed and not used (at most {max(found):.0%})."
    ]


def rows(found: Sequence[Disturbed]) -> list[list[str]]:
    """Profile, where, block, reason of each."""
    return [
        [one.label, _place(one).removeprefix(f"{one.label}, "), str(one.block + 1), one.reason]
        for one in found
    ]


def _place(one: Disturbed) -> str:
    where = of_cell(
        placement=one.placement,
        path=one.path,
        workload=one.workload,
        params=one.params,
        ip=one.ip,
        mtu=one.mtu,
        cpus="",
        pair=one.pair,
    )
    params = " ".join(f"{key}={value}" for key, value in one.params.items())
    cycles = " with perf" if one.window == "cpp" else ""
    return f"{one.label}, {describe(where)}{cycles}{f' [{params}]' if params else ''}"
