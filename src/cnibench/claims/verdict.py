"""What a run says about a claim."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

Outcome = Literal[
    "holds", "does-not-hold", "inconclusive", "by-construction", "not-testable-here", "not-measured"
]


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One figure, published and ours, both in the SI base unit ``unit``; None where there is none.
    ``n`` is the number of blocks of ours.
    """

    what: str
    unit: str
    published: float | None = None
    ours: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    n: int = 0


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on one claim. ``where`` says under which conditions ours was measured; it is
    empty when nothing was.
    """

    study: str
    id: str
    source: str
    sentence: str
    kind: str
    verdict: Outcome
    reason: str
    figures: list[Figure] = []
    where: dict[str, Any] = {}
    contradicts: list[str] = []
    published: str = ""
