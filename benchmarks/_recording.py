"""What a command shows on a terminal over time, and that as an animated picture."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

import pyte

LEAST = 0.5  # seconds between two frames
_READ = 65536
_CHARACTER, _LINE, _MARGIN = 9.6, 20, 12  # pixels
_STYLE = """\
text { font: 16px/20px ui-monospace, Menlo, Consolas, DejaVu Sans Mono, monospace; fill: #d6d9dc; white-space: pre; }
.frame { visibility: hidden; }
@media (prefers-reduced-motion: reduce) { .frame { animation: none !important; } .last { visibility: visible; } }
"""  # noqa: E501


@dataclass(frozen=True)
class Frame:
    """``at`` in seconds since the command began; ``lines`` without trailing blanks."""

    at: float
    lines: tuple[str, ...]


def record(
    argv: Sequence[str], cwd: str, columns: int, rows: int, environment: Mapping[str, str]
) -> tuple[int, list[Frame]]:
    """The exit status of a command, and the screens of its terminal, at most one each LEAST."""
    screen = pyte.Screen(columns, rows)
    stream = pyte.ByteStream(screen)
    ours, theirs = pty.openpty()
    sized = {**os.environ, **environment, "COLUMNS": str(columns), "LINES": str(rows)}
    began = time.monotonic()
    with subprocess.Popen(
        argv, cwd=cwd, env=sized, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    ) as process:
        os.close(theirs)
        frames: list[Frame] = []
        while True:
            readable, _, _ = select.select([ours], [], [], LEAST)
            if readable:
                try:
                    data = os.read(ours, _READ)
                except OSError:  # nobody has the other end any more
                    break
                stream.feed(data)
            now = time.monotonic() - began
            if not frames or now - frames[-1].at >= LEAST:
                _add(frames, now, screen)
        os.close(ours)
    _add(frames, time.monotonic() - began, screen)
    return process.returncode, frames


def _add(frames: list[Frame], at: float, screen: pyte.Screen) -> None:
    lines = tuple(line.rstrip() for line in screen.display)
    if not frames or frames[-1].lines != lines:
        frames.append(Frame(at, lines))


def animation(
    frames: Sequence[Frame], columns: int, rows: int, title: str, *, speed: float, rest: float
) -> str:
    """The frames as an SVG that plays them ``speed`` times as fast, again and again; the last one
    stays for ``rest`` seconds, and is all that is seen where animations are not wanted.
    """
    starts = [frame.at / speed for frame in frames]
    length = starts[-1] + rest
    width = columns * _CHARACTER + 2 * _MARGIN
    height = rows * _LINE + 2 * _MARGIN
    rules, groups = [_STYLE], []
    for number, (begin, end) in enumerate(pairwise([*starts, length])):
        first, last = 100 * begin / length, 100 * end / length
        after = "" if number == len(frames) - 1 else f" {last:.3f}% {{ visibility: hidden; }}"
        before = f"0% {{ visibility: hidden; }} {first:.3f}% " if number else "0% "
        rules.append(
            f"@keyframes f{number} {{ {before}{{ visibility: visible; }}{after} }}\n"
            f"#f{number} {{ animation: f{number} {length:.2f}s step-end infinite; }}\n"
        )
        kind = "frame last" if number == len(frames) - 1 else "frame"
        text = "".join(
            f'<text x="{_MARGIN}" y="{_MARGIN + (row + 0.75) * _LINE:g}">{escape(line)}</text>\n'
            for row, line in enumerate(frames[number].lines)
            if line
        )
        groups.append(f'<g class="{kind}" id="f{number}">\n{text}</g>\n')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {width:g} {height:g}">\n'
        f"<title>{escape(title)}</title>\n<style>\n{''.join(rules)}</style>\n"
        f'<rect width="{width:g}" height="{height:g}" rx="8" fill="#16191d"/>\n'
        f"{''.join(groups)}</svg>\n"
    )
