"""What fails in slices says what to do, where the user reads it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from cnibench import errors, run
from cnibench.errors import CnibenchError, MeasureError

FOLDER = Path(run.__file__).parent / "slices"
ERRORS = {
    name
    for name, one in vars(errors).items()
    if isinstance(one, type) and issubclass(one, CnibenchError)
}


def without_remedy(path: Path) -> list[str]:
    """Where an error is made of words alone. One that passes on what it was told has no remedy of
    its own.
    """
    return [
        f"{path.name}:{node.lineno}"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ERRORS
        and len(node.args) == 1
        and isinstance(node.args[0], (ast.Constant, ast.JoinedStr))
    ]


def test_every_error_has_a_remedy() -> None:
    modules = sorted(FOLDER.rglob("*.py"))
    assert len(modules) > 15
    assert [where for path in modules for where in without_remedy(path)] == []


@pytest.mark.parametrize(("remedy", "said"), [("wait", "too late; remedy: wait"), ("", "too late")])
def test_a_failed_sample_keeps_the_remedy(remedy: str, said: str) -> None:
    assert MeasureError("too late", remedy).in_full == said
