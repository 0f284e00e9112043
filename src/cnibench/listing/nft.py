"""The text of 'nft list ruleset' as lines that need no context."""

from __future__ import annotations

import re
from collections.abc import Sequence

_ELEMENTS, _ELEMENT = "elements = {", re.compile(r'(?:[^,"]|"[^"]*")+')


def with_blocks(lines: Sequence[str]) -> list[str]:
    """Each line of 'nft list ruleset' with the names of the table and the chain, set or map that it
    is in; of sets and maps each element is a line.
    """
    found, blocks, elements = list[str](), list[str](), ""
    for line in map(str.strip, lines):
        if elements or line.startswith(_ELEMENTS):
            elements = f"{elements} {line}".strip()
            if line.endswith("}"):
                found += [": ".join([*blocks, one]) for one in _elements(elements)]
                elements = ""
            continue
        if line == "}":
            del blocks[-1:]
        else:
            found.append(": ".join([*blocks, line.removesuffix("{").strip()]))
        if line.endswith("{"):
            blocks.append(line.removesuffix("{").strip())
    return found


def _elements(text: str) -> list[str]:
    """Of a set or map, in an order of their own: that of the kernel depends on all of them."""
    inner = text.removeprefix(_ELEMENTS).removesuffix("}")
    return sorted(one.strip() for one in _ELEMENT.findall(inner) if one.strip())
