"""Measure false positives and noise by comparing a profile with itself (A/A)."""

from __future__ import annotations

from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace as replace_fields

from cnibench.cli import completion
from cnibench.cli.options.cluster import SECTIONS, cluster_options
from cnibench.cli.options.sections import Sections
from cnibench.cli.options.shared import kind_option, method_option, new_run_option, seed_option
from cnibench.cli.output.printing import json_option, print_json
from cnibench.errors import UsageError
from cnibench.system import log
from cnibench.testbed.cluster_options import ClusterOptions

if TYPE_CHECKING:
    from cnibench.cli.measurement.request import Request


@click.command(
    "calibrate",
    cls=Sections,
    sections={"Options": (), **SECTIONS},
    epilog="\b\nExamples:\n  cnibench calibrate --rounds 20 --resolution 2%\n",
)
@click.option(
    "--cni",
    multiple=True,
    metavar="NAME",
    shell_complete=completion.profiles,
    help="One profile, or two that must be equal.  [default: veth-baseline]",
)
@click.option(
    "--rounds",
    type=click.IntRange(1, 1000),
    default=20,
    metavar="N",
    show_default=True,
    help="A/A comparisons of 6 blocks each, for each placement and workload.",
)
@click.option(
    "--blocks",
    type=click.IntRange(1, 100),
    metavar="N",
    help="Blocks of each deployment, before both are deployed again.  [default: 2; windows 6]",
)
@kind_option
@click.option(
    "--workload",
    multiple=True,
    metavar="LIST",
    shell_complete=completion.workloads,
    help="Workloads to run.  [default: tcp-stream,tcp-rr]",
)
@click.option(
    "--placement",
    multiple=True,
    metavar="LIST",
    shell_complete=completion.placements,
    help="Placements of the Pods: intra, inter.  [default: intra]",
)
@click.option(
    "--cpus",
    default="shared",
    show_default=True,
    metavar="LIST",
    help="CPU pinnings to test: split, shared, none.",
)
@method_option
@click.option(
    "--duration",
    metavar="LIST",
    help="Durations to test.  [default: 1s of windows, 0.4s of slices]",
)
@click.option("--warmup", metavar="TIME", help="Warm-up before each window.  [default: 200ms]")
@click.option(
    "--resolution",
    default="2%",
    show_default=True,
    metavar="PERCENT",
    help="Smallest relevant difference.",
)
@seed_option
@new_run_option
@cluster_options()
@json_option
def command(
    cni: tuple[str, ...],
    rounds: int,
    blocks: int | None,
    cluster: str | None,
    workload: tuple[str, ...],
    placement: tuple[str, ...],
    cpus: str,
    method: str | None,
    duration: str | None,
    warmup: str | None,
    resolution: str,
    seed: int | None,
    folder: Path,
    as_json: bool,
    cluster_options: ClusterOptions,
) -> int:
    """Measure false positives and noise by comparing a profile with itself (A/A).

    Runs one profile under two labels (or two profiles that must be equal), deploys both repeatedly,
    and measures some blocks on each deployment. Reports the false positive rate with its confidence
    interval, the noise floor of each workload and CPU pinning, how much of it comes from
    deployments, from the blocks of one deployment and from the slices of one block, and the blocks,
    duration and pinning that a resolution requires.

    The runs are stored in --folder. 'cnibench run --blocks auto' uses the noise of the newest
    calibration that applies. 'cnibench run --resume' continues an interrupted one.
    """
    from cnibench.analysis.calibration import calibration
    from cnibench.cli.measurement.calibration import show, store
    from cnibench.cli.measurement.execute import carry_out
    from cnibench.cli.measurement.plan import plan_of, with_usual_method
    from cnibench.cli.measurement.request import cluster_of, prepare
    from cnibench.cli.options.plan import PlanOptions
    from cnibench.model.units import fraction
    from cnibench.planning.method import MEASURED
    from cnibench.rundir.reader import RunReader

    wished = fraction(resolution)
    if not 0 < wished < 1:
        raise UsageError(
            f"--resolution must be between 0 and 100 %, not {resolution}", "write --resolution 2%"
        )
    labels = _labels(cni)
    wanted = PlanOptions(cluster=cluster, method=method)
    usual = with_usual_method(plan_of(wanted), wanted).method
    durations = duration or ("1s" if usual == "windows" else f"{MEASURED:g}s")
    paths, status = [], 0
    for mode, seconds in product(_list(cpus), _list(durations)):
        log.keep()
        asked = PlanOptions(
            cni=tuple(labels),
            cluster=cluster,
            workload=workload,
            placement=placement or ("intra",),
            cpus=mode,
            method=usual,
            duration=seconds,
            warmup=warmup or "200ms",
            blocks="1",
            seed=seed,
            no_perf=True,
        )
        plan = plan_of(asked)
        request = prepare(
            plan, cluster_of(plan, cluster_options), name=f"calibrate-{mode}-{seconds}"
        )
        request = _with_deployments(request, rounds, blocks, wished)
        path = (folder / request.manifest.id).absolute()
        ended = carry_out(request, path, resume=False)
        if ended not in (0, 1):
            return ended
        store(path)  # at once: the next run may be interrupted
        status = max(status, ended)
        paths.append(path)
    found = calibration([RunReader(path) for path in paths], wished)
    if as_json:
        print_json({"schema": 1, **asdict(found), "runs": [str(path) for path in paths]})
    else:
        show(found)
    return status


def _labels(cni: tuple[str, ...]) -> tuple[str, ...]:
    """Two labels: of one profile, or of the two named."""
    from cnibench.model.profile import choose

    given = cni or ("veth-baseline",)
    names = list(choose(given))
    if len(names) == 1:
        name = _list(given[0])[0].partition("=")[2] or _list(given[0])[0]
        return (f"{names[0]}.a={name}", f"{names[0]}.b={name}")
    if len(names) != 2:
        raise UsageError(
            f"--cni names {len(names)} profiles", "name one, or two that must be equal"
        )
    return given


def _list(text: str) -> list[str]:
    found = [part.strip() for part in text.split(",") if part.strip()]
    if not found:
        raise UsageError(
            f"'{text}' names nothing", "'cnibench calibrate --help' says what each option takes"
        )
    return found


def _with_deployments(
    request: Request, rounds: int, blocks: int | None, resolution: float
) -> Request:
    """The request with its blocks and deployments. ``cnibench run`` deploys each block of slices
    again, and keeps the deployment of windows in the lab for all blocks: 6 blocks are 6 deployments
    there, and one here. Windows on a cluster that has one profile at a time are deployed again for
    each block.
    """
    from cnibench.analysis.calibration import LEAST, SLICED
    from cnibench.stats.power import MOST_BLOCKS

    sliced = any(cell.method == "slices" for cell in request.manifest.cells)
    together = request.cluster.simultaneous or sliced
    if together:
        kept = blocks or (SLICED if sliced else LEAST)
    elif blocks in (None, 1):
        kept = 1
    else:
        raise UsageError(
            f"--cluster {request.manifest.cluster} deploys the profiles again for each"
            f" block, so a deployment cannot have {blocks} blocks",
            "leave --blocks out, or use --cluster lab or --method slices",
        )
    if together and not sliced and kept < LEAST:
        raise UsageError(
            f"--blocks {kept}: a comparison in windows needs {LEAST} blocks of one deployment",
            f"use --blocks {LEAST} or more, or --method slices",
        )
    whole = rounds * kept * (LEAST if sliced or not together else 1)
    if whole > MOST_BLOCKS:
        raise UsageError(
            f"--rounds {rounds} takes {whole} blocks, and a run has at most {MOST_BLOCKS}",
            f"use --rounds {rounds * MOST_BLOCKS // whole} or fewer",
        )
    manifest = replace_fields(
        request.manifest,
        blocks=whole,
        deployment_blocks=kept if together else 0,
        calibrates=resolution,
        plan={**request.manifest.plan, "blocks": whole},
    )
    return replace(request, manifest=manifest)
