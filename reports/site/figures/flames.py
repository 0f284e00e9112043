"""Flame graphs out of the kept stacks: a page for each profile and place, which shows the
difference to the baseline, too.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from cnibench.cpp import flamegraph, summary, taxonomy
from cnibench.errors import CnibenchError
from cnibench.reports._page.flame import MODEL, FlamePage, flame_page
from cnibench.reports.site.figures.charts import unique
from cnibench.reports.site.publication.pseudonyms import Pseudonyms
from cnibench.rundir.reader import RunReader
from cnibench.rundir.schema import RAW

FOLDER = "flames"


@dataclass(frozen=True)
class Flame:
    """``difference`` is '' or the label that the page compares it with; ``file`` is the path below
    the site.
    """

    label: str
    where: str
    difference: str
    file: str
    workload: str
    page: FlamePage


def drawn(
    readers: Sequence[RunReader], baseline: str, names: Pseudonyms, models: Collection[str]
) -> tuple[list[Flame], list[str]]:
    """The flame graphs; (what was drawn, what could not be, in words). ``models`` are the labels
    that are models of CNIs.
    """
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
                tree = _clean(summary.trees(reader, group, known), names)
                trees[group.label, group.title] = group, tree
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
            loud = MODEL if label in models else ""
            base = trees.get((baseline, title)) if label != baseline else None
            if base is None:
                found.append(_flame(names, taken, group, tree, loud))
            else:
                found.append(_flame(names, taken, group, tree, loud, base[1], baseline))
    found.sort(key=lambda one: (one.where, one.label))
    return found, list(dict.fromkeys(problems))


def _flame(
    names: Pseudonyms,
    taken: set[str],
    group: summary.Group,
    tree: flamegraph.Tree,
    loud: str,
    base: flamegraph.Tree | None = None,
    against: str = "",
) -> Flame:
    label, title, other = (names.text(one) for one in (group.label, group.title, against))
    workload = names.text(str(group.where["workload"]))
    name = unique(f"{label}-{group.where['placement']}-{workload}", taken)
    taken.add(name)
    page = flame_page(
        tree, base, label=label, where=title, source=group.source, against=other, loud=loud
    )
    return Flame(label, title, other, f"{FOLDER}/{name}.html", workload, page)


def _clean(tree: flamegraph.Tree, names: Pseudonyms) -> flamegraph.Tree:
    """Stacks that become alike by pseudonyms are one."""
    found: dict[tuple[str, ...], float] = {}
    for path, cycles in tree.items():
        clean = tuple(names.text(frame) for frame in path)
        found[clean] = found.get(clean, 0.0) + cycles
    return found
