"""Verify that a run directory or a bundle is complete and unchanged."""

from __future__ import annotations

from pathlib import Path

import click

from cnibench.cli import completion
from cnibench.cli.options.runs import one_run
from cnibench.cli.options.shared import folder_option
from cnibench.cli.output.printing import json_option, print_json
from cnibench.errors import UsageError
from cnibench.model.units import plural


@click.command(
    "verify",
    epilog=(
        "\b\nExamples:\n"
        "  cnibench verify\n"
        "  cnibench verify 20260101-120000-ab12.cnibench --signers allowed_signers\n"
    ),
)
@click.argument(
    "run", required=False, metavar="[RUN|BUNDLE]", shell_complete=completion.runs_or_files
)
@click.option(
    "--signers",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Require a signature by one of the allowed signers in FILE (format of ssh-keygen).",
)
@folder_option
@json_option
def command(run: str | None, signers: Path | None, folder: Path, as_json: bool) -> int:
    """Verify that a run directory, that of the last run by default, or a bundle is complete and
    unchanged.

    Recomputes every hash in the run's events: of the plan, the environment, all lines and all raw
    files. For a bundle, also checks the signature, computes every figure again from the samples,
    and checks that the description of the testbed is consistent.

    Exit status: 0 if nothing is wrong, 1 if something is lost, changed, duplicated, out of order or
    not chained, 2 if it is not a run or a bundle.
    """
    if run is not None and (
        Path(run).is_file() or (run.endswith(".cnibench") and not Path(run).is_dir())
    ):
        return _bundle(Path(run), signers, as_json)
    if signers is not None:
        raise UsageError("--signers applies to a bundle, not to a run directory", "name a bundle")
    from cnibench.rundir.verification import verify
    from cnibench.system.text import printable

    reader = one_run(run, folder)
    problems = verify(reader, raw=True)
    samples = len(reader.done())
    chain = reader.chain
    if as_json:
        print_json(
            {
                "schema": 1,
                "run": reader.id,
                "path": str(reader.path),
                "chained": chain.chained,
                "finished": reader.finished,
                "samples": samples,
                "events": chain.count,
                "last": chain.last,
                "problems": problems,
                "warnings": reader.warnings,
            }
        )
        return 1 if problems else 0
    for problem in problems:
        click.echo(f"problem: {printable(str(problem))}")
    for warning in reader.warnings:
        click.echo(f"warning: {printable(warning)}", err=True)
    name = printable(reader.id)
    state = (
        f"finished {printable(reader.finished)}"
        if reader.finished
        else "not finished: interrupted, or its end is missing"
    )
    click.echo(f"{name}: {plural(samples, 'sample')}, {plural(chain.count, 'event')}, {state}")
    if problems:
        click.echo(f"{name}: {plural(len(problems), 'problem')}")
    elif chain.chained:
        click.echo(
            f"{name}: nothing is missing, changed or duplicated; the last event is"
            f" {printable(chain.last)}"
        )
    else:
        click.echo(
            f"{name}: written by an older version without hash chain: changes cannot be detected"
        )
    return 1 if problems else 0


def _bundle(path: Path, signers: Path | None, as_json: bool) -> int:
    from cnibench.reports.bundle.verifying import verified
    from cnibench.system.text import printable

    with verified(path, signers) as (found, _, _):
        pass
    status = 1 if found.problems else 0
    if as_json:
        signer = found.signer
        print_json(
            {
                "schema": 1,
                "path": str(path),
                "run": found.run,
                "sha256": found.sha256,
                "origin": found.origin,
                "samples": found.samples,
                "figures": found.figures,
                "signer": signer
                and {"name": signer.name, "type": signer.kind, "fingerprint": signer.fingerprint},
                "problems": found.problems,
                "warnings": found.warnings,
            }
        )
        return status
    for problem in found.problems:
        click.echo(f"problem: {printable(problem)}")
    for warning in found.warnings:
        click.echo(f"warning: {printable(warning)}", err=True)
    name = printable(found.run)
    if found.problems:
        click.echo(f"{name}: {plural(len(found.problems), 'problem')}")
        return status
    signer = found.signer
    if signer is None:
        words = "not signed"
    elif signer.name:
        words = f"signed by {printable(signer.name)} ({signer.kind} {signer.fingerprint})"
    else:
        words = f"signed with {signer.kind} {signer.fingerprint}; --signers FILE checks the key"
    click.echo(f"{name}: {plural(found.samples, 'sample')}, {words}")
    click.echo(
        f"{name}: all {found.figures} figures follow from the samples; sha256 {found.sha256}"
    )
    click.echo(f"{name}: the last event of its run directory was {printable(found.origin)}")
    return status
