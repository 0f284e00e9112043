"""A flame graph as a page: its frames, which flame.js draws and lets readers enlarge and search,
its legend, and its functions as a table.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from cnibench.cpp import colors, flamegraph, taxonomy
from cnibench.cpp.flamegraph import Tree
from cnibench.reports._escape import script_json

_HERE = Path(__file__).parent
_ASSETS = ("flame.js", "flame.css")
MODEL = "A model of the datapath, not the CNI itself."
_ROWS = 40


@dataclass(frozen=True)
class FlamePage:
    """``against`` is '' or the label that it is compared with; cycles are per packet.

    ``frames`` is what flame.js draws, as JSON that may be in a script element. ``legend`` has
    (component, colour, cycles), ``vanished`` (function, cycles in ``against``), ``functions``
    (function, cycles in itself, with what it calls, the same in ``against``). ``rest`` are the
    cycles of stacks that are not shown, ``loud`` is what must not be overlooked.
    """

    label: str
    where: str
    source: str
    against: str
    frames: str
    legend: list[tuple[str, str, float]]
    vanished: list[tuple[str, float]]
    functions: list[tuple[str, float, float, float]]
    rest: float = 0.0
    loud: str = ""


def assets(out: Path) -> None:
    """Copies what the pages load."""
    for name in _ASSETS:
        shutil.copyfile(_HERE / name, out / name)


def flame_page(
    tree: Tree,
    base: Tree | None,
    *,
    label: str,
    where: str,
    source: str,
    against: str = "",
    rest: float = 0.0,
    loud: str = "",
) -> FlamePage:
    """The page of stacks (root first, with cycles per packet), compared with those of ``base``
    where there is one. Raises MeasureError where there are no stacks.
    """
    known = taxonomy.load()
    own, inclusive = _functions(tree)
    _, other = _functions(base or {})
    first = sorted(inclusive, key=lambda one: (-inclusive[one], one))[:_ROWS]
    gone = sorted((one for one in other if one not in inclusive), key=lambda one: -other[one])
    return FlamePage(
        label,
        where,
        source,
        against,
        script_json(
            {
                "title": f"{label}, {where}: cycles per packet ({source})",
                "against": against,
                **_frames(tree, base, known),
            }
        ),
        _legend(tree, known),
        [(one, other[one]) for one in gone[:_ROWS]],
        [(one, own.get(one, 0.0), inclusive[one], other.get(one, 0.0)) for one in first],
        rest,
        loud,
    )


def _frames(tree: Tree, base: Tree | None, known: taxonomy.Taxonomy) -> dict[str, object]:
    """Each name and colour once: of the thousands of frames of a site most are alike. A frame is
    its level, the number of its name and its tenths of a cycle, which the page shows.
    """
    seen, largest = flamegraph.frames(base or {}, tree)
    names = list(dict.fromkeys(one.name for one in seen))
    shades = [colors.color(known.component(name)) for name in names]
    kinds = list(dict.fromkeys(shades))
    number = {name: at for at, name in enumerate(names)}
    found: dict[str, object] = {
        "names": names,
        "colors": kinds,
        "color": [kinds.index(shade) for shade in shades],
        "frames": [
            part for one in seen for part in (one.level, number[one.name], _tenths(one.value))
        ],
    }
    if base is not None:
        found |= {
            "other": [_tenths(one.other) for one in seen],
            "largest": max(1, _tenths(largest)),
        }
    return found


def _tenths(cycles: float) -> int:
    return round(10 * cycles)


def _functions(tree: Tree) -> tuple[dict[str, float], dict[str, float]]:
    """Each function's cycles in itself, and with what it calls."""
    own: dict[str, float] = {}
    inclusive: dict[str, float] = {}
    for path, cycles in tree.items():
        own[path[-1]] = own.get(path[-1], 0.0) + cycles
        for one in set(path):
            inclusive[one] = inclusive.get(one, 0.0) + cycles
    return own, inclusive


def _legend(tree: Tree, known: taxonomy.Taxonomy) -> list[tuple[str, str, float]]:
    cycles: dict[str, float] = {}
    for path, amount in tree.items():
        name = known.nearest(path[::-1]) or colors.UNCLASSIFIED
        cycles[name] = cycles.get(name, 0.0) + amount
    unclassified = cycles.pop(colors.UNCLASSIFIED, 0.0)
    shown = colors.grouped(cycles, unclassified)
    return [
        (name, colors.color(name), amount)
        for name, amount in sorted(shown.items(), key=lambda item: -item[1])
    ]
