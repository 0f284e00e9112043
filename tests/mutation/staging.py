"""A copy of the repository that mutmut can work on."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import libcst as cst

ROOT = Path(__file__).parents[2]
_LEFT_OUT = (".*", "__pycache__", "*.egg-info", "build", "dist", "runs")
# Decorators that take a function and return something that behaves the same when it is made later.
_DECORATORS = frozenset({"property", "lru_cache", "cache", "contextmanager"})


def stage(folder: Path, modules: Sequence[str], tests: Sequence[str]) -> list[str]:
    """Copies the repository to ``folder``, links between its folders resolved, and configures
    mutmut there for the files of src/cnibench that match ``modules``; the paths of these.

    What an earlier run left in ``folder/mutants`` stays, so that only what changed is run again.
    Raises ValueError when a pattern matches no file.
    """
    copy(folder)
    core = folder / "src" / "cnibench"
    found: list[Path] = []
    for pattern in modules:
        matched = [path for path in sorted(core.glob(pattern)) if path.name != "__init__.py"]
        if not matched:
            raise ValueError(f"no module matches {pattern}: see tool.cnibench-mutation")
        found += matched
    for path in found:
        source = path.read_text(encoding="utf-8")
        path.write_text(_undecorated(source), encoding="utf-8")
    _configure(folder, found, tests)
    return [str(path.relative_to(core)) for path in found]


def copy(folder: Path) -> None:
    """The repository as files and folders only: the folders that src/cnibench links to are there
    twice.
    """
    left_out = shutil.ignore_patterns(*_LEFT_OUT)
    shutil.copytree(ROOT, folder, dirs_exist_ok=True, ignore=left_out)


def _configure(folder: Path, modules: Sequence[Path], tests: Sequence[str]) -> None:
    others = [
        entry.name
        for entry in folder.iterdir()
        if entry.name not in ("mutants", "src", "tests", "pyproject.toml", ".hypothesis")
    ]
    options = ["-p", "no:cacheprovider", "-p", "no:xdist", "--hypothesis-profile=mutation"]
    config = (
        "\n[tool.mutmut]\n"
        'source_paths = ["src"]\n'
        f"only_mutate = {[str(path.relative_to(folder)) for path in modules]}\n"
        f"also_copy = {others}\n"
        f"pytest_add_cli_args = {options}\n"
        f"pytest_add_cli_args_test_selection = {list(tests)}\n"
        'process_isolation = "forkserver"\n'
        "timeout_multiplier = 5\n"
        "use_git_change_detection = false\n"
        "track_dependencies = false\n"
    )
    with (folder / "pyproject.toml").open("a", encoding="utf-8") as file:
        file.write(config)


def _undecorated(source: str) -> str:
    return cst.parse_module(source).visit(_Undecorate()).code


class _Undecorate(cst.CSTTransformer):
    """``@lru_cache(...) def f`` becomes ``def f`` and ``f = lru_cache(...)(f)``."""

    def leave_FunctionDef(
        self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef
    ) -> cst.FunctionDef | cst.FlattenSentinel[cst.BaseStatement]:
        if len(updated_node.decorators) != 1:
            return updated_node
        decorator = updated_node.decorators[0].decorator
        called = decorator.func if isinstance(decorator, cst.Call) else decorator
        if not isinstance(called, cst.Name) or called.value not in _DECORATORS:
            return updated_node
        again = cst.Assign(
            [cst.AssignTarget(updated_node.name)], cst.Call(decorator, [cst.Arg(updated_node.name)])
        )
        return cst.FlattenSentinel(
            [updated_node.with_changes(decorators=[]), cst.SimpleStatementLine([again])]
        )
