"""Flame graphs out of the kept stacks: each profile's own, and its difference to the baseline, as
pictures beside the pages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cnibench.cpp import flamegraph, summary, taxonomy
from cnibench.errors import CnibenchError
from cnibench.reports.site.figures.charts import unique
from cnibench.reports.site.publication.pseudonyms import Pseudonyms
from cnibench.rundir.reader import RunReader
from cnibench.rundir.schema import RAW

_FOLDER = "flames"


@dataclass(frozen=True)
class Flame:
    """``difference`` is '' or the label that it is drawn against; ``file`` is the path below the
    site.
    """

    label: str
    where: str
    difference: str
    file: str
    workload: str


def draw(
    readers: Sequence[RunReader], baseline: str, names: Pseudonyms, out: Path
) -> tuple[list[Flame], list[str]]:
    """Writes the flame graphs below ``out``; (what was drawn, what could not be, in words)."""
    found: list[Flame] = []
    problems: list[str] = []
    taken: set[str] = set()
    known = taxonomy.load()
    for reader in readers:
        try:
            groups = summary.groups(reader.records("cpp"))
        except CnibenchError as error:
            problems.append(names.text(f"no flame graphs of {reader.id}: {error}"))
            continue
        trees: dict[tuple[str, str], tuple[summary.Group, flamegraph.Tree]] = {}
        for group in groups:
            try:
                trees[group.label, group.title] = group, summary.trees(reader, group, known)
            except (CnibenchError, ValueError):
                changed = any(problem.file.startswith(f"{RAW}/") for problem in reader.problems)
                reason = "are lost or changed" if changed else "were not kept with the run"
                problems.append(
                    names.text(
                        f"no flame graph of {group.label}, {group.title}: its stacks {reason}"
                    )
                )
        for (label, title), (group, tree) in trees.items():
            if not any(value > 0 for value in tree.values()):
                continue
            base = trees.get((baseline, title))
            against = baseline if base is not None and label != baseline else ""
            found += _pair(
                names,
                out,
                taken,
                group,
                tree,
                base[1] if base is not None and against else None,
                against,
                known,
            )
    return found, list(dict.fromkeys(problems))


def _pair(
    names: Pseudonyms,
    out: Path,
    taken: set[str],
    group: summary.Group,
    tree: flamegraph.Tree,
    base: flamegraph.Tree | None,
    against: str,
    known: taxonomy.Taxonomy,
) -> list[Flame]:
    label, title, workload = (
        names.text(group.label),
        names.text(group.title),
        names.text(str(group.where["workload"])),
    )
    order = list(known.components)

    def color(function: str) -> str:
        component = known.component(function)
        return (
            "#eeeeee"
            if component is None
            else flamegraph.PALETTE[order.index(component) % len(flamegraph.PALETTE)]
        )

    pictures = [
        (
            "",
            flamegraph.draw(
                _clean(tree, names), f"{label}, {title}: cycles per packet ({group.source})", color
            ),
        )
    ]
    if base is not None:
        words = (
            f"{label} against {names.text(against)}, {title}: cycles per packet ({group.source})"
        )
        pictures.append(
            (
                names.text(against),
                flamegraph.draw_difference(_clean(base, names), _clean(tree, names), words),
            )
        )
    found = []
    for difference, picture in pictures:
        name = unique(
            f"{label}-{group.where['placement']}-{workload}{'-difference' if difference else ''}",
            taken,
        )
        taken.add(name)
        file = f"{_FOLDER}/{name}.svg"
        (out / _FOLDER).mkdir(exist_ok=True)
        (out / file).write_text(picture, encoding="utf-8")
        found.append(Flame(label, title, difference, file, workload))
    return found


def _clean(tree: flamegraph.Tree, names: Pseudonyms) -> flamegraph.Tree:
    return {tuple(names.text(frame) for frame in path): value for path, value in tree.items()}
