"""The rule path of one packet: rules by hook as a chart, the counts next to the published ones, and
every chain that was entered.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from cnibench.reports.document.parts import Table
from cnibench.reports.site.dataset import Material
from cnibench.reports.site.figures import specs
from cnibench.reports.site.figures.charts import Chart
from cnibench.reports.site.places import Place
from cnibench.rulepath import summary
from cnibench.rundir.schema import Record

_HOOKS = (
    "prerouting",
    "input",
    "forward",
    "output",
    "postrouting",
)  # each has one colour on the whole site
_MOST = 400  # chains that a page lists


def rows(material: Material, place: Place) -> list[Record]:
    """One row a profile of that place, as rulepath.summary makes them."""
    return summary.rows(material.of("rulepath", place.group), _published())


@cache
def _published() -> Any:
    from cnibench.claims.model import studies

    return summary.published(studies()["qi2021"])


def chart(material: Material, place: Place) -> Chart | None:
    """Rules that one packet is compared with, stacked by the hooks that it passes, both nodes
    together.
    """
    found = sorted(rows(material, place), key=lambda row: row["rules"])
    bars = []
    for row in found:
        counts: dict[str, int] = {}
        for node in row["nodes"]:
            for hook in node["path"]:
                counts[hook["hook"]] = counts.get(hook["hook"], 0) + sum(
                    chain["evaluated"] for chain in hook["chains"]
                )
        bars += [
            {"profile": row["label"], "part": hook, "value": count, "shown": str(count)}
            for hook, count in counts.items()
        ]
    if not any(bar["value"] for bar in bars):
        return None
    title = f"{place.title}: rules that one packet meets"
    met = {bar["part"] for bar in bars}
    hooks = [*(hook for hook in _HOOKS if hook in met), *sorted(met.difference(_HOOKS))]
    shades = {
        hook: specs.SHADES[_HOOKS.index(hook) if hook in _HOOKS else len(_HOOKS)] for hook in hooks
    }
    spec = specs.stacked(bars, shades, "rules compared with the packet")
    about = (
        f"{title}, by netfilter hook, both nodes together. The fewest has {found[0]['label']} with"
        f" {found[0]['rules']}."
    )
    return Chart(
        title,
        about,
        spec,
        table(found),
        ("fewer is cheaper; counted, not measured: each rule that the kernel compared with it",),
    )


def table(found: list[Record]) -> Table:
    """The counts, with those of qi2021, Table III, where it has them (of IPv4)."""
    heads = [
        "profile",
        "packet",
        "hooks passed",
        "hooks, qi2021",
        "chains entered",
        "rules compared",
        "rules matched",
        "rules, qi2021",
    ]
    lines = []
    for row in found:
        published = row["published"] if row["ip"] == 4 else {}
        counts = [
            f"{published[name]:g}" if name in published else "-" for name in ("hooks", "rules")
        ]
        name = row["label"] + ("" if row["agree"] else " (blocks differ)")
        lines.append(
            [
                name,
                row["packet"],
                str(row["hooks"]),
                counts[0],
                str(row["chains"]),
                str(row["rules"]),
                str(row["matched"]),
                counts[1],
            ]
        )
    return Table(heads, lines)


def chains(found: list[Record]) -> Table:
    """Every chain that the packet entered, in its order."""
    lines = [
        [
            row["label"],
            node["node"],
            hook["hook"],
            *(chain[key] for key in ("family", "table", "chain")),
            str(chain["evaluated"]),
            str(chain["matched"]),
        ]
        for row in found
        for node in row["nodes"]
        for hook in node["path"]
        for chain in hook["chains"]
    ]
    return Table(
        ["profile", "node", "hook", "family", "table", "chain", "rules compared", "matched"],
        lines[:_MOST],
        numbers=False,
    )
