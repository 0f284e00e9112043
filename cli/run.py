"""Measure CNI profiles and compare them."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import click

from cnibench.cli._options import cluster_options, extra_of
from cnibench.cli._output import json_option, print_json, print_table
from cnibench.errors import UsageError
from cnibench.model.units import duration, human
from cnibench.system import log
from cnibench.system.guest import inside

_log = logging.getLogger(__name__)


@click.command(
    "run",
    epilog=(
        "\b\nExamples:\n"
        "  cnibench run --cni flannel,cilium\n"
        "  cnibench run --cni 'calico-*' --workload tcp-rr --dry-run\n"
        "  cnibench run --cluster kind --cni flannel --cni cilium\n"
        "  cnibench run --resume last --retry-failed\n"
    ),
)
@click.option(
    "--cni",
    multiple=True,
    metavar="NAME",
    help=("Profile to measure: a name, shell pattern, file, LABEL=NAME or 'all'. Repeatable."),
)
@click.option("--cluster", metavar="KIND", help="Where the Pods run.  [default: lab]")
@click.option(
    "--placement",
    multiple=True,
    metavar="LIST",
    help="Placements of the Pods: intra, inter.  [default: both]",
)
@click.option(
    "--path",
    multiple=True,
    metavar="LIST",
    help=(
        "How the client reaches the server: pod, clusterip, nodeport, host, pod-to-host. "
        " [default: pod]"
    ),
)
@click.option(
    "--workload",
    multiple=True,
    metavar="LIST",
    help="Workloads: NAME or NAME:KEY=VALUE:...  [default: tcp-stream,tcp-rr]",
)
@click.option("--duration", metavar="TIME", help="Length of each measured window.  [default: 10s]")
@click.option(
    "--warmup", metavar="TIME", help="Warm-up before each window, not counted.  [default: 2s]"
)
@click.option(
    "--blocks",
    metavar="auto|N",
    help="Number of blocks; auto: as many as --resolution requires.  [default: auto]",
)
@click.option(
    "--resolution",
    metavar="PERCENT",
    help="With --blocks auto: the smallest difference to detect.  [default: 5%]",
)
@click.option(
    "--noise",
    metavar="RUN|PERCENT",
    help=(
        "With --blocks auto: noise to plan with.  [default: newest calibration in --out,"
        " else assumed]"
    ),
)
@click.option(
    "--target-ci",
    metavar="PERCENT",
    help="Stop when the half-width of every comparison's confidence interval is at most this.",
)
@click.option(
    "--max-blocks",
    type=int,
    metavar="N",
    help="Maximum for --blocks auto and --target-ci.  [default: 30]",
)
@click.option(
    "--cpus",
    metavar="MODE",
    help=(
        "CPU pinning of client and server: shared (one CPU), split (one CPU each), none. "
        " [default: shared]"
    ),
)
@click.option("--ip", type=click.Choice(["4", "6", "both"]), help="IP version.  [default: 4]")
@click.option(
    "--mtu",
    type=int,
    metavar="BYTES",
    help="MTU of the wire between the nodes; of an existing cluster: its own.  [default: 1500]",
)
@click.option(
    "--wire-offload",
    type=click.Choice(["none", "plain", "vxlan", "all"]),
    help="Segmentation offloads of the lab's wire.",
)
@click.option("--wire-rate", metavar="RATE", help="Rate limit of the lab's wire, for example 1G.")
@click.option(
    "--congestion-control",
    metavar="NAME",
    help=(
        "Of TCP connections, read back from them.  [default: cubic in the lab, elsewhere the Pods'"
        " own]"
    ),
)
@click.option(
    "--kernel",
    metavar="auto|host|vm|PATH",
    help="Use this kernel, or a distribution kernel in a VM (lab only).  [default: auto]",
)
@click.option(
    "--pairs",
    type=int,
    metavar="N",
    help="Pod pairs measured at the same time, distributed over the nodes.  [default: 1]",
)
@click.option("--no-perf", is_flag=True, help="Do not measure cycles per packet.")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="[LABEL:]KEY=VALUE",
    help="Set a value of a profile. Repeatable.",
)
@click.option("--seed", type=int, metavar="N", help="Random seed for the order of the cells.")
@click.option(
    "--plan",
    metavar="FILE|STUDY",
    help="Plan file, or the name of a built-in plan; other options override its keys.",
)
@click.option(
    "--scale",
    type=float,
    metavar="S",
    help="Scale windows, blocks and request counts by S, as far as verdicts allow.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("runs"),
    show_default=True,
    help="Directory for run directories.",
)
@click.option("--name", "title", metavar="LABEL", help="Name of this run.")
@click.option("--keep", is_flag=True, help="Do not remove what was installed (clusters only).")
@click.option(
    "--dry-run",
    is_flag=True,
    help="Only show what would be measured, the duration and the traffic.",
)
@click.option("--resume", metavar="RUN", help="Continue an interrupted run.")
@click.option(
    "--retry-failed",
    is_flag=True,
    help="With --resume: repeat failed samples; the last attempt counts.",
)
@cluster_options
@json_option
def command(
    out: Path, resume: str | None, retry_failed: bool, dry_run: bool, as_json: bool, **values: Any
) -> int:
    """Measure CNI profiles and compare them.

    Checks all requirements before anything starts. The results go to a run directory, and the
    report is printed at the end.
    """
    log.keep()
    if resume:
        given = [key for key, value in values.items() if value not in (None, (), False)]
        if given or dry_run:
            raise UsageError(
                "--resume takes the plan of the run;"
                f" --{(given or ['dry-run'])[0].replace('_', '-')} cannot change it",
                "leave it out",
            )
        return _resume(resume, out, as_json, retry_failed)
    if retry_failed:
        raise UsageError(
            "--retry-failed is for a run that is there", "cnibench run --resume RUN --retry-failed"
        )
    if not values["cni"] and not values["plan"]:
        raise UsageError(
            "no profile was named", "name one with --cni NAME; 'cnibench profiles' lists them"
        )
    from cnibench.cli import _kernel
    from cnibench.cli._request import at_scale, plan_of, prepare, profile_problems, suited
    from cnibench.planning.blocks import Here, words

    plan, given_up = suited(plan_of(values), values)
    if values["scale"] is not None:
        plan, shortened = at_scale(plan, values["scale"])
        given_up += shortened
    vm = _kernel.decide(
        values["kernel"] or "auto",
        plan.cluster,
        lambda: profile_problems(plan),
        whatever_runs=set(plan.cni) == {"all"},
    )
    if vm is not None:
        plan, shortened = vm.shortened(plan, values)
        given_up += shortened
    here = Here(out, plan.cluster, *(("vm", vm.kernel.release) if vm else ()))
    request = prepare(
        plan,
        name=values["title"] or "",
        extra=extra_of(values),
        other_kernel=vm is not None,
        notes=given_up,
        here=here,
    )
    for line in (*request.manifest.notes, *words(request.manifest.planned)):
        _log.info("planned: %s", line)
    for line in _preview(request):
        click.echo(line, err=True)
    if dry_run:
        _show(request, as_json)
        return 0
    for line in given_up:
        click.echo(line, err=True)
    if values["plan"]:
        _expect(request)
    for warning in (
        *request.warnings,
        *(
            f"{one.label} is not measured: {one.lacks}; {one.remedy}"
            for one in request.manifest.unsupported
        ),
    ):
        click.echo(f"warning: {warning}", err=True)
    from cnibench.cli._execute import carry_out, tools_of

    path = (out / request.manifest.id).absolute()
    status = (
        carry_out(request, path, resume=False)
        if vm is None
        else _kernel.start(vm, request.manifest, path, tools_of(request))
    )
    return _report(path, status, as_json)


def _resume(name: str, out: Path, as_json: bool, retry_failed: bool) -> int:
    from cnibench.cli import _kernel
    from cnibench.cli._execute import carry_out
    from cnibench.cli._request import again
    from cnibench.rundir.index import find
    from cnibench.rundir.reader import RunReader

    path = find(name, out).absolute()
    reader = RunReader(path)
    if reader.finished and not (
        retry_failed and len(reader.done(retry_failed=True)) < len(reader.done())
    ):
        click.echo(
            "nothing is missing: this run is complete" + ", no sample failed" * retry_failed,
            err=True,
        )
        return _report(path, 0, as_json)
    if vm := _kernel.again(path):
        return _report(path, _kernel.carry(vm, path, retry_failed=retry_failed), as_json)
    request = again(reader.plan)
    for warning in request.warnings:
        click.echo(f"warning: {warning}", err=True)
    status = carry_out(request, path, resume=True, retry_failed=retry_failed)
    return (
        status if inside() else _report(path, status, as_json)
    )  # out of the VM, the report is the host's work


def _report(path: Path, status: int, as_json: bool) -> int:
    """Prints the comparison and writes it beside the samples; 1 when any sample of the run failed.

    The last line says how many were disturbed, if any were: that is no failure.
    """
    if status not in (0, 1):
        return status
    from cnibench.cli._reports import show
    from cnibench.rundir.reader import RunReader

    status = max(status, show(path, as_json))
    failed, disturbed, measured = False, set(), set()
    for sample in RunReader(path).samples():
        failed = failed or sample.status != "ok"
        measured.add((sample.cell, sample.block))
        if sample.disturbed:
            disturbed.add((sample.cell, sample.block))
    if disturbed:
        click.echo(
            f"{len(disturbed)} of {len(measured)} samples were disturbed and are not used; the"
            " report says why",
            err=True,
        )
    return 1 if failed else status


def _forecast(request: Any) -> tuple[list[tuple[Any, int]], float]:
    """All samples, each (cell, block), and the seconds that they take."""
    from cnibench.planning.forecast import whole
    from cnibench.planning.plan import passes

    manifest = request.manifest
    samples = passes(manifest.cells, manifest.blocks)
    cluster = request.cluster(request.options)
    return samples, whole(
        samples, request.workloads, manifest.duration, manifest.warmup, cluster, request.profiles
    )


def _about(request: Any, seconds: float) -> str:
    """The time that a plan takes, in words."""
    rest = (
        "and that to install and attest the profiles"
        if request.cluster.simultaneous
        else "with that to install and attest the profiles"
    )
    return f"about {duration(seconds)}, {rest}"


def _expect(request: Any) -> None:
    """The time that a plan takes, before it starts."""
    samples, seconds = _forecast(request)
    click.echo(f"{len(samples)} samples, {_about(request, seconds)}", err=True)


def _preview(request: Any) -> list[str]:
    """What the cluster says of what is about to be done, and what making and removing the profiles
    costs. Raises UsageError.
    """
    from cnibench.planning.plan import expected_bytes, expected_seconds, passes

    manifest = request.manifest
    measured = [cell for cell, _ in passes(manifest.cells, manifest.blocks)]
    cluster = request.cluster(request.options)
    windows = expected_seconds(
        measured, request.workloads, manifest.duration, manifest.warmup, cluster.pod_seconds
    )
    told = list(
        cluster.preview(
            request.profiles,
            windows,
            expected_bytes(measured, request.workloads, manifest.duration),
        )
    )
    making = sum(cluster.seconds(profile) for profile in request.profiles.values())
    if making:
        times = (
            f"{len(request.profiles)} x {manifest.blocks} times"
            if manifest.blocks > 1
            else f"{len(request.profiles)} times"
        )
        told.append(
            f"installing, attesting and removing, {times}: about"
            f" {duration(making * manifest.blocks)}"
        )
    return told


def _blocks(manifest: Any) -> str:
    """How many blocks: ``7``, or ``2 to 7`` where cells have numbers of their own."""
    numbers = {min(cell.blocks or manifest.blocks, manifest.blocks) for cell in manifest.cells}
    return f"{min(numbers)} to {max(numbers)}" if len(numbers) > 1 else str(manifest.blocks)


def _show(request: Any, as_json: bool) -> None:
    """What --dry-run prints; ``request`` is a _request.Request."""
    from cnibench.planning.plan import expected_bytes
    from cnibench.run.progress import words

    manifest = request.manifest
    samples, seconds = _forecast(request)
    volume = expected_bytes((cell for cell, _ in samples), request.workloads, manifest.duration)
    if as_json:
        print_json(
            {
                "schema": 1,
                "cells": [{"id": cell.id, **_fields(cell)} for cell in manifest.cells],
                "blocks": manifest.blocks,
                "samples": len(samples),
                "seconds": seconds,
                "bytes": volume,
                "planned": manifest.planned,
                "seed": manifest.seed,
                "unsupported": manifest.unsupported,
                "notes": manifest.notes,
            }
        )
        return
    print_table(
        ("cell", "CPUs", "MTU"),
        [(words(cell), cell.cpus, str(cell.mtu)) for cell in manifest.cells],
    )
    most = (
        f" (up to {manifest.max_blocks} blocks, until ±{manifest.target_ci:.1%})"
        if manifest.target_ci
        else ""
    )
    click.echo(
        f"{len(manifest.cells)} cells x {_blocks(manifest)} blocks{most} = {len(samples)} samples,"
        f" seed {manifest.seed}"
    )
    click.echo(f"time: {_about(request, seconds)}")
    click.echo(f"traffic: at most about {human(volume, 'B')}" if volume else "traffic: little")
    for one in manifest.unsupported:
        click.echo(f"not measured: {one.label}: {one.lacks}; {one.remedy}")
    for note in manifest.notes:
        click.echo(f"note: {note}")


def _fields(cell: Any) -> dict[str, Any]:
    import msgspec

    return msgspec.structs.asdict(cell)
