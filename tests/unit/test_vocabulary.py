"""What users read is in the words of the field: neither messages nor documentation use idioms that
only this project has.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("cli", "clusters", "collectors", "reports", "src/cnibench", "workloads")
BANNED = re.compile(
    r"\b(told apart|tells? (?:\w+ )?(?:\w+ )?apart|not told|was told|cannot be told|stands? twice"
    r"|stood still|nothing to find|of the house|between the rooms|burnt|is had|how sure"
    r"|mends? (?:it|that|the|this)|whole copy|make room|beside each other"
    r"|(?:is|are) not whole|tells (?:no|nothing|nobody|its)|take over the results)\b",
    re.IGNORECASE,
)
_KINDS = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def texts() -> Iterator[tuple[str, int, str]]:
    """(file, line, text) of every string of the product that may reach a user, and of every line of
    its documentation.
    """
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            tree = ast.parse(path.read_text(encoding="utf-8"))
            for line, text in _strings(tree, documented=not name.startswith("cli/")):
                yield name, line, text
        for path in sorted((ROOT / folder).rglob("*.html")):
            yield path.relative_to(ROOT).as_posix(), 1, path.read_text(encoding="utf-8")
    for path in (ROOT / "README.md", ROOT / "tox.ini", *sorted((ROOT / "docs").rglob("*.md"))):
        yield path.relative_to(ROOT).as_posix(), 1, path.read_text(encoding="utf-8")


def _strings(tree: ast.Module, *, documented: bool) -> Iterator[tuple[int, str]]:
    """(line, text); without docstrings where they are ``documented``, since no user sees them."""
    docstrings: set[int] = set()
    for node in ast.walk(tree):  # what contains a docstring comes before it
        if isinstance(node, ast.JoinedStr):
            parts = (p.value if isinstance(p, ast.Constant) else "x" for p in node.values)
            yield node.lineno, "".join(map(str, parts))
        elif isinstance(node, ast.Constant):
            if isinstance(node.value, str) and id(node) not in docstrings:
                yield node.lineno, node.value
        elif (
            documented
            and isinstance(node, _KINDS)
            and node.body
            and isinstance(node.body[0], ast.Expr)
        ):
            docstrings.add(id(node.body[0].value))


def test_no_text_for_users_has_an_idiom_of_our_own() -> None:
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
