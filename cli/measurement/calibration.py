"""A calibration: stored beside its samples, and as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cnibench.cli.output.printing import print_json, print_table
from cnibench.errors import CnibenchError

if TYPE_CHECKING:
    from cnibench.analysis.calibration import Calibration, Floor, Part


def store(path: Path) -> Calibration:
    """Writes what one complete run of ``calibrate`` found into its folder."""
    from cnibench.analysis.calibration import calibration
    from cnibench.rundir.reader import RunReader
    from cnibench.rundir.writer import RunWriter

    reader = RunReader(path)
    found = calibration([reader], reader.plan.calibrates)
    with RunWriter.resume(path) as writer:
        writer.calibration({"schema": 1, **asdict(found)})
    return found


def answer(path: Path, status: int, *, measured: bool, as_json: bool, quiet: bool) -> int:
    """What ``calibrate`` itself stores and prints, for a run of it that was resumed. ``measured``:
    there is more than at the last time.
    """
    from cnibench.analysis.calibration import calibration
    from cnibench.rundir.reader import RunReader
    from cnibench.rundir.schema import CALIBRATION

    reader = RunReader(path)
    if measured or CALIBRATION not in reader.chain.documents():
        found = store(path)
    else:
        found = calibration([reader], reader.plan.calibrates)
    if as_json:
        print_json({"schema": 1, **asdict(found), "runs": [str(path)]})
    elif quiet:
        click.echo(str(path))
    else:
        show(found)
    return status


def show(found: Calibration) -> None:
    """Prints it. Raises CnibenchError when there is nothing to show."""
    if not found.floors or found.rate is None:
        raise CnibenchError(
            "too few samples succeeded to compare anything",
            "'cnibench runs show last' says what failed",
        )
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
    _show_spread(found.floors)
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
        click.echo(f"best of what was measured: {line}")
    for one in found.floors:
        click.echo(f"{one.workload} {one.placement} {one.cpus}: {one.advice}")


def _ratio(one: Floor) -> str:
    return f"{one.ratio:.4f}" + (
        "" if one.low is None or one.high is None else f" [{one.low:.4f}, {one.high:.4f}]"
    )


def _count(blocks: int | None) -> str:
    return "too many" if blocks is None else str(blocks)


def _show_spread(floors: Sequence[Floor]) -> None:
    heads = (
        "workload",
        "placement",
        "CPUs",
        "method",
        "between deployments",
        "between blocks",
        "slices of a block",
        "one slice",
        "deployments / blocks / slices",
    )
    rows = [
        (
            one.workload,
            one.placement,
            one.cpus,
            f"{one.method} {one.duration:g} s",
            _part(one.spread.deployments),
            _part(one.spread.blocks),
            _part(one.spread.slices),
            "-" if one.spread.one_slice is None else f"{one.spread.one_slice:.2%}",
            f"{one.spread.deployments_measured} / {one.spread.blocks_measured} /"
            f" {one.spread.slices_each or '-'}",
        )
        for one in floors
    ]
    print_table(heads, rows, "What the noise consists of (standard deviation, 95 % interval)")
    notes = {
        f"{one.workload} {one.placement} {one.cpus} {one.duration:g} s": one.spread.notes
        for one in floors
    }
    for note in dict.fromkeys(note for lines in notes.values() for note in lines):
        where = [place for place, lines in notes.items() if note in lines]
        click.echo(f"{', '.join(where)}: {note}" if len(where) < len(notes) else note)


def _part(part: Part | None) -> str:
    if part is None:
        return "-"
    return f"{part.sd:.2%} [{part.low:.2%}, {part.high:.2%}]"
