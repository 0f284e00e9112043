"""Text from files and tools, made fit for a terminal."""

from __future__ import annotations

import unicodedata

_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})


def printable(text: str) -> str:
    """One line without control characters, terminal escapes, surrogates or marks that turn the direction of writing."""
    return "".join("�" if unicodedata.category(letter) in _HIDDEN else letter for letter in text)
