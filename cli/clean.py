"""Remove whatever earlier runs left."""

from __future__ import annotations

from typing import Any

import click

from cnibench.cli._options import cluster_options, extra_of
from cnibench.cli._output import json_option, print_json


@click.command("clean")
@click.option("--cluster", "name", metavar="KIND", default="lab", show_default=True, help="Where to look.")
@cluster_options
@json_option
def command(name: str, as_json: bool, **values: Any) -> None:
    """Remove whatever earlier runs left.

    Run directories are results and stay. A run's lock belongs to its process and ends with it, so none can be stale.
    """
    from cnibench.cluster import Cluster, Options
    from cnibench.registry import provider

    kind: type[Cluster] = provider("clusters", name)
    removed = kind(Options(extra=extra_of(values))).clean()
    if as_json:
        print_json({"schema": 1, "cluster": name, "removed": removed})
        return
    for item in removed:
        click.echo(f"removed: {item}")
    if not removed:
        click.echo(f"{name}: nothing was left")
