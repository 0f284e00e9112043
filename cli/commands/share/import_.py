"""Import results of other tools as a run."""

from __future__ import annotations

from pathlib import Path

import click

from cnibench.cli import completion
from cnibench.cli.options.shared import new_run_option
from cnibench.cli.output.printing import json_option, print_json
from cnibench.errors import InputError, UsageError


@click.command(
    "import",
    epilog=(
        "\b\nExamples:\n  cnibench import iperf3 result.json --label flannel --placement inter\n"
    ),
)
@click.argument("form", metavar="FORMAT", shell_complete=completion.importers)
@click.argument("path", type=click.Path(path_type=Path))
@new_run_option
@click.option("--name", default="", metavar="LABEL", help="Name of this run.")
@click.option(
    "--label",
    default="",
    metavar="LABEL",
    help="Profile that all results belong to.  [default: by their folders]",
)
@click.option(
    "--placement",
    type=click.Choice(["intra", "inter"]),
    help="Placement of client and server, if the files do not contain it.",
)
@click.option(
    "--workload",
    default="",
    metavar="NAME",
    help="Test of netperf, if the files do not contain it (-P 0): tcp-stream, tcp-rr, ...",
)
@click.option(
    "--unit",
    default="",
    metavar="LETTER",
    help="Unit of netperf's figures (its option -f), if the files do not contain it.",
)
@click.option(
    "--fact",
    "facts",
    multiple=True,
    metavar="KEY=VALUE",
    help="Known fact of the environment: wire=nic, kernel=5.15.0, ...",
)
@json_option
def command(
    form: str,
    path: Path,
    folder: Path,
    name: str,
    label: str,
    placement: str | None,
    workload: str,
    unit: str,
    facts: tuple[str, ...],
    as_json: bool,
) -> None:
    """Import results of other tools as a run.

    FORMAT is cilium-perf, infrabuilder, iperf3, k8s-netperf, knb, netperf,
    perf-tests, tiger-bench or traffic-flow-tests; PATH is a file or a folder.
    Results in a folder PROFILE/... get the label PROFILE. Facts that the files do not contain are
    shown as 'not recorded'. Tests that were not run are listed as such; they are no failures. The
    commands report, compare, claims, site and query accept imported runs.
    """
    import shlex
    import sys

    from cnibench.importers.batch import Given
    from cnibench.importers.writer import write
    from cnibench.model.units import plural
    from cnibench.registry import provider
    from cnibench.rundir.reader import RunReader

    if not path.exists():  # else the readers ask for options first
        raise InputError(f"{path}: No such file or directory", "check the path")
    known = _facts(facts)
    given = Given(label=label, placement=placement or "", workload=workload, unit=unit)
    batch = provider("importers", form).read(path, given)
    command_line = (
        ["cnibench", *sys.argv[1:]]
        if sys.argv[1:2] == ["import"]
        else ["cnibench", "import", form, str(path)]
    )
    made = write(batch, folder, form, command_line, name=name, facts=known)
    reader = RunReader(made)
    failed = sum(not result.figures for result in batch.results)
    if as_json:
        labels = list(reader.plan.profiles)
        counts = {"results": len(batch.results), "failed": failed, "not_run": len(batch.not_run)}
        print_json(
            {
                "schema": 1,
                "run": reader.id,
                "path": str(made),
                "profiles": labels,
                **counts,
                "notes": reader.plan.notes,
            }
        )
        return
    skipped = f", {len(batch.not_run)} not run" if batch.not_run else ""
    results = plural(len(batch.results), "result")
    profiles = plural(len(reader.plan.profiles), "profile")
    click.echo(f"{results} of {profiles} ({failed} failed{skipped}): {made}")
    for note in reader.plan.notes:
        click.echo(f"note: {note}")
    click.echo(f"next: cnibench report {shlex.quote(str(made))}")


def _facts(given: tuple[str, ...]) -> dict[str, str]:
    from cnibench.importers.writer import FACTS

    found = {}
    for entry in given:
        key, equals, value = entry.partition("=")
        if not equals or not value or key not in FACTS:
            raise UsageError(
                f"'{entry}' is not KEY=VALUE of the environment",
                f"the keys are: {', '.join(FACTS)}",
            )
        found[key] = value
    return found
