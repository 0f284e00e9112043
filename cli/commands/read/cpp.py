"""Show where the CPU cycles of each packet are spent, by component or function."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cnibench.cli import completion
from cnibench.cli.options.runs import one_run, run_argument
from cnibench.cli.options.shared import folder_option
from cnibench.cli.output.cpp import show, show_difference
from cnibench.cli.output.integrity import check, first_lines, later, warn
from cnibench.cli.output.printing import json_option, print_json
from cnibench.errors import InputError, UsageError

if TYPE_CHECKING:
    from cnibench.cpp.summary import Group
    from cnibench.cpp.taxonomy import Taxonomy
    from cnibench.rundir.reader import RunReader


@click.command(
    "cpp",
    epilog=(
        "\b\nExamples:\n"
        "  cnibench cpp\n"
        "  cnibench cpp last --cni flannel --by function\n"
        "  cnibench cpp last --diff flannel cilium\n"
    ),
)
@run_argument
@click.option(
    "--cni",
    multiple=True,
    metavar="NAME",
    shell_complete=completion.profiles,
    help="Only these labels; accepts patterns and comma-separated lists.",
)
@click.option("--placement", type=click.Choice(["intra", "inter"]), help="Only this placement.")
@click.option(
    "--workload",
    metavar="NAME",
    shell_complete=completion.workloads,
    help="Only this workload; accepts a pattern.",
)
@click.option(
    "--by",
    type=click.Choice(["component", "function"]),
    default="component",
    show_default=True,
    help="What the cycles are divided into.",
)
@click.option(
    "--flamegraph",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE.svg",
    help="Write a flame graph of one profile.",
)
@click.option(
    "--diff",
    nargs=2,
    metavar="A B",
    help="Show the difference between profiles A and B of the run.",
)
@folder_option
@json_option
def command(
    run: str | None,
    cni: tuple[str, ...],
    placement: str | None,
    workload: str | None,
    by: str,
    flamegraph: Path | None,
    diff: tuple[str, str] | None,
    folder: Path,
    as_json: bool,
) -> int:
    """Show where the CPU cycles of each packet are spent, by component or function.

    Shows cycles per packet of a run, the last one by default, by component of the kernel's packet
    path. The components and the
    unclassified cycles add up to the total.
    """
    from cnibench.cpp import summary, taxonomy

    reader = one_run(run, folder)
    problems = check([reader])
    first_lines(problems, err=as_json)
    names = taxonomy.load()
    everything = summary.groups(reader.records("cpp"))
    later([reader], problems, err=as_json)
    if not everything:
        raise InputError(
            f"{reader.path}: no cycles per packet in it",
            "measure without --no-perf, for instance with --workload tcp-stream",
        )
    wanted = [pattern for each in diff or cni for pattern in ([each] if diff else each.split(","))]
    chosen = [
        group
        for group in everything
        if (not wanted or any(fnmatch.fnmatchcase(group.label, pattern) for pattern in wanted))
        and (placement is None or group.where["placement"] == placement)
        and (workload is None or fnmatch.fnmatchcase(group.where["workload"], workload))
    ]
    _all_there(wanted, placement, workload, chosen, everything)
    pairs = _pairs(chosen, diff) if diff else []
    if flamegraph is not None:
        _flamegraph(reader, chosen, pairs, names, flamegraph)
    if as_json:
        print_json(_document(reader.id, chosen, pairs, problems))
    elif diff:
        for a, b in pairs:
            show_difference(a, b, by, names)
    else:
        for title, members in _by_title(chosen).items():
            show(title, members, by, names)
    warn([reader])
    return 1 if problems else 0


def _all_there(
    wanted: Sequence[str],
    placement: str | None,
    workload: str | None,
    chosen: Sequence[Group],
    everything: Sequence[Group],
) -> None:
    labels = sorted({group.label for group in everything})
    for pattern in wanted:
        if not any(fnmatch.fnmatchcase(label, pattern) for label in labels):
            raise UsageError(
                f"no '{pattern}' with cycles per packet in this run",
                f"there are: {', '.join(labels)}",
            )
    if not chosen:
        asked = " ".join(filter(None, (*wanted, placement, workload)))
        there = sorted(
            {
                f"{group.label} {group.where['placement']} {group.where['workload']}"
                for group in everything
            }
        )
        raise UsageError(f"nothing in this run is {asked}", f"there are: {', '.join(there[:12])}")


def _by_title(groups: Sequence[Group]) -> dict[str, list[Group]]:
    found: dict[str, list[Group]] = {}
    for group in groups:
        found.setdefault(group.title, []).append(group)
    return found


def _pairs(groups: Sequence[Group], diff: tuple[str, str]) -> list[tuple[Group, Group]]:
    found = []
    for members in _by_title(groups).values():
        sides = {group.label: group for group in members}
        if diff[0] in sides and diff[1] in sides:
            found.append((sides[diff[0]], sides[diff[1]]))
    if not found:
        raise UsageError(
            f"{diff[0]} and {diff[1]} were not both measured at one place",
            "'cnibench cpp RUN' shows what was",
        )
    return found


def _flamegraph(
    reader: RunReader,
    chosen: Sequence[Group],
    pairs: Sequence[tuple[Group, Group]],
    names: Taxonomy,
    path: Path,
) -> None:
    from cnibench.cpp import colors, flamegraph, summary

    if pairs:
        if len(pairs) > 1:
            raise UsageError(
                f"--flamegraph draws one comparison, this is {len(pairs)}",
                "choose with --placement and --workload",
            )
        a, b = pairs[0]
        title = f"{b.label} against {a.label}, {b.title}: cycles per packet ({b.source})"
        text = flamegraph.draw_difference(
            summary.trees(reader, a, names), summary.trees(reader, b, names), title
        )
    else:
        if len(chosen) > 1:
            there = ", ".join(
                f"{group.label} {group.where['placement']} {group.where['workload']}"
                for group in chosen[:6]
            )
            raise UsageError(
                f"--flamegraph draws one profile, this is {len(chosen)}: {there}",
                "choose with --cni, --placement and --workload",
            )
        group = chosen[0]
        title = f"{group.label}, {group.title}: cycles per packet ({group.source})"
        text = flamegraph.draw(
            summary.trees(reader, group, names),
            title,
            lambda one: colors.color(names.component(one)),
        )
    try:
        path.write_text(text)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", "name a file that can be written") from None


def _document(
    run: str, chosen: Sequence[Group], pairs: Sequence[tuple[Group, Group]], problems: Sequence[str]
) -> dict[str, Any]:
    found: dict[str, Any] = {
        "schema": 1,
        "problems": problems,
        "run": run,
        "cpp": [group.document() for group in chosen],
    }
    if pairs:
        found["differences"] = [_change(a, b) for a, b in pairs]
    return found


def _change(a: Group, b: Group) -> dict[str, Any]:
    names = sorted({*a.components, *b.components})
    return {
        "a": a.label,
        "b": b.label,
        **a.where,
        "total": b.total - a.total,
        "unclassified": b.unclassified - a.unclassified,
        "components": {
            name: b.components.get(name, 0.0) - a.components.get(name, 0.0) for name in names
        },
    }
