"""Repeat the figures of a published study, and draw them next to the published values."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cnibench.cli import completion
from cnibench.cli.options.shared import folder_option, seed_option
from cnibench.cli.output.integrity import first_lines
from cnibench.cli.output.printing import json_option, print_json, print_table
from cnibench.errors import UsageError
from cnibench.system import log

if TYPE_CHECKING:
    from cnibench.cli.measurement.kernel_choice import Machine
    from cnibench.cli.measurement.request import Request
    from cnibench.reports.reproduction.page import Page
    from cnibench.reproduction import Figure, Figures, Point


@click.command(
    "reproduce",
    epilog=(
        "\b\nExamples:\n"
        "  cnibench reproduce makowski2018\n"
        "  cnibench reproduce bruijn2017 --figure 7.2,7.4 --dry-run\n"
        "  cnibench reproduce qi2021 --run last\n"
    ),
)
@click.argument("study", shell_complete=completion.studies)
@click.option(
    "--figure",
    "numbers",
    multiple=True,
    metavar="LIST",
    shell_complete=completion.figures,
    help="Only these figures or tables, as the study numbers them; 10b: one panel.  [default: all]",
)
@click.option(
    "--run",
    metavar="RUN",
    shell_complete=completion.runs,
    help="Measure nothing, and use this run.",
)
@click.option(
    "--kernel",
    metavar="auto|host|vm|PATH",
    default="auto",
    help="Use this kernel, or a distribution kernel in a VM.  [default: auto]",
)
@seed_option
@click.option(
    "--dry-run", is_flag=True, help="Only show what would be measured, and how long it takes."
)
@folder_option
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Output directory of the pages.  [default: reproduced/RUN]",
)
@click.option(
    "--force", is_flag=True, help="Also replace edited pages and conflicting files of others."
)
@json_option
def command(
    study: str,
    numbers: tuple[str, ...],
    run: str | None,
    kernel: str,
    seed: int | None,
    dry_run: bool,
    folder: Path,
    out: Path | None,
    force: bool,
    as_json: bool,
) -> int:
    """Repeat the figures of a published study, and draw them next to the published values.

    STUDY is qi2021, bruijn2017 or makowski2018. A plan with fewer and shorter repeats measures the
    figures in the lab, within an hour on two cores for a whole study; the pages and the output say
    what it leaves out. Each figure is a page of Markdown with pictures: the measured medians
    with their intervals and the published values on the study's own axes, and the verdicts on the
    claims that belong to it.
    """
    from cnibench.reproduction import figures

    if out is not None:
        from cnibench.reports.site.publication.folder import check

        check(out)  # before an hour of measuring
    if any(not name.strip() for entry in numbers for name in entry.split(",")):
        raise UsageError("--figure has an empty name", "name figures, such as --figure 7.2,7.4")
    known = figures(study)
    chosen = known.chosen(
        tuple(name.strip() for entry in numbers for name in entry.split(",") if name.strip())
    )
    if run is not None:
        if dry_run:
            raise UsageError("--run measures nothing", "leave out --dry-run")
        from cnibench.rundir.index import find

        return _show(known, chosen, find(run, folder), out, force, as_json)
    if not any(figure.panels for figure in chosen):
        if dry_run:
            _nothing(chosen, as_json)
            return 0
        return _show(known, chosen, None, out, force, as_json)
    return _measure(known, chosen, kernel, seed, dry_run, folder, out, force, as_json)


def _nothing(chosen: tuple[Figure, ...], as_json: bool) -> None:
    """What --dry-run says of tables of properties."""
    notes = [f"{figure.called}: {figure.missing}" for figure in chosen]
    if as_json:
        print_json({"schema": 1, "cells": [], "samples": 0, "seconds": 0.0, "notes": notes})
        return
    click.echo("nothing is measured")
    for note in notes:
        click.echo(f"note: {note}")


def _measure(
    known: Figures,
    chosen: tuple[Figure, ...],
    kernel: str,
    seed: int | None,
    dry_run: bool,
    folder: Path,
    out: Path | None,
    force: bool,
    as_json: bool,
) -> int:
    from cnibench.cli.measurement import kernel_choice
    from cnibench.cli.measurement.execute import carry_out, tools_of
    from cnibench.cli.measurement.preview import show, warn

    log.keep()
    request, vm = _request(known, chosen, kernel, seed, folder)
    if dry_run:
        if vm is not None:
            kernel_choice.announce(vm)
        show(request, as_json)
        return 0
    for line in request.manifest.notes:
        if line not in request.warnings:
            click.echo(line, err=True)
    warn(request)
    path = (folder / request.manifest.id).absolute()
    if vm is None:
        status = carry_out(request, path, resume=False)
    else:
        status = kernel_choice.start(vm, request.manifest, path, tools_of(request))
    if status not in (0, 1):
        return status
    return max(status, _show(known, chosen, path, out, force, as_json))


def _request(
    known: Figures, chosen: tuple[Figure, ...], kernel: str, seed: int | None, folder: Path
) -> tuple[Request, Machine | None]:
    """The run of the reduced plan, and the VM that it goes to if any. What the kernel of this
    machine lacks is left out where a VM could only be emulated.
    """
    from cnibench.cli.measurement import kernel_choice
    from cnibench.cli.measurement.request import cluster_of, prepare, profile_problems
    from cnibench.errors import NoSlicesError
    from cnibench.planning.calibrations import Here
    from cnibench.planning.plans import named
    from cnibench.reproduction import reduced

    plan, notes = reduced(known, chosen, named(known.name))
    assert plan is not None  # a chosen figure has panels
    if seed is not None:
        plan = plan.model_copy(update={"seed": seed})
    cluster = cluster_of(plan)
    vm = kernel_choice.decide(
        kernel, plan.cluster, partial(profile_problems, plan, cluster), whatever_runs=True
    )
    prepared = partial(
        prepare,
        cluster=cluster,
        other_kernel=vm is not None,
        here=Here(folder, plan.cluster, *(("vm", vm.kernel.release) if vm else ())),
    )
    said = [f"less than {known.name}: {note}" for note in notes]
    if vm is None:
        try:
            return prepared(plan, notes=said), vm
        except NoSlicesError as error:
            said.append(f"measured in windows, not in slices: {error.message}")
    windows = plan.model_copy(update={"method": "windows"})
    return prepared(windows, notes=said), vm


def _show(
    known: Figures,
    chosen: tuple[Figure, ...],
    path: Path | None,
    out: Path | None,
    force: bool,
    as_json: bool,
) -> int:
    """Writes the pages and says where they are; 1 when the run directory is damaged."""
    from cnibench.analysis import analyse
    from cnibench.reports.reproduction.build import build, measured, verdicts
    from cnibench.rundir.reader import RunReader
    from cnibench.system.text import printable

    reader = RunReader(path) if path else None
    analysis = analyse([reader]) if reader else None
    notes = reader.plan.notes if reader else []
    problems = [printable(problem) for problem in analysis.problems] if analysis else []
    status = first_lines(problems, err=as_json)
    target = out or Path("reproduced") / (path.name if path else known.name)
    pages, kept = build(known, chosen, analysis, notes, target, force=force)
    for name in kept:
        click.echo(
            f"warning: {target / name}: was edited since cnibench wrote it, and is kept; --force"
            " replaces it",
            err=True,
        )
    if as_json:
        print_json(
            {
                "schema": 1,
                "problems": problems,
                "study": known.name,
                "run": analysis.run.id if analysis else None,
                "out": str(target),
                "notes": notes,
                "figures": [_figure(one) for one in pages],
            }
        )
        return status
    rows = [
        (one.figure.called, one.figure.title, measured(one), verdicts(one), one.file)
        for one in pages
    ]
    print_table(("figure", "", "points measured", "claims", "page"), rows, known.name)
    click.echo(f"pages: {printable(str(target))}")
    return status


def _figure(one: Page) -> dict[str, object]:
    return {
        "number": one.figure.number,
        "title": one.figure.title,
        "file": one.file,
        "missing": one.figure.missing,
        "panels": [
            {
                "title": panel.title,
                "metric": panel.metric,
                "unit": panel.unit,
                "points": [_point(value) for value in values],
            }
            for panel, values in one.panels
        ],
        "claims": one.verdicts,
    }


def _point(one: Point) -> dict[str, object]:
    from msgspec.structs import asdict

    return {**asdict(one), "published": one.published.model_dump() if one.published else None}
