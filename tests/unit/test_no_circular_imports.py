"""No module of the product imports itself by way of others: neither when it is loaded nor later, in
a function, nor for its types. (import-linter checks this between packages, when they are loaded.)
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

PRODUCT = Path(__file__).parents[2] / "src" / "cnibench"
# A deployment hands itself to its parts, which import it for its type only.
WHOLES = {"cnibench.clusters.lab.deployment"}


def modules(top: Path) -> dict[str, Path]:
    """The file of each module below the package ``top``, by its name."""
    found = {}
    for folder, _, files in os.walk(top, followlinks=True):
        for file in files:
            path = Path(folder, file)
            if path.suffix == ".py":
                parts = path.relative_to(top.parent).with_suffix("").parts
                name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
                found[name] = path
    return found


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """All within it: an import is never part of an expression."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            yield child
            yield from statements(child)


def imported(name: str, path: Path, known: Mapping[str, Path]) -> Iterator[str]:
    """The modules of ``known`` that a module imports anywhere in its file."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in statements(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, *filter(None, [base])])
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                yield from [one for one in (inner if inner in known else base,) if one in known]


def circle(top: Path) -> list[str]:
    """The modules of a circle of imports, in its order; empty: there is none."""
    known = modules(top)
    graph = {name: set(imported(name, path, known)) - WHOLES for name, path in known.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_circle_of_modules() -> None:
    assert len(modules(PRODUCT)) > 400  # the linked folders are among them
    assert circle(PRODUCT) == []


def test_a_circle_is_noticed_wherever_its_imports_are(tmp_path: Path) -> None:
    package = tmp_path / "top"
    (package / "inner").mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "inner" / "__init__.py").touch()
    (package / "one.py").write_text("from typing import TYPE_CHECKING\nfrom top import two\n")
    (package / "two.py").write_text("def later():\n    from .inner.three import name\n")
    three = package / "inner" / "three.py"
    three.write_text("import top.inner\n")
    assert circle(package) == []
    three.write_text("if TYPE_CHECKING:\n    from ..one import name\n")
    assert set(circle(package)) == {"top.one", "top.two", "top.inner.three"}
    three.write_text("import top.one\n")
    assert set(circle(package)) == {"top.one", "top.two", "top.inner.three"}
