"""Remove what earlier runs left behind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from cnibench.cli import completion
from cnibench.cli.options.cluster import ACCESS, CHANGES, KUBERNETES, SECTIONS, cluster_options
from cnibench.cli.options.sections import Sections
from cnibench.cli.output.printing import json_option, print_json
from cnibench.testbed.cluster_options import ClusterOptions

if TYPE_CHECKING:
    from cnibench.testbed.capabilities.ownership import Leftover
    from cnibench.testbed.cluster import Cluster


@click.command(
    "clean",
    cls=Sections,
    sections={"Options": (), **SECTIONS},
    epilog="\b\nExamples:\n  cnibench clean --dry-run\n  cnibench clean --cluster kind\n",
)
@click.option(
    "--cluster",
    "name",
    metavar="KIND",
    default="lab",
    show_default=True,
    shell_complete=completion.clusters,
    help="Where to look: lab, kind, existing, namespace or ssh://A,ssh://B.",
)
@click.option(
    "--owner",
    "owners",
    multiple=True,
    metavar="ID",
    help="Also what this owner's runs left, unless they still use it.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be removed.")
@cluster_options((*ACCESS, *CHANGES, *KUBERNETES))
@json_option
def command(
    name: str, owners: Sequence[str], dry_run: bool, as_json: bool, cluster_options: ClusterOptions
) -> None:
    """Remove what earlier runs left behind.

    Removes leftovers of this user's runs and temporary folders of killed commands. Leftovers of
    other owners are listed, and removed only with --owner. Anything that a running 'cnibench'
    uses is never removed; on a cluster a Lease marks it as in use. A CNI is removed only with
    --allow-install or --allow-replace, and never while Pods of others use it. Run directories
    are never removed.
    """
    from cnibench.errors import UsageError
    from cnibench.registry import provider
    from cnibench.system import scratch
    from cnibench.testbed.capabilities.ownership import Ownership
    from cnibench.testbed.cluster import Options

    kind: type[Cluster] = provider("clusters", name)
    with kind(Options(cluster=cluster_options)) as cluster:
        found = (
            cluster.leftovers(owners, lambda text: click.echo(text, err=True))
            if isinstance(cluster, Ownership)
            else []
        )
        going = [one for one in found if not one.kept]
        staying = [one for one in found if one.kept]
        if not as_json:
            _show(going, staying, dry_run)
        for one in () if dry_run else going:
            one.remove()
            if not as_json:
                click.echo(f"removed: {one.what}")
    folders = [f"the temporary folder {path}" for path in scratch.remove_stale(dry_run)]
    if as_json:
        about = {one.what: one.about for one in going if one.about}
        gone = [*(one.what for one in going), *folders]
        left = [
            {"what": one.what, "owner": one.owner, "reason": one.kept, "remedy": one.remedy}
            for one in staying
        ]
        print_json(
            {
                "schema": 1,
                "cluster": name,
                "dry_run": dry_run,
                "removed": [] if dry_run else gone,
                "found": gone,
                "about": about,
                "left": left,
            }
        )
    else:
        for what in folders:
            click.echo(f"{'would remove' if dry_run else 'removed'}: {what}")
        if not found and not folders:
            click.echo(f"{name}: nothing was left")
    if refused := [one for one in staying if one.refused]:
        raise UsageError(f"{refused[0].what} stays: {refused[0].kept}", refused[0].remedy)


def _show(going: Sequence[Leftover], staying: Sequence[Leftover], dry_run: bool) -> None:
    """What is about to be done to whom, before it is."""
    for one in going:
        about = f" (owner {one.owner})" * bool(one.owner) + f"; {one.about}" * bool(one.about)
        click.echo(f"{'would remove' if dry_run else 'removing'}: {one.what}{about}")
    for one in staying:
        if not one.refused:
            click.echo(f"left: {one.what}: {one.kept}; {one.remedy}")
