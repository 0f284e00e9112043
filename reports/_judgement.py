"""A judgement on a claim in words."""

from __future__ import annotations

from cnibench.claims import Judgement
from cnibench.model.units import human


def ours(one: Judgement) -> str:
    """The figures of it that were measured, '-' without any."""
    texts = (
        f"{figure.what} {human(figure.ours, figure.unit)}"
        for figure in one.figures
        if figure.ours is not None
    )
    return "; ".join(texts) or "-"
