"""Run directories in, an Analysis out: figures, verdicts, groups, what failed and what was not
tested. Nothing here renders or measures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cnibench.analysis.model import Analysis, Cpp, Failure, Group, Pair, Result

if TYPE_CHECKING:
    from cnibench.analysis.build import analyse

__all__ = ["Analysis", "Cpp", "Failure", "Group", "Pair", "Result", "analyse"]


def __getattr__(name: str) -> Any:
    """``analyse`` is imported when it is asked for. It needs numpy and scipy, which take longer to
    import than the preview of a plan takes, and that needs only the levels of the looks.
    """
    if name == "analyse":
        from cnibench.analysis.build import analyse

        return analyse
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
