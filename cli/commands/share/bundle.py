"""Write a run as one file that can be published and verified."""

from __future__ import annotations

from pathlib import Path

import click

from cnibench.cli.options.runs import one_run, run_argument
from cnibench.cli.options.shared import folder_option
from cnibench.cli.output.printing import json_option, print_json


@click.command(
    "bundle",
    epilog=(
        "\b\nExamples:\n"
        "  cnibench bundle\n"
        "  cnibench bundle last --sign ~/.ssh/id_ed25519 --out results/my-testbed\n"
    ),
)
@run_argument
@click.option(
    "--sign",
    "key",
    type=click.Path(path_type=Path),
    metavar="KEY",
    help="Sign with this ssh key; a public key if ssh-agent has the private one.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="File *.cnibench, or directory for it.  [default: RUN-ID.cnibench]",
)
@folder_option
@json_option
def command(
    run: str | None, key: Path | None, out: Path | None, folder: Path, as_json: bool
) -> int:
    """Write a run, the last one by default, as one file that can be published and verified.

    The bundle contains the plan, the environment, the samples and their chain of hashes, and the
    figures. Names of machines and users, addresses and home folders are replaced by pseudonyms; raw
    output is left out. 'cnibench verify BUNDLE' recomputes all of it.

    Nothing is overwritten unless it is the same bundle.
    """
    from cnibench.cli.output.file import write
    from cnibench.errors import UsageError
    from cnibench.reports.bundle import container
    from cnibench.reports.bundle.making import bundle
    from cnibench.rundir.chain import digest
    from cnibench.system.text import printable

    reader = one_run(run, folder)
    content = bundle(reader, key)
    path = _path(out, f"{container.safe_name(reader.id)}{container.SUFFIX}")
    if path.exists() and container.read(path) != content:
        raise UsageError(
            f"{path}: already exists, and is a different file", "name another with --out"
        )
    write(path, content)
    seal, sizes = container.summary(path, content)
    if as_json:
        print_json(
            {
                "schema": 1,
                "run": reader.id,
                "path": str(path),
                "bytes": len(content),
                "sha256": seal.sha256,
                "file_sha256": digest(content),
                "signed": bool(seal.signature),
                "files": sizes,
            }
        )
        return 0
    click.echo(
        f"{printable(str(path))}: {len(content):,} bytes, {'signed' if key else 'not signed'};"
        f" sha256 {seal.sha256}"
    )
    return 0


def _path(out: Path | None, name: str) -> Path:
    """Where the bundle goes. Whatever does not end like a bundle is its directory, which is
    created. Raises OutputError when that fails.
    """
    from cnibench.errors import OutputError
    from cnibench.reports.bundle.container import SUFFIX

    if out is None or (out.suffix == SUFFIX and not out.is_dir()):
        return out or Path(name)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{out}: {error.strerror}", "name another directory with --out") from None
    return out / name
