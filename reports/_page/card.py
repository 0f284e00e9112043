"""The picture that a chat or a post shows for a link to the site or the board."""

from __future__ import annotations

import textwrap
from html import escape
from pathlib import Path

from cnibench.reports._escape import plain

FILE = "card.png"
_WIDTH, _HEIGHT, _EDGE = 1200, 630, 80  # pixels: what most sites ask for
_ROW, _LETTERS = 56, 46  # pixels of a line, and letters in one at its size
_ROWS = 6


def write(out: Path, title: str, sentence: str, note: str = "") -> None:
    """The card in the folder ``out``."""
    import vl_convert

    (out / FILE).write_bytes(vl_convert.svg_to_png(drawn(title, sentence, note)))


def drawn(title: str, sentence: str, note: str = "") -> str:
    """The card as SVG. What is too long is cut; of the note less than of the sentence."""
    last = _rows(note, _ROWS // 2)
    rows = _rows(sentence, _ROWS - len(last)) + last
    lines = "".join(
        f'<text x="{_EDGE}" y="{260 + number * _ROW}" font-size="42" fill="#333a45">'
        f"{escape(row)}</text>"
        for number, row in enumerate(rows)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}"'
        f' viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif">'
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#ffffff"/>'
        f'<rect width="24" height="{_HEIGHT}" fill="#2457a6"/>'
        f'<text x="{_EDGE}" y="96" font-size="34" fill="#2457a6">cnibench</text>'
        f'<text x="{_EDGE}" y="176" font-size="64" font-weight="bold" fill="#1a1a1a">'
        f"{escape(plain(title))}</text>{lines}</svg>"
    )


def _rows(text: str, most: int) -> list[str]:
    rows = textwrap.wrap(plain(text), _LETTERS, break_on_hyphens=False)
    return rows if len(rows) <= most else [*rows[: most - 1], f"{rows[most - 1][: _LETTERS - 1]}…"]
