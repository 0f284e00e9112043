"""The digest of a model's description: the profile's part about the lab, and the program text of
the builder, of the rules, of the daemons and of the programs in C that it is made of.
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from cnibench.clusters.lab.builders.base import builder_of
from cnibench.model.profile import Profile

# Packages, and modules of others, that make a model's kernel objects. What only both sides have
# alike (nodes, Pods' namespaces, the wire) is no part of a model.
_MAKERS = (
    *("datapaths.", "builders.", "rules.", "daemons.", "ebpf."),
    *("namespaces.links", "namespaces.features"),
)
_PACKAGES = tuple(f"cnibench.clusters.lab.{name}" for name in _MAKERS)
_LAB = Path(__file__).parents[1]
_EBPF = "cnibench.clusters.lab.ebpf"
_PROGRAM = "cnibench.clusters.lab.daemons.processes.program"
# No part of a certificate: kube-proxy's rules are the model's on both sides.
_APART = ("cnibench.clusters.lab.rules.kubeproxy", "cnibench.clusters.lab.rules.entries")


def model_digest(profile: Profile) -> str:
    """SHA-256, hexadecimal. Comments, docstrings and line breaks do not change it. Raises
    InputError when the profile has no model.
    """
    assert profile.datapath is not None
    builder, _ = builder_of(profile)
    sha = hashlib.sha256(json.dumps(profile.datapath.model_dump(), sort_keys=True).encode())
    modules = sorted(_modules(builder))
    for name in modules:
        sha.update(f"{name}\0{_of_module(name)}\0".encode())
    imported = {one for name in modules for one in _imports(name)}
    if any(one.startswith(_EBPF) for one in imported):
        sha.update(_of_programs(_LAB / "bpf").encode())
    if _PROGRAM in imported:
        sha.update(_of_programs(_LAB / "programs").encode())
    return sha.hexdigest()


def _modules(builder: type) -> set[str]:
    """Those of the builder, of what it inherits from, and what these import of the packages."""
    found: set[str] = set()
    waiting = [cls.__module__ for cls in builder.__mro__]
    while waiting:
        name = waiting.pop()
        if name in found or name in _APART or not name.startswith(_PACKAGES):
            continue
        found.add(name)
        waiting += [one for one in _imports(name) if _is_module(one)]
    return found


@cache
def _imports(name: str) -> tuple[str, ...]:
    """The modules that a module imports, and each name in them, which may be a module, too."""
    return tuple(
        found
        for node in ast.walk(_tree(name))
        if isinstance(node, ast.ImportFrom) and node.module
        for found in (node.module, *(f"{node.module}.{one.name}" for one in node.names))
    )


@cache
def _of_programs(folder: Path) -> str:
    """Of the sources of all programs in C: a change of one that a model does not load counts, too,
    comments included.
    """
    sha = hashlib.sha256()
    for path in sorted([*folder.glob("*.c"), *folder.glob("*.h")]):
        sha.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return sha.hexdigest()


def _is_module(name: str) -> bool:
    return name.startswith(_PACKAGES) and _path(name) is not None


def _path(name: str) -> Path | None:
    """The file of a module of the lab; None when it is none."""
    path = _LAB.joinpath(*name.removeprefix("cnibench.clusters.lab.").split(".")).with_suffix(".py")
    return path if path.is_file() else None


@cache
def _tree(name: str) -> ast.Module:
    path = _path(name)
    assert path is not None
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def _of_module(name: str) -> str:
    return hashlib.sha256("\0".join(_words(_tree(name))).encode()).hexdigest()


def _words(node: ast.AST) -> Iterator[str]:
    """The syntax tree without docstrings and empty fields, which differ between versions of
    Python.
    """
    yield type(node).__name__
    for field, value in ast.iter_fields(node):
        if field == "body" and isinstance(value, list) and _has_docstring(node):
            value = value[1:]
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, ast.AST):
                yield field
                yield from _words(one)
            elif one is not None:
                yield f"{field}={one!r}"


def _has_docstring(node: ast.AST) -> bool:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return isinstance(node, kinds) and ast.get_docstring(node, clean=False) is not None
