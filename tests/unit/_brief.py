"""The brief report as tests read it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence


def rows(lines: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
    """Its table: place to profile to what is said of it; a wide terminal has room for one."""
    at = next(n for n, line in enumerate(lines) if line.startswith("   "))
    labels = [(one.start(), one[0]) for one in re.finditer(r"\S+", lines[at])]
    ends = [start for start, _ in labels[1:]] + [None]
    found = {}
    for line in lines[at + 1 :]:
        if not line.startswith("tcp-"):
            break
        found[line[: labels[0][0]].strip()] = {
            label: line[start:end].strip() for (start, label), end in zip(labels, ends, strict=True)
        }
    return found
