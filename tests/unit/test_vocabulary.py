"""Messages, documentation and docstrings are in the words of the field: none uses idioms that only
this project has.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("cli", "clusters", "collectors", "reports", "src/cnibench", "workloads")
PROSE = ("benchmarks", "docs", "tests")
BANNED = re.compile(
    r"\b(told apart|tells? (?:\w+ )?(?:\w+ )?apart|not told|was told|cannot be told"
    r"|stands?(?! (?:for|still)\b)|stood|anew|nothing to find|of the house|between the rooms|burnt"
    r"|is had|how sure|mends? (?:it|that|the|this)|whole copy|make room|beside each other"
    r"|(?:is|are) not whole|tells (?:no|nothing|nobody|its)|take over the results)\b",
    re.IGNORECASE,
)


def texts() -> Iterator[tuple[str, int, str]]:
    """(file, line, text) of every string and docstring of the product, and of all Markdown."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            for line, text in _strings(ast.parse(path.read_text(encoding="utf-8"))):
                yield name, line, text
    pages = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.html")]
    pages += [*ROOT.glob("*.md"), ROOT / "tox.ini"]
    pages += [path for folder in PROSE for path in (ROOT / folder).rglob("*.md")]
    for path in sorted(pages):
        yield path.relative_to(ROOT).as_posix(), 1, path.read_text(encoding="utf-8")


def _strings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """(line, text)"""
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = (p.value if isinstance(p, ast.Constant) else "x" for p in node.values)
            yield node.lineno, "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def test_no_text_has_an_idiom_of_our_own() -> None:
    found = [
        f"{name}:{line}: {match[0]}"
        for name, line, text in texts()
        for match in BANNED.finditer(" ".join(text.split()))
    ]
    assert found == []


@pytest.mark.parametrize(
    "text",
    [
        "two profiles were not told apart",
        "5 blocks cannot tell them apart",
        "the key 'a' stands twice",
        "the command that mends it",
        "the NIC tells no speed",
    ],
)
def test_idioms_are_recognised(text: str) -> None:
    assert BANNED.search(text)
