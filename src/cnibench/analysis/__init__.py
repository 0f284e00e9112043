"""Run directories in, an Analysis out: figures, verdicts, groups, what failed and what was not
tested. Nothing here renders or measures.
"""

from __future__ import annotations

from cnibench.analysis.build import analyse
from cnibench.analysis.model import Analysis, Cpp, Failure, Group, Pair, Result

__all__ = ["Analysis", "Cpp", "Failure", "Group", "Pair", "Result", "analyse"]
