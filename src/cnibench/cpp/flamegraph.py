"""Flame graphs: as static SVG (no script, nothing to load, every name escaped; a tool tip says the
figures), and as a list of frames for pages that draw them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from html import escape
from typing import NamedTuple

from cnibench.errors import MeasureError

_WIDTH, _ROW, _MARGIN, _LETTER = (
    1200.0,
    16,
    10,
    6.6,
)  # pixels; the width of a letter at 11 px in a monospaced font
_SMALLEST = 0.3  # pixels: a narrower frame cannot be seen
_HEAD = 44
_text = partial(escape, quote=False)

Tree = Mapping[tuple[str, ...], float]


class Seen(NamedTuple):
    """A frame that is wide enough to be seen; ``other`` are its cycles in the base."""

    level: int
    name: str
    value: float
    other: float


@dataclass
class _Frame:
    name: str
    value: float = 0.0
    other: float = 0.0  # of the base, in a differential graph
    children: dict[str, _Frame] = field(default_factory=dict)

    def add(self, path: tuple[str, ...], value: float, other: float) -> None:
        node = self
        node.value += value
        node.other += other
        for name in path:
            node = node.children.setdefault(name, _Frame(name))
            node.value += value
            node.other += other

    def depth(self) -> int:
        return 1 + max((child.depth() for child in self.children.values()), default=0)


def draw(tree: Tree, title: str, color: Callable[[str], str]) -> str:
    """The SVG of stacks (root first, with cycles per packet). ``color`` gives a function's colour.
    Raises MeasureError when empty.
    """
    return _svg(
        _root({}, tree),
        title,
        lambda frame: color(frame.name),
        lambda frame: f"{frame.name}: {frame.value:.1f} cycles per packet",
    )


def draw_difference(base: Tree, tree: Tree, title: str) -> str:
    """Frames as wide as in ``tree``; red where it costs more than ``base``, blue where less, the
    deeper the more.
    """
    root = _root(base, tree)
    largest = _largest(root)

    def shade(frame: _Frame) -> str:
        change = (frame.value - frame.other) / largest
        pale = round(245 - 165 * abs(change))
        return f"#f5{pale:02x}{pale:02x}" if change > 0 else f"#{pale:02x}{pale:02x}f5"

    def words(frame: _Frame) -> str:
        return (
            f"{frame.name}: {frame.value:.1f} cycles per packet, {frame.value - frame.other:+.1f}"
        )

    return _svg(root, title, shade, words)


def frames(base: Tree, tree: Tree) -> tuple[list[Seen], float]:
    """The frames of ``tree`` that can be seen, each before those that it calls, and the largest
    change of any frame from ``base``. Raises MeasureError when there are none.
    """
    root = _root(base, tree)
    least = _SMALLEST / _scale(root)
    found: list[Seen] = []

    def add(frame: _Frame, level: int) -> None:
        if frame.value >= least:
            found.append(Seen(level, frame.name, frame.value, frame.other))
            for child in frame.children.values():
                add(child, level + 1)

    add(root, 0)
    return found, _largest(root)


def _root(base: Tree, tree: Tree) -> _Frame:
    root = _Frame("all")
    for path in sorted({*base, *tree}):
        root.add(path, tree.get(path, 0.0), base.get(path, 0.0))
    return root


def _largest(root: _Frame) -> float:
    return max(abs(frame.value - frame.other) for frame in _all(root)) or 1.0


def _all(frame: _Frame) -> list[_Frame]:
    found = [frame]
    for child in frame.children.values():
        found += _all(child)
    return found


def _scale(root: _Frame) -> float:
    """Pixels of a cycle. Raises MeasureError when there are none."""
    if root.value <= 0:
        raise MeasureError(
            "there are no stacks to draw",
            "does the run have cpp windows? 'cnibench cpp RUN' lists them",
        )
    return (_WIDTH - 2 * _MARGIN) / root.value


def _svg(
    root: _Frame, title: str, color: Callable[[_Frame], str], words: Callable[[_Frame], str]
) -> str:
    scale = _scale(root)
    height = _HEAD + root.depth() * _ROW + _MARGIN
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH:.0f} {height}"'
            f' width="{_WIDTH:.0f}" height="{height}" font-family="monospace" font-size="11"'
            f' role="img" aria-label="{escape(title)}">\n'
        ),
        (
            f'<rect width="100%" height="100%" fill="#ffffff"/>\n<text x="{_MARGIN}" y="24"'
            f' font-size="15">{_text(title)}</text>\n'
        ),
    ]

    def place(frame: _Frame, x: float, level: int) -> None:
        width = frame.value * scale
        if width < _SMALLEST:
            return
        y = height - _MARGIN - (level + 1) * _ROW
        room = int((width - 4) / _LETTER)
        label = (
            frame.name
            if len(frame.name) <= room
            else frame.name[: room - 2] + ".."
            if room >= 4
            else ""
        )
        text = f'<text x="{x + 2:.1f}" y="{y + 12}">{_text(label)}</text>' if label else ""
        rect = (
            f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{_ROW - 1}"'
            f' fill="{color(frame)}"/>'
        )
        parts.append(f"<g><title>{_text(words(frame))}</title>{rect}{text}</g>\n")
        for child in frame.children.values():
            place(child, x, level + 1)
            x += child.value * scale

    place(root, float(_MARGIN), 0)
    return "".join([*parts, "</svg>\n"])
