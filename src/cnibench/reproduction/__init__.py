"""The figures of the published studies as data: which cells give their points, the shorter plan
that measures these, and what a run says at each point. Nothing here renders or measures.
"""

from __future__ import annotations

from cnibench.reproduction.model import Figure, Figures, Panel, Series, figures
from cnibench.reproduction.points import Point, points
from cnibench.reproduction.reduction import reduced

__all__ = ["Figure", "Figures", "Panel", "Point", "Series", "figures", "points", "reduced"]
