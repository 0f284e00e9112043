"""The parts of pages: links, filters, places with their charts, workloads and profiles."""

from __future__ import annotations

from dataclasses import dataclass, field

from cnibench.reports.document.parts import Table
from cnibench.reports.site.figures.charts import Chart
from cnibench.reports.site.places import Place


@dataclass(frozen=True)
class Link:
    """A page: its file, its name in links, and what it is about."""

    file: str
    name: str
    about: str = ""


@dataclass(frozen=True)
class Filter:
    """A coordinate that visitors can filter by; ``options`` are (value, in words)."""

    name: str
    title: str
    options: list[tuple[str, str]]


@dataclass(frozen=True)
class PlaceView:
    """A place with its charts, as a section of a page; ``chart`` is its ranking."""

    place: Place
    chart: Chart
    anchor: str
    charts: list[Chart] = field(default_factory=list)
    rules: list[Table] = field(default_factory=list)


@dataclass(frozen=True)
class WorkloadPage:
    link: Link
    name: str
    views: list[PlaceView]
    sweeps: list[Chart]
    left_out: int


@dataclass(frozen=True)
class ProfilePage:
    link: Link
    label: str
    title: str
    features: list[tuple[str, str]]
    figures: Table
    cycles: Table | None
    attested: Table
    failed: list[str]
    leads: list[str]
