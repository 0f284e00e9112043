"""What a trend holds: the document of ``report --trend --format json``."""

from __future__ import annotations

from typing import Literal

import msgspec

from cnibench.analysis.model import Run, Where


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """One run's estimate: the geometric mean over its ``n`` blocks, or that of the ratios to the
    baseline. ``low`` to ``high`` is its 95 % interval between blocks, None where one block gives
    none.
    """

    run: str
    started: str
    n: int
    estimate: float
    low: float | None
    high: float | None


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """A fact that differs between ``run`` and the run before it."""

    run: str
    what: str


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """``run`` is the first of the new level; with the confidence of the report it is one from
    ``earliest`` to ``latest``. ``ratio`` is the new level divided by the old one. ``differs``:
    what is recorded to have changed with these runs.
    """

    run: str
    earliest: str
    latest: str
    ratio: float
    low: float
    high: float
    p: float
    direction: Literal["better", "worse"]
    differs: list[Difference]


class Series(Where, frozen=True, kw_only=True):
    """One label at one place. ``reason``: why no change points were looked for, else ''."""

    label: str
    points: list[Point]
    changes: list[Change] = []
    reason: str = ""


class Trend(msgspec.Struct, frozen=True, kw_only=True):
    """``runs`` by their start. Estimates are ratios to ``baseline`` where that is not ''."""

    schema: int
    problems: list[str]
    runs: list[Run]
    baseline: str
    level: float
    series: list[Series]
    summary: list[str]
    notes: list[str]
