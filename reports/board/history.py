"""The runs of a testbed over time: the main metric of each place, and where its level changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cnibench.analysis.text.places import describe
from cnibench.analysis.text.standings import named
from cnibench.analysis.trend.build import trend
from cnibench.analysis.trend.model import Series, Trend
from cnibench.errors import CnibenchError, InputError
from cnibench.model.metrics import METRICS
from cnibench.reports._escape import plain
from cnibench.reports._looks import Look, looks
from cnibench.reports._numbers import Scale
from cnibench.reports._trend import document
from cnibench.reports.board.repository import Found
from cnibench.reports.bundle import container
from cnibench.reports.bundle.unpacked import unpacked
from cnibench.reports.document.parts import Section, Table
from cnibench.reports.site.figures import specs
from cnibench.reports.site.figures.charts import Chart, drawing
from cnibench.rundir.reader import RunReader
from cnibench.system.files import read_beneath

_LONGEST = 200  # characters of a text from a bundle
_WIDTH = 640  # pixels; the page scales the picture
# On a page that is light or dark: the picture takes the page's colour of text.
_INK = "currentColor"
_FAINT = "rgba(128, 128, 128, 0.35)"
_STYLE: Mapping[str, Any] = {
    "background": None,
    "font": "sans-serif",
    "axis": {
        "labelColor": _INK,
        "titleColor": _INK,
        "domainColor": _INK,
        "tickColor": _INK,
        "gridColor": _FAINT,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
    },
    "legend": {"labelColor": _INK, "labelFontSize": 12, "labelLimit": 240, "symbolLimit": 60},
    "title": {"color": _INK, "fontSize": 14},
    "view": {"stroke": None},
}


@dataclass(frozen=True)
class Place:
    """One place's series: ``picture`` is an SVG element, '' with less than two values to draw."""

    section: Section
    picture: str


@dataclass(frozen=True)
class History:
    """``problem`` says why there are no series, else ''. ``changes`` is None without any."""

    testbed: str
    runs: list[str]
    problem: str
    summary: list[str]
    changes: Table | None
    places: list[Place]
    notes: list[str]


def of(folder: Path, found: Sequence[Found]) -> History:
    """The history of one testbed from its accepted bundles in the repository ``folder``.

    Raises InputError where a bundle is no longer the one that was verified.
    """
    testbed = found[0].testbed
    with ExitStack() as stack:
        readers = [RunReader(stack.enter_context(unpacked(_files(folder, one)))) for one in found]
        profiles = {label: one for run in readers for label, one in run.plan.profiles.items()}
        try:
            shown = trend(readers, allow_different=True)
        except CnibenchError as error:
            runs = [one.verified.run for one in found]
            return History(testbed, runs, error.message, [], None, [], [])
    return _history(testbed, shown, profiles)


def _files(folder: Path, one: Found) -> dict[str, bytes]:
    path = folder / one.path
    seal, files = container.opened(path, read_beneath(folder, one.path, container.LARGEST_FILE))
    if seal.sha256 != one.verified.sha256:
        raise InputError(f"{path}: it changed while the board was built", "build it again")
    return {name: content for name, content in files.items() if name != container.CONTENTS}


def _history(testbed: str, shown: Trend, profiles: Mapping[str, Any]) -> History:
    titled = document(shown).sections
    first, rest = titled[0], [one for one in titled[1:] if one.title != "Notes"]
    places: dict[str, list[Series]] = {}
    for name, one in zip(named(shown.series, describe), shown.series, strict=True):
        places.setdefault(name, []).append(one)
    known = looks({one.label: profiles.get(one.label, {}) for one in shown.series})
    alike = {plain(label, _LONGEST): look for label, look in known.items()}
    return History(
        testbed=testbed,
        runs=[run.id for run in shown.runs],
        problem="",
        summary=list(shown.summary),
        changes=first.tables[0] if first.tables else None,
        places=[
            Place(section, _picture(name, here, alike))
            for section, (name, here) in zip(rest, places.items(), strict=True)
        ],
        notes=list(shown.notes),
    )


def _picture(name: str, here: Sequence[Series], known: Mapping[str, Look]) -> str:
    """A line for each CNI, broken where its level changed."""
    first = here[0]
    scale = Scale.of([point.estimate for one in here for point in one.points], first.unit)
    metric = METRICS[first.metric].title if first.metric in METRICS else first.metric
    rows: list[specs.Row] = []
    for one in here:
        begins = {change.run for change in one.changes}
        level = 0
        for point in one.points:
            level += point.run in begins
            label = plain(one.label, _LONGEST)
            rows.append(
                {
                    "profile": label,
                    "line": f"{label} {level}",
                    "x": plain(point.started, 40),
                    "y": point.estimate / scale.factor,
                    "low": None if point.low is None else point.low / scale.factor,
                    "high": None if point.high is None else point.high / scale.factor,
                    "shown": scale(point.estimate),
                    "shown_x": plain(point.run, _LONGEST),
                }
            )
    if len({row["x"] for row in rows}) < 2:
        return ""
    title = f"{plain(name, _LONGEST)}: {metric}"
    spec = specs.lines(
        rows, known, "start of the run", f"{metric}{scale.heading()}", time=True, zero=False
    )
    about = f"{title}, a line for each CNI and level, a band for the 95 % interval."
    chart = Chart(title, about, spec, Table([], [], False))
    return drawing(chart, _WIDTH, _STYLE)
