"""What a run says while it runs: on stderr, as lines, or as a bar where there is a terminal."""

from __future__ import annotations

import math
import sys
import textwrap
import time
from collections.abc import Iterable, Sequence
from typing import IO, TYPE_CHECKING, Any, Protocol

from cnibench.model.cell import Cell
from cnibench.model.units import duration, plural
from cnibench.system.text import console, printable

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.progress import Progress as Bar

_PRIOR = 0.2  # share of the expected time that counts as if it had been as expected
_NARROW = 40  # columns to which the ranking is wrapped at least


class Progress(Protocol):
    """Told by the runner; must not do anything between ``cell`` and ``finished`` (a window may be
    open) but in ``ranking``. ``pace`` is how many s are between two of these at least.
    """

    pace: float

    def begin(self, samples: int, seconds: float) -> None:
        """So many samples are left, of so many seconds together; installing is in it where it is
        reported by ``made``.
        """

    def stage(self, text: str) -> None:
        """Something that is no sample: a profile is installed, say."""

    def notify(self, text: str) -> None:
        """Something that stays to be read: why a profile is not measured, say."""

    def made(self, seconds: float) -> None:
        """Something that is no sample is done, of which so many seconds were expected: a profile is
        installed, a cell is cross-checked.
        """

    def cell(self, cell: Cell, block: int, blocks: int) -> None: ...

    def finished(self, cell: Cell, seconds: float, status: str, reason: str) -> None:
        """``seconds`` is what was expected of this sample; ``status`` is that of the store, or
        ``disturbed``.
        """

    def ranking(self, title: str, lines: Sequence[str]) -> None:
        """Who is ahead, provisionally, a line for each place; the last one counts."""

    def end(self) -> None: ...


class Silent:
    """Says nothing."""

    pace = math.inf

    def begin(self, samples: int, seconds: float) -> None: ...

    def stage(self, text: str) -> None: ...

    def notify(self, text: str) -> None: ...

    def made(self, seconds: float) -> None: ...

    def cell(self, cell: Cell, block: int, blocks: int) -> None: ...

    def finished(self, cell: Cell, seconds: float, status: str, reason: str) -> None: ...

    def ranking(self, title: str, lines: Sequence[str]) -> None: ...

    def end(self) -> None: ...


class Warnings(Silent):
    """Says what stays to be read, on stderr."""

    def notify(self, text: str) -> None:
        print(printable(text, newlines=False), file=sys.stderr, flush=True)


class _Clock:
    """Time left: what was expected of the rest, stretched as the part that is done was. The cells
    of a block in slices end all at once: the first of them says little, so that the expectation
    counts, too.
    """

    def __init__(self, samples: int, seconds: float) -> None:
        self.samples, self.done = samples, 0
        self._seconds, self._spent = seconds, 0.0
        self._start = time.monotonic()

    def spend(self, seconds: float) -> None:
        self._spent += seconds

    def count(self, seconds: float) -> None:
        self.done += 1
        self.spend(seconds)

    def left(self) -> str:
        known = _PRIOR * self._seconds
        stretch = (time.monotonic() - self._start + known) / (self._spent + known) if known else 1.0
        return duration(max(0.0, self._seconds - self._spent) * stretch)


def words(cell: Cell) -> str:
    """A cell as a person reads it."""
    family = " IPv6" if cell.ip == 6 else ""
    window = " (cycles)" if cell.window == "cpp" else ""
    path = "" if cell.path == "pod" else f" by {cell.path}"
    pair = f" pair {cell.pair}" if cell.pair else ""
    params = " ".join(f"{key}={value}" for key, value in cell.params.items())
    return f"{cell.label} {cell.placement}{path}{family} {cell.workload}{window}{pair}" + (
        f" [{params}]" if params else ""
    )


class Lines:
    """One line a sample and a ranking, for logs."""

    pace = 5.0

    def __init__(self, stream: IO[str] | None = None) -> None:
        self._stream = stream or sys.stderr
        self._clock = _Clock(0, 0.0)
        self._where = ""

    def begin(self, samples: int, seconds: float) -> None:
        self._clock = _Clock(samples, seconds)
        self._say(f"{plural(samples, 'sample')}, about {duration(seconds)}")

    def stage(self, text: str) -> None:
        self._say(text)

    def notify(self, text: str) -> None:
        self._say(text)

    def made(self, seconds: float) -> None:
        self._clock.spend(seconds)

    def cell(self, cell: Cell, block: int, blocks: int) -> None:
        self._where = f"block {block + 1}/{blocks}"

    def finished(self, cell: Cell, seconds: float, status: str, reason: str) -> None:
        self._clock.count(seconds)
        said = f"{status}: {reason}" if reason else status
        self._say(
            f"[{self._clock.done}/{self._clock.samples}] {self._where} {words(cell)}: {said};"
            f" {self._clock.left()} left"
        )

    def ranking(self, title: str, lines: Sequence[str]) -> None:
        self._say(f"{title}: {' | '.join(lines)}")

    def end(self) -> None: ...

    def _say(self, text: str) -> None:
        print(printable(text, newlines=False), file=self._stream, flush=True)


class Terminal:
    """The ranking above a bar. They are redrawn between samples and rounds only: a thread that
    redraws would take CPU time from what is measured.
    """

    pace = 1.0

    def __init__(self, *, colour: bool = True) -> None:
        self._console = console(sys.stderr, no_color=not colour)
        self._bar: Bar | None = None
        self._task: Any = None
        self._clock = _Clock(0, 0.0)
        self._ranking: list[str] = []

    def begin(self, samples: int, seconds: float) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
        from rich.progress import Progress as Bar
        from rich.text import Text

        ranking, console = self._ranking, self._console

        class Ranked(Bar):
            def get_renderables(self) -> Iterable[RenderableType]:
                width = max(_NARROW, console.width)
                for line in ranking:
                    wrapped = textwrap.fill(
                        line, width, subsequent_indent="  ", break_on_hyphens=False
                    )
                    yield Text(wrapped)
                yield from super().get_renderables()
                for task in self.tasks:
                    yield Text(task.description, no_wrap=True, overflow="ellipsis")

        self._clock = _Clock(samples, seconds)
        left = TextColumn("{task.fields[left]} left", markup=False)
        columns = (BarColumn(24), MofNCompleteColumn(), left)
        self._bar = Ranked(*columns, console=self._console, auto_refresh=False, transient=True)
        self._task = self._bar.add_task("", total=samples, left=duration(seconds))
        self._bar.start()

    def made(self, seconds: float) -> None:
        self._clock.spend(seconds)

    def stage(self, text: str) -> None:
        if self._bar is None:
            self.notify(text)
        else:
            self._update(description=text)

    def notify(self, text: str) -> None:
        self._console.print(text)

    def cell(self, cell: Cell, block: int, blocks: int) -> None:
        self._update(description=f"block {block + 1}/{blocks} {words(cell)}")

    def finished(self, cell: Cell, seconds: float, status: str, reason: str) -> None:
        self._clock.count(seconds)
        if reason:
            self.notify(f"{words(cell)}: {status}: {reason}")
        self._update(completed=self._clock.done, left=self._clock.left())

    def ranking(self, title: str, lines: Sequence[str]) -> None:
        self._ranking[:] = [printable(line, newlines=False) for line in (title, *lines)]
        self._update()

    def end(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _update(self, **what: Any) -> None:
        if self._bar is not None:
            self._bar.update(self._task, **what)
            self._bar.refresh()
