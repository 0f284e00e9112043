"""From run directories to an Analysis."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from cnibench.analysis import cluster_load, figures, lost_time
from cnibench.analysis.comparability import environments
from cnibench.analysis.comparison import one_deployment
from cnibench.analysis.comparison.by_runs import by_runs
from cnibench.analysis.comparison.contexts import Context, Member
from cnibench.analysis.comparison.groups import PROVEN
from cnibench.analysis.comparison.host_baseline import to_host
from cnibench.analysis.comparison.levels import level_of, look_at
from cnibench.analysis.comparison.neighbours import independence, main_contexts
from cnibench.analysis.comparison.pairs import compare
from cnibench.analysis.comparison.turning_points import turning_points
from cnibench.analysis.cycles import cycles
from cnibench.analysis.gate.failure_rates import Tally
from cnibench.analysis.model import Analysis, Failure, Run
from cnibench.analysis.samples.series import (
    CPP_METRICS,
    Gathered,
    Series,
    Tried,
    gather,
    taken_from_others,
)
from cnibench.analysis.samples.stream import Line
from cnibench.analysis.selection import baseline_of, restricted, without
from cnibench.analysis.text import narrative
from cnibench.analysis.text.notes.background_load import shortfalls
from cnibench.analysis.text.notes.coarse_latencies import coarse_latencies
from cnibench.analysis.text.notes.cross_checks import contradictions
from cnibench.errors import UsageError
from cnibench.model import context
from cnibench.model.cell import Attestation
from cnibench.model.metrics import METRICS, main_metric
from cnibench.rundir.index import each_once
from cnibench.rundir.reader import RunReader
from cnibench.rundir.verification import verify

_CURRENT = "current"  # the name that a plan has for what runs on the cluster
_METRIC_PLACE = {name: i for i, name in enumerate(METRICS)}


def analyse(
    readers: Sequence[RunReader],
    *,
    allow_different: bool = False,
    baseline: str = "",
    only: Sequence[str] = (),
    family: Literal["all", "baseline"] = "all",
    only_stated: bool = False,
    gathered: Gathered | None = None,
) -> Analysis:
    """All figures and verdicts of one run, or of several together.

    Several runs are combined, each as one replicate, only where they are comparable. Raises
    UsageError naming what differs, unless ``allow_different``: then they are shown side by side,
    each environment with results and pairs of its own.
    ``baseline`` names the label that ratios refer to.

    ``only`` are patterns of labels: without the others, which are not corrected for either (every
    pattern has to match one). ``family`` baseline: only the pairs with the baseline are compared.

    ``only_stated``: without words, groups, bounds and diagnostics, which no bundle states and which
    take most of the time. All that is read is read all the same, and its problems are named.
    ``gathered`` is what was read of the samples already.
    """
    if not readers:
        raise UsageError("no run was named", "'cnibench runs' lists the runs")
    each_once(readers)
    gathered = gathered or gather(readers)
    numbers, apart = environments(readers, gathered, allow_different)
    every = _labels(readers, gathered.series)
    labels = restricted(every, only)
    main = main_of(readers)
    contexts = _contexts(gathered, numbers, every, readers, main)
    if left_out := set(every) - set(labels):
        contexts = [without(one, left_out) for one in contexts]
    contexts = [one for one in contexts if one.members]
    base = baseline_of(baseline, labels)
    level = min(level_of(reader.plan) for reader in readers)
    look = look_at(readers[0]) if len(readers) == 1 else None
    fidelity = {one.first.label: one.first.fidelity for one in gathered.series}
    sources, cpp = cycles(readers, numbers, labels, fidelity)
    combined = [by_runs(one) for one in contexts]
    results = figures.results(combined, level, sources, diagnostics=not only_stated)
    compared, host = to_host(combined)
    against = base if family == "baseline" else ""
    pairs, groups = compare(compared, level, look, base=against, only_stated=only_stated)
    failures = [
        one for one in _unsupported(readers) + gathered.failures if one.label not in left_out
    ]
    runs = [run_of(reader) for reader in readers]
    short = contradictions(readers, numbers, contexts) + shortfalls(readers, numbers)
    known = any((pair.verdict in PROVEN and not pair.exact) or pair.within for pair in pairs)
    # the blocks of several runs are no units
    units = main_contexts(contexts, main) if len(readers) == 1 and not only_stated else []
    attestations = _attestations(readers)
    problems = [
        f"{reader.path.name}: {problem}" for reader in readers for problem in verify(reader)
    ]  # of what is not read yet
    analysis = Analysis(
        schema=1,
        problems=problems,
        run=runs[0],
        environment=readers[0].environment,
        results=results,
        groups=groups,
        pairs=pairs,
        cpp=[row for row in cpp if row.label not in left_out],
        attestations=[one for one in attestations if one.label not in left_out],
        failures=failures,
        summary=[],
        notes=apart
        + host
        + gathered.notes
        + short
        + coarse_latencies(contexts)
        + _planned(readers)
        + notes_of(readers, runs)
        + (one_deployment.notes(readers[0].plan, pairs) if len(readers) == 1 else []),
        baseline=base,
        labels=labels,
        unselected=[label for label in every if label in left_out],
        family=family,
        level=level,
        independence=independence(units, known),
        runs=runs,
        environments=[reader.environment for reader in readers],
        turning=[] if only_stated else turning_points(results, level, main),
        main=main,
        current=_current(readers),
        clear=_clear(readers),
        disturbed=[one for one in gathered.disturbed if one.label not in left_out],
        samples=gathered.samples,
        unread=gathered.unread,
        others=lost_time.others(readers),
        node_load=cluster_load.medians(readers, numbers),
        left_out=lost_time.left_out(readers),
        taken=lost_time.taken(readers, numbers),
    )
    return analysis if only_stated else narrative.with_words(analysis)


def contexts_of(reader: RunReader, gathered: Gathered | None = None) -> list[Context]:
    """What one run measured, before any verdict, for a gate, which asks another question; with
    places where nothing gave a figure.

    ``gathered`` is what was read of it already.
    """
    return contexts_together([reader], gathered or gather([reader]), [0])


def contexts_together(
    readers: Sequence[RunReader], gathered: Gathered, numbers: Sequence[int]
) -> list[Context]:
    """What several runs measured; ``numbers`` has the number of each run's environment."""
    labels = _labels(readers, gathered.series)
    return _contexts(gathered, numbers, labels, readers, main_of(readers))


def main_of(readers: Sequence[RunReader]) -> dict[str, str]:
    """Workload to the metric that decides about it, as the runs stored it."""
    return {
        workload: metric
        for reader in reversed(readers)
        for workload, metric in reader.plan.main.items()
        if metric in METRICS
    }


def _labels(readers: Sequence[RunReader], series: Sequence[Series]) -> list[str]:
    """In the order in which the plan names them; those that only samples name come last."""
    found = dict.fromkeys(label for reader in readers for label in reader.plan.profiles)
    found |= dict.fromkeys(one.first.label for one in series)
    measured = {one.first.label for one in series}
    return [label for label in found if label in measured]


def _contexts(
    gathered: Gathered,
    numbers: Sequence[int],
    labels: Sequence[str],
    readers: Sequence[RunReader],
    main: Mapping[str, str],
) -> list[Context]:
    taken_from_others(gathered, numbers)
    paired = not any("imported" in reader.environment for reader in readers)
    own = [{cell.id: cell.params for cell in reader.plan.cells} for reader in readers]
    found: dict[tuple[Any, ...], Context] = {}
    have: set[int] = set()
    for one in gathered.series:
        where = _where(one.first, one.params, numbers[one.run], own[one.run].get(one.first.cell))
        new = Context(where, one.first.window, paired=paired)
        found_here = found.setdefault(_key(where), new)
        member = found_here.members.setdefault(one.first.label, Member(one.first))
        member.values.update(one.by_block())
        tried = one.tried
        member.tally |= _tally(tried, tried.ok if where["reading"] else set(one.blocks))
        have.add(id(tried))
    for tried in gathered.tried:
        if id(tried) not in have and tried.blocks | tried.disturbed:
            _absent(found, tried, numbers[tried.run], main)
    place = {label: i for i, label in enumerate(labels)}
    for one_context in found.values():
        one_context.members = dict(
            sorted(one_context.members.items(), key=lambda item: place[item[0]])
        )
    return [found[key] for key in sorted(found, key=lambda key: key[:-1])]


def _tally(tried: Tried, ok: set[int]) -> Tally:
    failed = tried.blocks - ok
    reason = next((tried.reasons.get(block, "it gave no figure") for block in sorted(failed)), "")
    every, missing, disturbed = (
        frozenset((tried.run, block) for block in blocks)
        for blocks in (tried.blocks, failed, tried.disturbed)
    )
    return Tally(every, missing, reason, disturbed)


def _absent(
    found: dict[tuple[Any, ...], Context], tried: Tried, environment: int, main: Mapping[str, str]
) -> None:
    """Adds a cell that never gave a figure to the metrics of its place, or to a place of its own
    where no other label gave one either.
    """
    line, place = tried.first, _where(tried.first, tried.params, environment, None)
    alike = [
        one
        for one in found.values()
        if one.window == line.window
        and not one.where["reading"]
        and _place(one.where) == _place(place)
    ]
    if not alike:
        there = () if line.workload not in main else (main[line.workload],)
        metric = CPP_METRICS[0] if line.window == "cpp" else main_metric(line.workload, there, main)
        known = METRICS.get(metric)
        where = place | {
            "metric": metric,
            "unit": known.unit if known else "",
            "better": known.better if known else "",
            "reading": {},
        }
        alike = [found.setdefault(_key(where), Context(where, line.window))]
    for one in alike:
        if line.label not in one.members:
            one.absent.setdefault(line.label, Member(line)).tally |= _tally(tried, set())


def _place(where: Mapping[str, Any]) -> tuple[Any, ...]:
    return where["environment"], context.key(where)


def _key(where: Mapping[str, Any]) -> tuple[Any, ...]:
    """What distinguishes contexts, in the order of reports."""
    metric = where["metric"]
    params = json.dumps(where["params"], sort_keys=True)
    order = context.order(where)
    return (
        *order[:3],
        _natural(params),
        where["environment"],
        order[3:],
        _METRIC_PLACE.get(metric, len(METRICS)),
        metric,
        params,
    )


def _natural(text: str) -> tuple[tuple[int, str], ...]:
    """Sorts 50 before 200, and numbers of any length."""
    parts = (part.lstrip("0") if part.isdigit() else part for part in re.split(r"(\d+)", text))
    return tuple((len(part) if part.isdigit() else -1, part) for part in parts)


def _where(
    line: Line, text: str, environment: int, own: Mapping[str, Any] | None
) -> dict[str, Any]:
    params = json.loads(text)
    reading = {} if own is None else {key: value for key, value in params.items() if key not in own}
    return {
        **context.place(line),
        "params": params,
        "metric": line.metric,
        "unit": line.unit,
        "better": line.better,
        "environment": environment,
        "reading": reading,
    }


def run_of(reader: RunReader) -> Run:
    """What a report says of a run itself."""
    plan = reader.plan
    return Run(
        id=plan.id,
        name=plan.name,
        started=reader.started,
        finished=reader.finished,
        seed=plan.seed,
        command=shlex.join(plan.command),
        tool_version=plan.tool_version,
        blocks=plan.blocks,
        duration=plan.duration,
        warmup=plan.warmup,
        planned=plan.planned,
        resolution=plan.resolution,
        facts=plan.facts,
    )


def _attestations(readers: Sequence[RunReader]) -> list[Attestation]:
    found = {
        (reader.id, item.label, item.check, item.ip): item
        for reader in readers
        for item in reader.attestations()
    }
    return list(found.values())


def _unsupported(readers: Sequence[RunReader]) -> list[Failure]:
    found: Mapping[tuple[str, str], Failure] = {
        (item.label, item.lacks): Failure(
            label=item.label,
            profile=item.profile,
            placement="",
            workload="",
            params={},
            cell="",
            block=-1,
            metric="",
            status="unsupported",
            reason=f"{item.lacks} ({item.remedy})" if item.remedy else item.lacks,
        )
        for reader in readers
        for item in reader.plan.unsupported
    }
    return list(found.values())


def _current(readers: Sequence[RunReader]) -> dict[str, str]:
    """By label, the CNI that the cluster had, as it was recognised there: ``--cni current``."""
    found = {}
    for reader in readers:
        given = reader.plan.plan.get("cni")
        asked = ",".join(map(str, given)) if isinstance(given, list) else ""
        labels = {
            entry.strip().partition("=")[0]
            for entry in asked.split(",")
            if entry.strip().rpartition("=")[2] == _CURRENT
        }
        for label, profile in reader.plan.profiles.items():
            if label in labels:
                name, title = str(profile.get("name", "")), str(profile.get("title", ""))
                found[label] = title if name == _CURRENT else f"{title}, profile {name}"
    return found


def _clear(readers: Sequence[RunReader]) -> dict[str, str]:
    """By label that encrypts, the first label that was measured of the same mode without it and
    with the same implementation of Services.
    """
    found: dict[str, str] = {}
    for reader in readers:
        profiles = reader.plan.profiles
        kinds = {label: (one.get("name"), one.get("proxy")) for label, one in profiles.items()}
        for label, profile in profiles.items():
            clear = profile.get("clear"), profile.get("proxy")
            same = [other for other, kind in kinds.items() if clear[0] and kind == clear]
            if same:
                found[label] = same[0]
    return found


def _planned(readers: Sequence[RunReader]) -> list[str]:
    """What the plans noted."""
    return list(dict.fromkeys(note for reader in readers for note in reader.plan.notes))


def notes_of(readers: Sequence[RunReader], runs: Sequence[Run]) -> list[str]:
    """What is odd about the runs' folders, and what they lack."""
    found = []
    for reader, run in zip(readers, runs, strict=True):
        found += [f"{reader.id}: {warning}" for warning in reader.warnings]
        if again := reader.chain.again:
            found.append(
                f"{reader.id}: {again} sample{'s' * (again != 1)} measured again after a failure;"
                " the last attempt counts"
            )
        if reader.plan.deployment_blocks > 1:
            found.append(
                f"{reader.id}: each deployment was measured for {reader.plan.deployment_blocks}"
                " blocks, which are not independent; p values and intervals are too small if"
                " deployments differ ('cnibench calibrate' showed that)"
            )
        if not run.finished:
            found.append(
                f"{reader.id}: not finished; what is missing is done by: cnibench run --resume"
                f" {reader.path.name}"
            )
    return list(dict.fromkeys(found))
