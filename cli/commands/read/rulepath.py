"""Show the netfilter hooks, chains and rules that one packet traverses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from cnibench.cli.options.runs import one_run, run_argument
from cnibench.cli.options.shared import folder_option
from cnibench.cli.output.integrity import check, first_lines, later, warn
from cnibench.cli.output.printing import json_option, print_json, print_table
from cnibench.errors import InputError


@click.command(
    "rulepath",
    epilog=(
        "\b\nExamples:\n"
        "  cnibench run --cni calico-wp-ipip --workload rule-path\n"
        "  cnibench rulepath --chains\n"
    ),
)
@run_argument
@folder_option
@click.option("--chains", is_flag=True, help="List every traversed chain by hook, on both nodes.")
@json_option
def command(run: str | None, folder: Path, chains: bool, as_json: bool) -> int:
    """Show the netfilter hooks, chains and rules that one packet traverses.

    RUN, the last one by default, must contain the workload rule-path. The published counts of
    qi2021, Table III, are shown next to the measured ones; "chains" there are hooks.
    """
    from cnibench.claims.model import studies
    from cnibench.rulepath import summary

    reader = one_run(run, folder)
    problems = check([reader])
    first_lines(problems, err=as_json)
    found = summary.rows(reader.records("rulepath"), summary.published(studies()["qi2021"]))
    status = later([reader], problems, err=as_json)
    if not found:
        raise InputError(
            f"{reader.path}: no rule path in it",
            "measure one: cnibench run --cni flannel --workload rule-path",
        )
    warn([reader])
    if as_json:
        print_json(
            {"schema": 1, "problems": problems, "run": reader.id, "study": "qi2021", "rows": found}
        )
        return status
    print_table(
        (
            "profile",
            "placement",
            "IP",
            "packet",
            "hooks",
            "published",
            "chains",
            "rules compared with",
            "rules matched",
            "published",
        ),
        [_row(one) for one in found],
    )
    click.echo(
        "published: qi2021, Table III, of IPv4. It counted rules in the listings of that time; here"
        " each rule that the kernel compared"
    )
    click.echo(
        "the packet with counts, matched or not. hooks are passed whether or not a chain waits"
        " there."
    )
    if chains:
        for one in found:
            _chains(one)
    for one in found:
        if not one["agree"]:
            click.echo(
                f"warning: {one['label']}, {one['placement']}, {one['packet']}: the blocks met"
                " different rules",
                err=True,
            )
    return status


def _row(one: dict[str, Any]) -> tuple[str, ...]:
    from cnibench.reports._escape import plain

    published = one["published"] if one["ip"] == 4 else {}
    figures = [f"{published[name]:g}" if name in published else "" for name in ("hooks", "rules")]
    return (
        plain(one["label"]),
        one["placement"],
        str(one["ip"]),
        one["packet"],
        str(one["hooks"]),
        figures[0],
        str(one["chains"]),
        str(one["rules"]),
        str(one["matched"]),
        figures[1],
    )


def _chains(one: dict[str, Any]) -> None:
    from cnibench.reports._escape import plain

    rows = [
        (
            plain(node["node"]),
            hook["hook"],
            *(plain(chain[key]) for key in ("family", "table", "chain")),
            str(chain["evaluated"]),
            str(chain["matched"]),
        )
        for node in one["nodes"]
        for hook in node["path"]
        for chain in hook["chains"]
    ]
    title = f"{plain(one['label'])}, {one['placement']}, IPv{one['ip']}, {one['packet']} packet"
    print_table(
        ("node", "hook", "family", "table", "chain", "compared with", "matched"), rows, title
    )
