"""One digest of many lines, so that ten thousand Services are compared at once."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256


def digest(lines: Iterable[str]) -> str:
    """Of lines whatever their order."""
    return sha256("\n".join(sorted(lines)).encode()).hexdigest()[:16]
