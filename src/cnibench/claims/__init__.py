"""The findings of the published studies as data, and what a run says about each of them. Nothing
here renders or measures.
"""

from __future__ import annotations

from cnibench.claims.evaluate import evaluate
from cnibench.claims.model import Claim, Study, studies
from cnibench.claims.verdict import Figure, Judgement

__all__ = ["Claim", "Figure", "Judgement", "Study", "evaluate", "studies"]
