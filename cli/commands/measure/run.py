"""Measure CNI profiles and compare them."""

from __future__ import annotations

import logging
from dataclasses import asdict
from functools import partial
from pathlib import Path

import click

from cnibench.cli import completion
from cnibench.cli.options.cluster import LAB, SECTIONS, cluster_options
from cnibench.cli.options.plan import PlanOptions
from cnibench.cli.options.sections import Sections
from cnibench.cli.options.shared import (
    gathered,
    kind_option,
    method_option,
    new_run_option,
    seed_option,
)
from cnibench.cli.output.printing import json_option
from cnibench.errors import NoSlicesError, UsageError
from cnibench.model.units import seconds
from cnibench.system import log
from cnibench.system.files import check_relative
from cnibench.system.guest import inside
from cnibench.testbed.cluster_options import ClusterOptions

_log = logging.getLogger(__name__)

_SECTIONS = {
    "Common options": (
        "cni",
        "cluster",
        "placement",
        "workload",
        "plan",
        "dry_run",
        "resume",
        "retry_failed",
        "folder",
        "title",
        "fact",
        "quiet",
        "as_json",
    ),
    "What is measured": ("path", "proxy", "ip", "mtu", "pairs", "settings", "no_perf"),
    "How it is measured": (
        "method",
        "duration",
        "warmup",
        "cpus",
        "priority",
        "congestion_control",
        "wait_quiet",
    ),
    "How often it is measured": (
        "blocks",
        "budget",
        "resolution",
        "noise",
        "target_ci",
        "max_blocks",
        "scale",
        "seed",
    ),
    "Lab": ("kernel", "wire_offload", "wire_rate"),
    **SECTIONS,
}


@click.command(
    "run",
    cls=Sections,
    sections=_SECTIONS,
    epilog=(
        "\b\nExamples:\n"
        "  cnibench run --cni flannel,cilium\n"
        "  cnibench run --cni 'calico-*' --workload tcp-rr --dry-run\n"
        "  cnibench run --cluster kind --cni flannel --cni cilium\n"
        "  cnibench run --resume last --retry-failed\n"
        '  cnibench site "$(cnibench run --cni flannel,cilium --quiet)" --out public\n'
    ),
)
@click.option(
    "--cni",
    multiple=True,
    metavar="NAME",
    shell_complete=completion.to_measure,
    help=(
        "Profiles to measure, separated by commas: names, shell patterns, files, LABEL=NAME or"
        " 'all'. Repeatable."
    ),
)
@kind_option
@LAB
@click.option(
    "--placement",
    multiple=True,
    metavar="LIST",
    shell_complete=completion.placements,
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
    "--proxy",
    multiple=True,
    metavar="LIST",
    shell_complete=completion.proxies,
    help=(
        "How Services are implemented: iptables, nftables, ipvs, ebpf, none; several are compared. "
        " [default: as usual for each profile]"
    ),
)
@click.option(
    "--workload",
    multiple=True,
    metavar="LIST",
    shell_complete=completion.workloads,
    help="Workloads: NAME or NAME:KEY=VALUE:...  [default: tcp-stream,tcp-rr]",
)
@method_option
@click.option(
    "--duration",
    metavar="TIME",
    help="Length of each window, or of a cell's slices in a block.  [default: 10s; slices 0.4s]",
)
@click.option(
    "--warmup",
    metavar="TIME",
    help="Warm-up before each window, not counted.  [default: 2s; 0.2s with slices]",
)
@click.option(
    "--blocks",
    metavar="auto|N",
    help=(
        "Number of blocks; auto: as many as --resolution requires, fewer once every pair is"
        " decided.  [default: auto]"
    ),
)
@click.option(
    "--resolution",
    metavar="PERCENT",
    help=(
        "With --blocks auto: the smallest difference to detect; what is proven to differ by less"
        " counts as decided, too.  [default: 5%]"
    ),
)
@click.option(
    "--noise",
    metavar="RUN|PERCENT",
    help=(
        "With --blocks auto: noise to plan with.  [default: newest calibration in --folder,"
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
    "--budget",
    metavar="TIME",
    help="Start no block that would end more than TIME after the first one started; 0: no limit.",
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
    help="Segmentation offloads of the wire.",
)
@click.option("--wire-rate", metavar="RATE", help="Rate limit of the wire, for example 1G.")
@click.option(
    "--congestion-control",
    metavar="NAME",
    help=(
        "TCP congestion control, read back from the connections.  [default: cubic in the lab,"
        " elsewhere the Pods' own]"
    ),
)
@click.option(
    "--priority",
    type=click.Choice(["real-time", "normal"]),
    help=(
        "Scheduling priority of clients, servers and cnibench.  [default: real-time in slices,"
        " normal in windows]"
    ),
)
@click.option(
    "--kernel",
    metavar="auto|host|vm|PATH",
    help="Use this kernel, or a distribution kernel in a VM.  [default: auto]",
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
@seed_option
@click.option(
    "--plan",
    metavar="FILE|STUDY",
    shell_complete=completion.plans,
    help="Plan file, or the name of a built-in plan; other options override its keys.",
)
@click.option(
    "--scale",
    type=float,
    metavar="S",
    help="Scale windows, blocks and request counts by S (0 to 1), as far as verdicts allow.",
)
@new_run_option
@click.option("--name", "title", metavar="LABEL", help="Name of this run.")
@click.option(
    "--fact",
    multiple=True,
    metavar="KEY=VALUE",
    help=(
        "Record with the run, for example commit=1a2b3c4; 'report --trend' shows where it changed."
        " Repeatable."
    ),
)
@click.option("--keep", is_flag=True, help="Do not remove what was installed.")
@click.option(
    "--dry-run",
    is_flag=True,
    help="Only show what would be measured, the duration and the traffic.",
)
@click.option(
    "--resume", metavar="RUN", shell_complete=completion.runs, help="Continue an interrupted run."
)
@click.option(
    "--retry-failed",
    is_flag=True,
    help="With --resume: repeat failed samples; the last attempt counts.",
)
@click.option(
    "--wait-quiet",
    metavar="TIME",
    help="Wait up to TIME for other programs to leave the CPUs idle.",
)
@click.option(
    "-q",
    "--quiet",
    is_flag=True,
    help="Print only the path of the run directory, and warnings and errors on stderr.",
)
@cluster_options()
@json_option
@gathered(PlanOptions, "options")
def command(
    options: PlanOptions,
    cluster_options: ClusterOptions,
    folder: Path,
    resume: str | None,
    retry_failed: bool,
    dry_run: bool,
    wait_quiet: str | None,
    quiet: bool,
    as_json: bool,
) -> int:
    """Measure CNI profiles and compare them.

    Checks all requirements before anything starts. The results go to a run directory, and the
    report is printed at the end. With --quiet, the path of that directory is printed instead: every
    other command takes it as RUN. Its report.md has the report.
    """
    log.keep()
    limit = seconds(wait_quiet) if wait_quiet else 0.0
    if resume:
        values = {**asdict(options), **asdict(cluster_options)}
        given = [key for key, value in values.items() if value not in (None, (), False)]
        if given or dry_run:
            raise UsageError(
                "--resume takes the plan of the run;"
                f" --{(given or ['dry-run'])[0].replace('_', '-')} cannot change it",
                "leave it out",
            )
        return _resume(resume, folder, as_json, retry_failed, limit, quiet)
    if retry_failed:
        raise UsageError(
            "--retry-failed is for a run that is there", "cnibench run --resume RUN --retry-failed"
        )
    if not options.cni and not options.plan:
        raise UsageError(
            "no profile was named", "name one with --cni NAME; 'cnibench profiles' lists them"
        )
    check_relative(folder)  # before it is tried whether KVM runs a kernel, which takes up to 10 s
    from cnibench.cli.measurement import kernel_choice
    from cnibench.cli.measurement.plan import at_scale, facts_of, plan_of, suited, with_usual_method
    from cnibench.cli.measurement.preview import expect, preview, show, warn
    from cnibench.cli.measurement.request import cluster_of, prepare, profile_problems
    from cnibench.planning.blocks import words
    from cnibench.planning.calibrations import Here

    plan, given_up = suited(plan_of(options), options)
    if options.scale is not None:
        plan, shortened = at_scale(plan, options.scale)
        given_up += shortened
    cluster = cluster_of(plan, cluster_options, keep=options.keep)
    vm = kernel_choice.decide(
        options.kernel or "auto",
        plan.cluster,
        partial(profile_problems, plan, cluster),
        whatever_runs=set(plan.cni) == {"all"},
    )
    if vm is not None:
        plan, shortened = vm.suited(plan, options)
        given_up += shortened
        cluster = cluster_of(plan, cluster_options, keep=options.keep, room=vm.room)
    here = Here(folder, plan.cluster, *(("vm", vm.kernel.release) if vm else ()))
    prepared = partial(
        prepare,
        cluster=cluster,
        name=options.title or "",
        facts=facts_of(options.fact),
        other_kernel=vm is not None,
        here=here,
    )
    usual = plan if vm is not None else with_usual_method(plan, options)
    try:
        request = prepared(usual, notes=given_up)
    except NoSlicesError as error:
        if usual is plan or plan.priority == "real-time":  # which windows cannot have
            raise
        given_up.append(f"measured in windows, not in slices: {error.message}")
        request = prepared(plan, notes=given_up)
    for line in (*request.manifest.notes, *words(request.manifest.planned)):
        _log.info("planned: %s", line)
    before = preview(request)
    if not quiet:
        for line in before:
            click.echo(line, err=True)
    if dry_run:
        if vm is not None:
            kernel_choice.announce(vm, quiet)
        if as_json or not quiet:
            show(request, as_json)
        return 0
    if not quiet:
        for line in given_up:
            click.echo(line, err=True)
        if options.plan:
            expect(request)
    warn(request)
    from cnibench.cli.measurement.execute import carry_out, others, tools_of

    path = (folder / request.manifest.id).absolute()
    if vm is None:
        status = carry_out(request, path, resume=False, wait_quiet=limit, quiet=quiet)
    else:
        others(True, limit)  # here: in the VM no other programs are seen
        status = kernel_choice.start(vm, request.manifest, path, tools_of(request), quiet=quiet)
    return _report(path, status, as_json, quiet)


def _resume(
    name: str, folder: Path, as_json: bool, retry_failed: bool, wait_quiet: float, quiet: bool
) -> int:
    from cnibench.cli.measurement import kernel_choice
    from cnibench.cli.measurement.execute import carry_out, others
    from cnibench.cli.measurement.request import again
    from cnibench.rundir.index import find
    from cnibench.rundir.reader import RunReader
    from cnibench.rundir.writer import RunWriter

    path = find(name, folder).absolute()
    reader = RunReader(path)
    if reader.finished and not (
        retry_failed and len(reader.done(retry_failed=True)) < len(reader.done())
    ):
        if not quiet:
            click.echo(
                "nothing is missing: this run is complete" + ", no sample failed" * retry_failed,
                err=True,
            )
        if reader.unsealed:
            with RunWriter.resume(path):
                pass  # that writes the seal
        return _report(path, 0, as_json, quiet, more=False)
    if vm := kernel_choice.again(path):
        others(True, wait_quiet)  # here: in the VM no other programs are seen
        status = kernel_choice.carry(vm, path, retry_failed=retry_failed, quiet=quiet)
        return _report(path, status, as_json, quiet)
    request = again(reader.plan)
    for warning in request.warnings:
        click.echo(f"warning: {warning}", err=True)
    status = carry_out(
        request, path, resume=True, retry_failed=retry_failed, wait_quiet=wait_quiet, quiet=quiet
    )
    return (
        status if inside() else _report(path, status, as_json, quiet)
    )  # out of the VM, the report is the host's work


def _report(path: Path, status: int, as_json: bool, quiet: bool, *, more: bool = True) -> int:
    """Prints the comparison and writes it beside the samples; 1 when any sample of the run failed.
    Of a run of calibrate, the calibration. If ``quiet``, stderr says how many samples failed or
    were disturbed.
    """
    if status not in (0, 1):
        return status
    from cnibench.cli.measurement import calibration
    from cnibench.cli.measurement.results import show
    from cnibench.rundir.reader import RunReader

    if RunReader(path).plan.calibrates:
        return calibration.answer(path, status, measured=more, as_json=as_json, quiet=quiet)
    status = max(status, show(path, as_json, quiet))
    failed, disturbed, measured = set(), set(), set()
    for sample in RunReader(path).samples():
        measured.add((sample.cell, sample.block))
        if sample.status != "ok":
            failed.add((sample.cell, sample.block))
        if sample.disturbed:
            disturbed.add((sample.cell, sample.block))
    if quiet:
        for number, what in (
            (len(disturbed), "were disturbed and are not used"),
            (len(failed), "failed"),
        ):
            if number:
                said = f"{number} of {len(measured)} samples {what}; the report says why"
                click.echo(said, err=True)
    return 1 if failed else status
