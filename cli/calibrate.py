"""Measure false positives and noise by comparing a profile with itself (A/A)."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cnibench.cli import _complete
from cnibench.cli._cluster_options import SECTIONS, cluster_options
from cnibench.cli._options import kind_option, method_option, out_option, seed_option
from cnibench.cli._output import json_option, print_json, print_table
from cnibench.cli._sections import Sections
from cnibench.errors import CnibenchError, UsageError
from cnibench.system import log
from cnibench.testbed.cluster_options import ClusterOptions

if TYPE_CHECKING:
    from cnibench.analysis.calibration import Calibration, Floor


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
    shell_complete=_complete.profiles,
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
@kind_option
@click.option(
    "--workload",
    multiple=True,
    metavar="LIST",
    shell_complete=_complete.workloads,
    help="Workloads to run.  [default: tcp-stream,tcp-rr]",
)
@click.option(
    "--placement",
    multiple=True,
    metavar="LIST",
    shell_complete=_complete.placements,
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
    help="Durations to test.  [default: 1s of windows, 0.25s of slices]",
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
@out_option
@cluster_options()
@json_option
def command(
    cni: tuple[str, ...],
    rounds: int,
    cluster: str | None,
    workload: tuple[str, ...],
    placement: tuple[str, ...],
    cpus: str,
    method: str | None,
    duration: str | None,
    warmup: str | None,
    resolution: str,
    seed: int | None,
    out: Path,
    as_json: bool,
    cluster_options: ClusterOptions,
) -> int:
    """Measure false positives and noise by comparing a profile with itself (A/A).

    Runs one profile under two labels (or two profiles that must be equal) as 'cnibench run' does.
    Reports the false positive rate with its confidence interval, the noise floor of each workload
    and CPU pinning, and the blocks, duration and pinning that a resolution requires.

    The runs are stored in --out. 'cnibench run --blocks auto' uses the noise of the newest
    calibration that applies.
    """
    from cnibench.analysis.calibration import ROUND, calibration
    from cnibench.cli._execute import carry_out
    from cnibench.cli._plan import plan_of, with_usual_method
    from cnibench.cli._plan_options import PlanOptions
    from cnibench.cli._request import prepare
    from cnibench.model.units import fraction
    from cnibench.planning.method import MEASURED
    from cnibench.rundir.reader import RunReader
    from cnibench.rundir.writer import RunWriter

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
            blocks=str(ROUND * rounds),
            seed=seed,
            no_perf=True,
        )
        request = prepare(
            plan_of(asked), name=f"calibrate-{mode}-{seconds}", cluster_options=cluster_options
        )
        path = (out / request.manifest.id).absolute()
        ended = carry_out(request, path, resume=False)
        if ended not in (0, 1):
            return ended
        status = max(status, ended)
        paths.append(path)
    readers = [RunReader(path) for path in paths]
    found = calibration(readers, wished)
    for reader in readers:
        with RunWriter.resume(reader.path) as writer:
            writer.calibration({"schema": 1, **_document(calibration([reader], wished))})
    if as_json:
        print_json({"schema": 1, **_document(found), "runs": [str(path) for path in paths]})
    else:
        _show(found)
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
        raise UsageError(f"--cni names {len(names)} profiles", "name one, or two that must tie")
    return given


def _list(text: str) -> list[str]:
    found = [part.strip() for part in text.split(",") if part.strip()]
    if not found:
        raise UsageError(
            f"'{text}' names nothing", "'cnibench calibrate --help' says what each option takes"
        )
    return found


def _document(found: Calibration) -> dict[str, object]:
    import dataclasses

    return dataclasses.asdict(found)


def _show(found: Calibration) -> None:
    if not found.floors or found.rate is None:
        raise CnibenchError("nothing was measured", "'cnibench runs show last' says what failed")
    heads = (
        "workload",
        "placement",
        "CPUs",
        "method",
        "metric",
        "n",
        "noise",
        "a / b",
        "false alarms",
        "blocks of 2",
        "blocks of 10",
    )
    rows = [
        (
            one.workload,
            one.placement,
            one.cpus,
            f"{one.method} {one.duration:g} s",
            one.metric,
            str(one.n),
            f"{one.noise:.2%}",
            _ratio(one),
            f"{one.alarms} of {one.rounds}",
            _count(one.blocks),
            _count(one.blocks_ten),
        )
        for one in found.floors
    ]
    print_table(heads, rows)
    click.echo(
        f"false alarms: {found.alarms} of {found.comparisons} comparisons = {found.rate:.1%} (95 %"
        f" interval {found.low:.1%} to {found.high:.1%}); by construction {found.expected:.1%},"
        " promised at most 5 %"
    )
    click.echo(
        f"blocks: to find a difference of {100 * found.resolution:.3g} % with a power of 80 % in a"
        " run of 2 or of 10 profiles"
    )
    for one in found.floors:
        if one.dependence_p is not None and one.dependence_p <= 0.05 / len(found.floors):
            click.echo(
                f"{one.workload} {one.placement} {one.cpus}: neighbouring blocks depend on each"
                f" other (p={one.dependence_p:.2g})"
            )
    for line in found.recommended:
        click.echo(f"recommended: {line}")


def _ratio(one: Floor) -> str:
    return f"{one.ratio:.4f}" + (
        "" if one.low is None or one.high is None else f" [{one.low:.4f}, {one.high:.4f}]"
    )


def _count(blocks: int | None) -> str:
    return "too many" if blocks is None else str(blocks)
