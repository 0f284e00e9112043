"""Differences of two listings, in words."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Sequence

from cnibench.listing.listing import Listing

SHOWN = 3  # lines of each side of a difference
_LONGEST = 240  # characters of each


def sections_of(found: Listing, place: str) -> Listing:
    """Those of one place, by their own names."""
    start = f"{place}: "
    return {key.removeprefix(start): lines for key, lines in found.items() if key.startswith(start)}


def common(before: Sequence[str], after: Sequence[str]) -> tuple[list[str], list[str]]:
    """Both without the keys that only one has: a module that somebody loads brings its own."""
    keys = {line.partition(" ")[0] for line in before} & {line.partition(" ")[0] for line in after}
    return (
        [line for line in before if line.partition(" ")[0] in keys],
        [line for line in after if line.partition(" ")[0] in keys],
    )


def difference(before: Sequence[str], after: Sequence[str]) -> tuple[str, str]:
    """(what is not there, what is there in its place), each with its first lines."""
    gone, new = [], []
    changes = difflib.unified_diff(before, after, lineterm="", n=0)
    for line in itertools.islice(changes, 2, None):  # the first two name the files
        if line.startswith("-"):
            gone.append(line[1:])
        elif line.startswith("+"):
            new.append(line[1:])
    return _shown(gone), _shown(new)


def _shown(lines: Sequence[str]) -> str:
    more = f" and {len(lines) - SHOWN} more" if len(lines) > SHOWN else ""
    return " | ".join(line[:_LONGEST] for line in lines[:SHOWN]) + more
