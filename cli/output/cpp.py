"""Prints cycles per packet in a terminal: tables, and a bar for each profile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from cnibench.cli.output.printing import console, print_table
from cnibench.model.metrics import PACKETS

if TYPE_CHECKING:
    from cnibench.cpp.summary import Group
    from cnibench.cpp.taxonomy import Taxonomy

_FUNCTIONS = 30
_BAR = 60  # characters of the longest bar, on a terminal that is wide enough
_SMALL = "unclassified"


def show(title: str, groups: Sequence[Group], by: str, names: Taxonomy) -> None:
    """Prints the cycles of the profiles of one place: a table, and a bar each."""
    heads = [by, *(group.label for group in groups)]
    if by == "component":
        parts = [_parts(group, names) for group in groups]
        present = [
            name
            for name in [*names.components, *_others(groups, names), _SMALL]
            if any(name in part for part in parts)
        ]
        rows = [
            [
                name,
                *(
                    _figure(part.get(name, 0.0), group.total)
                    for part, group in zip(parts, groups, strict=True)
                ),
            ]
            for name in present
        ]
    else:
        functions = sorted(
            {name for group in groups for name in group.functions},
            key=lambda name: (
                -max(group.functions.get(name, (0.0, 0.0))[1] for group in groups),
                name,
            ),
        )
        rows = [
            [name, *(_two(group.functions.get(name)) for group in groups)]
            for name in functions[:_FUNCTIONS]
        ]
    rows.append(["total", *(f"{group.total:.0f}" for group in groups)])
    unit = (
        "cycles per packet (share)" if by == "component" else "cycles per packet: self / inclusive"
    )
    print_table(heads, rows, f"{title}: {unit}")
    if by == "component":
        _bars(groups, names)
    _notes(groups)


def show_difference(a: Group, b: Group, by: str, names: Taxonomy) -> None:
    """Prints the cycles of two profiles of one place and their difference, the largest first."""
    left, right = (
        _parts(group, names) if by == "component" else {n: v[1] for n, v in group.functions.items()}
        for group in (a, b)
    )
    keys = sorted(
        {*left, *right}, key=lambda name: (-abs(right.get(name, 0.0) - left.get(name, 0.0)), name)
    )[:_FUNCTIONS]
    rows = [_difference(name, left.get(name, 0.0), right.get(name, 0.0)) for name in keys]
    rows.append(_difference("total", a.total, b.total))
    inclusive = "" if by == "component" else ", inclusive"
    print_table(
        [by, a.label, b.label, "difference"], rows, f"{a.title}: cycles per packet{inclusive}"
    )
    _notes([a, b])


def _difference(name: str, a: float, b: float) -> list[str]:
    return [name, f"{a:.1f}", f"{b:.1f}", f"{b - a:+.1f}" + (f" ({b / a - 1:+.1%})" if a else "")]


def _parts(group: Group, names: Taxonomy) -> dict[str, float]:
    """Components in the taxonomy's order (those of another version behind), then what is
    unclassified.
    """
    order = [
        *names.components,
        *(name for name in group.components if name not in names.components),
    ]
    return {
        **{name: group.components[name] for name in order if name in group.components},
        _SMALL: group.unclassified,
    }


def _others(groups: Sequence[Group], names: Taxonomy) -> list[str]:
    return sorted(
        {name for group in groups for name in group.components if name not in names.components}
    )


def _figure(value: float, total: float) -> str:
    return f"{value:.1f} ({value / total:.1%})" if value else "-"


def _two(values: tuple[float, float] | None) -> str:
    return "-" if values is None else f"{values[0]:.1f} / {values[1]:.1f}"


def _bars(groups: Sequence[Group], names: Taxonomy) -> None:
    """One bar a profile, as long as its total; a letter stands for each component, so that it reads
    without colours.
    """
    from rich.text import Text

    from cnibench.cpp import colors

    shown = [*names.components, *_others(groups, names), _SMALL]
    letters = {
        name: "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"[n % 52]
        for n, name in enumerate(shown)
    }
    longest, width = max(group.total for group in groups), max(len(group.label) for group in groups)
    out, used = console(), set()
    bar = max(1, min(_BAR, out.width - width - len(f" {longest:.0f} ")))
    for group in groups:
        line = Text(f"{group.label:<{width}} ")
        for name, length in _lengths(
            _parts(group, names), group.total, round(bar * group.total / longest)
        ).items():
            if length:
                line.append(letters[name] * length, f"black on {colors.color(name)}")
                used.add(name)
        line.append(f" {group.total:.0f}")
        out.print(line)
    out.print(Text("  ".join(f"{letters[name]} {name}" for name in shown if name in used)))


def _lengths(parts: Mapping[str, float], total: float, width: int) -> dict[str, int]:
    """Characters of each part of a bar of ``width``: they add up to it, whatever is rounded."""
    found, at, done = {}, 0.0, 0
    for name, value in parts.items():
        at += value
        end = round(width * at / total)
        found[name], done = end - done, end
    return found


def _notes(groups: Sequence[Group]) -> None:
    if any(group.source != "pmu" for group in groups):
        click.echo("cycles: estimated (no PMU: samples of cpu-clock times the TSC's frequency)")
    click.echo(f"packets: {PACKETS}")
    blocks = sorted({len(group.blocks) for group in groups})
    idle, foreign = (max(getattr(group, name) for group in groups) for name in ("idle", "foreign"))
    count = " to ".join(map(str, sorted({blocks[0], blocks[-1]})))
    samples = min(group.samples for group in groups)
    click.echo(
        f"means of {count} block(s), {samples} samples or more; left out: idle {idle:.0%}, other"
        f" programs {foreign:.0%} at most\n"
    )
