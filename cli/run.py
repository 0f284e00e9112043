"""Measure CNI profiles and compare them."""

from __future__ import annotations

import logging
from dataclasses import asdict
from pathlib import Path

import click

from cnibench.cli._cluster_options import ClusterOptions, cluster_options
from cnibench.cli._options import gathered
from cnibench.cli._output import json_option
from cnibench.cli._plan_options import PlanOptions
from cnibench.errors import UsageError
from cnibench.system import log
from cnibench.system.guest import inside

_log = logging.getLogger(__name__)


@click.command("run")
@click.option(
    "--cni",
    multiple=True,
    metavar="NAME",
    help=(
        "Profile: a name, a shell pattern, a file, LABEL=NAME, or 'all'. Repeat it, or use commas."
    ),
)
@click.option("--cluster", metavar="KIND", help="Where the Pods run.  [default: lab]")
@click.option("--placement", multiple=True, metavar="LIST", help="intra, inter.  [default: both]")
@click.option(
    "--path",
    multiple=True,
    metavar="LIST",
    help="How the server is reached: pod, clusterip, nodeport, host, pod-to-host.  [default: pod]",
)
@click.option(
    "--workload",
    multiple=True,
    metavar="LIST",
    help="NAME or NAME:KEY=VALUE:...  [default: tcp-stream,tcp-rr]",
)
@click.option("--duration", metavar="TIME", help="Of each measured window.  [default: 10s]")
@click.option("--warmup", metavar="TIME", help="Before each window, never counted.  [default: 2s]")
@click.option(
    "--blocks",
    metavar="auto|N",
    help="Passes over all cells; auto: enough for --resolution.  [default: auto]",
)
@click.option(
    "--resolution",
    metavar="PERCENT",
    help="With --blocks auto: the smallest difference to find.  [default: 5%]",
)
@click.option(
    "--noise",
    metavar="RUN|PERCENT",
    help="With --blocks auto.  [default: of the newest calibration in --out, else assumed]",
)
@click.option(
    "--target-ci",
    metavar="PERCENT",
    help="Stop when every comparison's interval is at most this wide (half width).",
)
@click.option(
    "--max-blocks",
    type=int,
    metavar="N",
    help="With --blocks auto or --target-ci: no more than this.  [default: 30]",
)
@click.option(
    "--cpus",
    metavar="MODE",
    help=(
        "split, shared or none: are client and server pinned to two CPUs, to one, or not at all? "
        " [default: shared]"
    ),
)
@click.option("--ip", type=click.Choice(["4", "6", "both"]), help="Address family.  [default: 4]")
@click.option(
    "--mtu",
    type=int,
    metavar="BYTES",
    help="Of the wire between the nodes; with 'existing' what it has.  [default: 1500]",
)
@click.option(
    "--wire-offload",
    type=click.Choice(["none", "plain", "vxlan", "all"]),
    help="Which offloads the lab's wire has, as a NIC would.",
)
@click.option("--wire-rate", metavar="RATE", help="Limit of the lab's wire, 1G say.")
@click.option(
    "--kernel",
    metavar="auto|host|vm|PATH",
    help="This kernel, or a stock one in a VM (lab only).  [default: auto]",
)
@click.option(
    "--pairs",
    type=int,
    metavar="N",
    help="Pod pairs, measured at the same time, over more nodes where there are.  [default: 1]",
)
@click.option("--no-perf", is_flag=True, help="Speed only, no cycles per packet.")
@click.option(
    "--set", "settings", multiple=True, metavar="[LABEL:]KEY=VALUE", help="A setting of a profile."
)
@click.option("--seed", type=int, metavar="N", help="Of the order of the cells.")
@click.option(
    "--plan",
    metavar="FILE|STUDY",
    help="A plan file, or the name of a shipped study; other options override its keys.",
)
@click.option(
    "--scale",
    type=float,
    metavar="S",
    help="Windows, repeats and request counts times S, as far as verdicts allow.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("runs"),
    show_default=True,
    help="Where run directories are made.",
)
@click.option("--name", "title", metavar="LABEL", help="A name for this run.")
@click.option("--keep", is_flag=True, help="Leave what was installed where it is (clusters only).")
@click.option(
    "--dry-run",
    is_flag=True,
    help="Show what would be measured, how long it takes and how much it sends.",
)
@click.option("--resume", metavar="RUN", help="Measure what an interrupted run is missing.")
@click.option(
    "--retry-failed",
    is_flag=True,
    help="With --resume: measure the samples again that failed; the last attempt counts.",
)
@cluster_options
@json_option
@gathered(PlanOptions, "options")
def command(
    options: PlanOptions,
    cluster_options: ClusterOptions,
    out: Path,
    resume: str | None,
    retry_failed: bool,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Measure CNI profiles and compare them.

    Every requirement is checked before anything starts. Results go to a run directory, and the
    report is printed at the end.
    """
    log.keep()
    if resume:
        values = {**asdict(options), **asdict(cluster_options)}
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
    if not options.cni and not options.plan:
        raise UsageError(
            "no profile was named", "name one with --cni NAME; 'cnibench profiles' lists them"
        )
    from cnibench.cli import _kernel
    from cnibench.cli._plan import at_scale, plan_of, suited
    from cnibench.cli._preview import expect, preview, show
    from cnibench.cli._request import prepare, profile_problems
    from cnibench.planning.blocks import Here, words

    plan, given_up = suited(plan_of(options), options)
    if options.scale is not None:
        plan, shortened = at_scale(plan, options.scale)
        given_up += shortened
    vm = _kernel.decide(
        options.kernel or "auto",
        plan.cluster,
        lambda: profile_problems(plan),
        whatever_runs=set(plan.cni) == {"all"},
    )
    if vm is not None:
        plan, shortened = vm.shortened(plan, options)
        given_up += shortened
    here = Here(out, plan.cluster, *(("vm", vm.kernel.release) if vm else ()))
    request = prepare(
        plan,
        name=options.title or "",
        extra=cluster_options.extra(options.keep),
        other_kernel=vm is not None,
        notes=given_up,
        here=here,
    )
    for line in (*request.manifest.notes, *words(request.manifest.planned)):
        _log.info("planned: %s", line)
    for line in preview(request):
        click.echo(line, err=True)
    if dry_run:
        show(request, as_json)
        return 0
    for line in given_up:
        click.echo(line, err=True)
    if options.plan:
        expect(request)
    for warning in (
        *request.warnings,
        *(
            f"{one.label} is not measured: {one.lacks}; {one.remedy}"
            for one in request.manifest.unsupported
        ),
    ):
        click.echo(f"warning: {warning}", err=True)
    from cnibench.cli._carry_out import carry_out, tools_of

    path = (out / request.manifest.id).absolute()
    status = (
        carry_out(request, path, resume=False)
        if vm is None
        else _kernel.start(vm, request.manifest, path, tools_of(request))
    )
    return _report(path, status, as_json)


def _resume(name: str, out: Path, as_json: bool, retry_failed: bool) -> int:
    from cnibench.cli import _kernel
    from cnibench.cli._carry_out import carry_out
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
