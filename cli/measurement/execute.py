"""Carries a checked request out, inside what its cluster lives in, and shows the report."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain, combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from cnibench.analysis.comparison.levels import planned_looks
from cnibench.cli.errors import guarded
from cnibench.cli.measurement.ranking import Shown
from cnibench.cli.measurement.request import Request
from cnibench.cli.output.printing import fancy
from cnibench.errors import Interrupted, MeasureError, UsageError
from cnibench.model import context
from cnibench.model.cell import Sample
from cnibench.model.context import disagreements
from cnibench.model.units import plural
from cnibench.run.checks.cpus import pins
from cnibench.run.progress import Lines, Progress, Terminal, Warnings
from cnibench.run.runner import Runner
from cnibench.run.workload import Workload
from cnibench.rundir.files import open_log
from cnibench.rundir.reader import RunReader
from cnibench.rundir.writer import RunWriter
from cnibench.system import log
from cnibench.system.environment import machine
from cnibench.system.guest import inside
from cnibench.system.process import ahead
from cnibench.system.usage import look, wait_until_quiet
from cnibench.testbed.cluster import Cluster

if TYPE_CHECKING:
    from cnibench.analysis.samples.stream import Line


_log = logging.getLogger(__name__)


def carry_out(
    request: Request,
    path: Path,
    *,
    resume: bool,
    retry_failed: bool = False,
    wait_quiet: float = 0.0,
    quiet: bool = False,
) -> int:
    """Measures; the exit status. ``quiet``: nothing is said of the progress. The inner process
    reports its own errors. Raises MeasureError when that was killed.
    """
    # here: inside, this machine's NICs and its other programs are not seen
    nics = {**offloads(request.cluster), **others(request.cluster.manages_nodes, wait_quiet)}
    status = request.cluster.carry(
        lambda: guarded(
            lambda: _measure(request, path, resume, nics, retry_failed, wait_quiet, quiet)
        )
    )
    if status > 128 and status != Interrupted.exit_code:
        raise MeasureError(
            f"the run was killed by signal {status - 128}; nothing of it is left, every finished"
            " sample is kept",
            f"go on with: cnibench run --resume {path}",
        )
    return status


def others(manages_nodes: bool, wait_quiet: float) -> dict[str, Any]:
    """How many CPUs other programs use, for env.json. Warns if that disturbs the measurement, and
    waits up to ``wait_quiet`` s for it to end. Empty if the nodes are other machines, at which the
    runner looks.
    """
    if inside() or not manages_nodes:
        return {}
    found = (
        wait_until_quiet(wait_quiet, lambda said: click.echo(said, err=True), look)
        if wait_quiet
        else look()
    )
    facts: dict[str, Any] = {"busy": round(found.cpus, 2)}
    if found.disturbs:
        advice = "" if wait_quiet else "; stop them, or wait with --wait-quiet 5m"
        click.echo(f"warning: the machine is busy: {found}{advice}", err=True)
    if found.disturbs and wait_quiet:
        facts["unheld"] = [
            f"--wait-quiet: after {wait_quiet:g} s other programs still used {found.cpus:.1f} CPUs"
        ]
    return facts


def offloads(cluster: Cluster) -> dict[str, Any]:
    """What the NICs of the nodes' machine do for tunnels, for env.json; nothing where the nodes are
    other machines, which tell it then.
    """
    if inside() or not cluster.manages_nodes:
        return {}
    from cnibench.offload.facts import stored

    return {"offload": stored()}


def _measure(
    request: Request,
    path: Path,
    resume: bool,
    nics: Mapping[str, Any],
    retry_failed: bool,
    wait_quiet: float,
    quiet: bool,
) -> int:
    facts = {**machine(() if inside() else tools_of(request)), **nics}
    if resume:
        same_machine(RunReader(path), facts, manages_nodes=request.cluster.manages_nodes)
    with (
        RunWriter.resume(path) if resume else RunWriter.create(path, request.manifest) as writer,
        log.into(open_log(path)),
    ):
        _log.info("cnibench %s", request.manifest.tool_version)
        if writer.manifest != request.manifest:
            writer.narrow(request.manifest)
        # Nobody else writes now. What is asked earlier, another process may finish meanwhile.
        done = RunReader(path).done(retry_failed=retry_failed) if resume else set()
        # Other machines' CPUs are not ours: the runner asks them, when there is somebody to ask.
        pinned = pins(
            request.manifest.cells[0].cpus if request.cluster.manages_nodes else "none",
            request.cluster.options.pairs,
        )
        recorded = (
            {name: value for name, value in RunReader(path).environment.items() if name != "schema"}
            | ({"installed": installed} if (installed := RunReader(path).installed) else {})
            if resume
            else {}
        )
        if inside():  # the programs and the NICs are the host's, which has asked them already
            known = RunReader(path).environment
            facts |= {
                "accelerator": inside(),
                "tools": known.get("tools", {}),
                "offload": known.get("offload", {}),
            }
        shown = Warnings() if quiet else progress()
        runner = Runner(
            cluster=request.cluster,
            writer=writer,
            profiles=request.profiles,
            workloads=request.workloads,
            collectors=request.collectors,
            cpus=pinned,
            done=done,
            progress=shown,
            environment=facts,
            enough=_enough(path, request),
            recorded=recorded,
            ranking=Shown(path, request.manifest, shown),
            wait_quiet=wait_quiet,
        )
        ahead()
        failed = runner.run()
    return 1 if failed else 0


def same_machine(
    reader: RunReader, facts: Mapping[str, Any], *, manages_nodes: bool = True
) -> None:
    """Raises UsageError naming both values of what an interrupted run was measured on and this
    machine has not; nothing is changed.

    ``manages_nodes``: the nodes are this machine's. Otherwise the runner compares their facts, once
    they have reported them.
    """
    recorded = {"tool_version": reader.plan.tool_version, **reader.environment}
    if found := disagreements(recorded, facts, machine=manages_nodes):
        raise UsageError(
            f"{reader.path.name} was measured on something else: {'; '.join(map(str, found))}",
            "resume it on the machine where it was started, or start a new run; a run is never"
            " measured on two machines",
        )


def tools_of(request: Request) -> list[str]:
    """The programs that the run uses."""
    tools = [tool for workload in request.workloads.values() for tool in workload.tools]
    return tools + [tool for collector in request.collectors for tool in collector.tools]


def progress() -> Progress:
    """A bar on a terminal, lines elsewhere; both on stderr."""
    return Terminal() if fancy() and not log.verbosity() else Lines()


def _enough(path: Path, request: Request) -> Callable[[int], str] | None:
    manifest = request.manifest
    if manifest.until_decided:
        return partial(_all_decided, path, planned_looks(manifest)[:-1])
    if not manifest.target_ci:
        return None

    def enough(blocks: int) -> str:
        from cnibench.analysis.samples import stream
        from cnibench.stats.sequential import decide

        lines = chain.from_iterable(
            stream.samples(RunReader(path))
        )  # a long run's samples are never in memory together
        series = comparisons(lines, request.workloads, blocks)
        decision = decide(series, manifest.target_ci, manifest.max_blocks)
        _log.info(
            "after %s: %s", plural(blocks, "block"), decision.reason or "the target is not reached"
        )
        return decision.reason if decision.stop else ""

    return enough


def _all_decided(path: Path, looks: Sequence[int], blocks: int) -> str:
    """Why the run may end after so many blocks: at an early look all pairs are decided."""
    if blocks not in looks:
        return ""
    from cnibench.analysis.comparison.decided import decided
    from cnibench.analysis.text.decision import lines

    found = decided(RunReader(path), blocks)
    _log.info("after %s: %s", plural(blocks, "block"), " ".join([*lines(found), found.dependence]))
    return found.reason


def comparisons(
    samples: Iterable[Sample | Line], workloads: Mapping[str, Workload], blocks: int
) -> dict[str, list[float]]:
    """Each comparison of two labels in the primary metric of a workload to its log ratios in the
    first ``blocks`` blocks; with one label only, to the logs of its values."""
    values: dict[str, dict[str, dict[int, float]]] = {}
    names: dict[str, str] = {}
    for sample in samples:
        workload = workloads.get(sample.workload)
        if (
            workload is None
            or sample.metric != workload.primary
            or sample.window != "speed"
            or sample.block >= blocks
            or not sample.value
            or sample.disturbed
        ):
            continue
        given = (
            sample.params
            if isinstance(sample.params, Mapping)
            else msgspec.json.decode(sample.params)
        )
        params = " ".join(f"{name}={value}" for name, value in sorted(given.items()))
        place = context.key(context.place(sample) | {"params": params})
        rest = ", ".join([f"[{params}]", f"pair {sample.pair}", *context.unusual(sample)])
        names[place] = f"{sample.placement} {sample.workload} {rest}"
        values.setdefault(place, {}).setdefault(sample.label, {})[sample.block] = math.log(
            sample.value
        )
    found: dict[str, list[float]] = {}
    for place, labels in values.items():
        where = names[place]
        for one, other in combinations(labels, 2):
            both = labels[one].keys() & labels[other].keys()
            found[f"{one} against {other}, {where}"] = [
                labels[one][block] - labels[other][block] for block in sorted(both)
            ]
        if len(labels) == 1:
            ((label, logs),) = labels.items()
            found[f"{label}, {where}"] = list(logs.values())
    return found
