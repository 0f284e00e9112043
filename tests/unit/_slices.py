"""Slices as rounds give them."""

from __future__ import annotations

from typing import Any

from cnibench.run.slices.slice import Slice


def slice_of(cell: str, number: int, rate: float, **more: Any) -> Slice:
    plain: dict[str, Any] = {
        "round": number,
        "cell": cell,
        "start": number * 0.1,
        "asked": 0.02,
        "seconds": 0.02,
        "units": rate * 0.02,
        "client": 0.008,
        "server": 0.008,
        "waited": 0.0,
    }
    return Slice(**plain | more)
