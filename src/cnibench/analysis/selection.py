"""Which labels a report is about, and which of them ratios refer to."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from cnibench.analysis.comparison.contexts import Context
from cnibench.errors import UsageError


def restricted(labels: Sequence[str], only: Sequence[str]) -> list[str]:
    """Those that match one of the patterns ``only``, all without any, in their order. Raises
    UsageError for a pattern that matches none.
    """
    for pattern in only:
        if not any(fnmatchcase(label, pattern) for label in labels):
            raise _missing(pattern, labels)
    return [
        label
        for label in labels
        if not only or any(fnmatchcase(label, pattern) for pattern in only)
    ]


def without(context: Context, labels: Collection[str]) -> Context:
    """The same place without these labels."""
    return replace(
        context,
        members={name: one for name, one in context.members.items() if name not in labels},
        absent={name: one for name, one in context.absent.items() if name not in labels},
    )


def baseline_of(wished: str, labels: Sequence[str]) -> str:
    """The label that the ratios of all tables refer to: the one wished, else the first.

    Raises UsageError where it is not there.
    """
    if wished and wished not in labels:
        raise _missing(wished, labels)
    return wished or next(iter(labels), "")


def _missing(name: str, labels: Sequence[str]) -> UsageError:
    return UsageError(f"there is no '{name}' in this run", f"its labels: {', '.join(labels)}")
