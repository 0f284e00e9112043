"""Which component of the packet's path a kernel function belongs to: taxonomy.yaml, read and looked
up.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from cnibench.errors import InputError
from cnibench.system.files import read_named

FILE = Path(__file__).parent / "taxonomy.yaml"
IDLE = "idle"
_LARGEST = 1 << 20  # bytes
_WORDS = {
    int: "a whole number",
    str: "text",
    bool: "true or false",
    list: "a list",
    dict: "keys and values",
}
_OPTIONAL = {"color": str, "network": bool, "leaf": list}
_Loader = getattr(
    yaml, "CSafeLoader", yaml.SafeLoader
)  # in C where there is one: ten times as fast


class Component(NamedTuple):
    """``functions`` and ``leaf`` are names, or beginnings followed by ``*``; ``leaf`` ones count
    only as the sampled function. ``color`` is '' for those that are shown as part of 'other'.
    """

    title: str
    functions: tuple[str, ...]
    color: str = ""
    network: bool = False
    leaf: tuple[str, ...] = ()


class _Document(NamedTuple):
    version: int
    components: dict[str, Component]


class Taxonomy:
    """Looks functions up; ``components`` are in the order of the file, ``version`` is in every
    record made with it.
    """

    def __init__(self, document: _Document, name: str) -> None:
        self.version = document.version
        self.components = document.components
        self._functions = _Patterns(name)
        self._leaves = _Patterns(name)
        for component, entry in document.components.items():
            for pattern in entry.functions:
                self._functions.add(pattern, component)
            for pattern in entry.leaf:
                self._leaves.add(pattern, component)
        self._network = {
            component for component, entry in document.components.items() if entry.network
        }
        self.component = cache(self._component)

    def _component(self, function: str) -> str | None:
        """The component that names this function; None when none does."""
        return self._functions.find(function)

    def nearest(self, frames: Sequence[str]) -> str | None:
        """The component of a sample, ``frames`` leaf first: that of the nearest frame named; None
        when no frame is.
        """
        for frame in frames:
            found = self.component(frame)
            if found is not None:
                return found
        return self._leaves.find(frames[0]) if frames else None

    def is_network(self, function: str) -> bool:
        """Is this function work for packets, whoever's?"""
        return (
            function in ("net_rx_action", "net_tx_action")
            or self.component(function) in self._network
        )


class _Patterns:
    def __init__(self, name: str) -> None:
        self._name = name
        self._whole: dict[str, str] = {}
        self._beginnings: dict[str, str] = {}
        self._lengths: tuple[int, ...] = ()

    def add(self, pattern: str, component: str) -> None:
        table = self._beginnings if pattern.endswith("*") else self._whole
        key = pattern.removesuffix("*")
        if "*" in key or not key:
            raise InputError(
                f"{self._name}: '{pattern}' of {component}: expected a name, or a beginning"
                " followed by one *",
                "correct the pattern",
            )
        if key in table:
            raise InputError(
                f"{self._name}: '{pattern}' occurs in {table[key]} and in {component}",
                "leave it in one of them",
            )
        table[key] = component
        if table is self._beginnings:
            self._lengths = tuple(sorted({len(each) for each in table}, reverse=True))

    def find(self, function: str) -> str | None:
        found = self._whole.get(function)
        if found is not None:
            return found
        for length in self._lengths:
            found = self._beginnings.get(function[:length])
            if found is not None:
                return found
        return None


@cache
def load(path: Path = FILE) -> Taxonomy:
    """The taxonomy of a file, ours by default. Raises InputError naming the key."""
    try:
        found = yaml.load(read_named(path, _LARGEST).decode(), _Loader)
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise InputError(
            f"{path}: {error}", "a taxonomy is a YAML file like the one that is shipped"
        ) from None
    try:
        version, components = _keys(
            found, "the file", {"version": int, "components": dict}
        ).values()
        document = _Document(
            version,
            {
                str(name): _component(entry, f"components.{name}")
                for name, entry in components.items()
            },
        )
    except ValueError as error:
        raise InputError(f"{path}: {error}", "see cpp/taxonomy.yaml") from None
    return Taxonomy(document, path.name)


def _component(entry: Any, where: str) -> Component:
    fields = _keys(entry, where, {"title": str, "functions": list}, _OPTIONAL)
    for key in {"functions", "leaf"} & fields.keys():
        if not all(isinstance(name, str) for name in fields[key]):
            raise ValueError(f"{where}.{key}: expected names")
        fields[key] = tuple(fields[key])
    return Component(**fields)


def _keys(
    found: Any, where: str, needed: dict[str, type], possible: dict[str, type] | None = None
) -> dict[str, Any]:
    """Those of a mapping, ``needed`` first, each of its type, and no others. Raises ValueError.

    By hand: a library that checks documents would take longer to be imported than everything else
    that reads a recording.
    """
    if not isinstance(found, dict):
        raise ValueError(f"{where}: expected keys and values")
    known = {**needed, **(possible or {})}
    if wrong := [str(key) for key in found if key not in known]:
        raise ValueError(f"{where}: there is no key {', '.join(wrong)}")
    if missing := needed.keys() - found.keys():
        raise ValueError(f"{where}: the key {', '.join(sorted(missing))} is missing")
    for key, kind in known.items():
        if key in found and type(found[key]) is not kind:
            raise ValueError(f"{where}.{key}: expected {_WORDS[kind]}")
    return {key: found[key] for key in known if key in found}
