"""Finds the providers of a package: every module in it with a ``PROVIDER``, and those that other
installed packages offer as entry points of the group ``cnibench.PACKAGE``. Adding one is adding one
file.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from collections.abc import Iterator
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from cnibench.errors import MissingError, UsageError

_WORDS = {
    "clusters": "kind of cluster",
    "collectors": "collector",
    "importers": "format of results",
    "reports": "format of reports",
    "workloads": "workload",
}  # what users call a provider of each package


@cache
def providers(package: str) -> dict[str, Any]:
    """Name to provider of ``cnibench.PACKAGE``; modules whose name starts with _ are private.

    Raises MissingError when an installed package offers what cannot be imported, UsageError when
    two providers have one name.
    """
    own = importlib.import_module(f"cnibench.{package}")
    found: dict[str, Any] = {}
    for info in sorted(pkgutil.iter_modules(own.__path__), key=lambda item: item.name):
        if not info.name.startswith("_"):
            module = importlib.import_module(f"{own.__name__}.{info.name}")
            found.update((name_of(one), one) for one in _offered(getattr(module, "PROVIDER", ())))
    for point in _entry_points(package):
        for one in _offered(_load(point)):
            name = name_of(one)
            if name in found:
                raise UsageError(
                    f"two providers in {package} are called '{name}'; one is from {_origin(point)}",
                    "uninstall that package",
                )
            found[name] = one
    return found


def provider(package: str, name: str) -> Any:
    """One provider. Raises UsageError naming those that are there, and as ``providers``.

    Where a module is named as its provider (``tcp-rr``: tcp_rr.py) it alone is imported. Of
    ``ssh://A,ssh://B`` it is what the provider ``ssh`` makes of it (``at``).
    """
    scheme, separator, _ = name.partition("://")
    if separator and hasattr(found := provider(package, scheme), "at"):
        return found.at(name)
    stem = name.replace("-", "_")
    own = f"cnibench.{package}.{stem}"
    if stem.isidentifier() and importlib.util.find_spec(own):
        for offered in _offered(getattr(importlib.import_module(own), "PROVIDER", ())):
            if name == name_of(offered):
                return offered
    found = providers(package)
    if name not in found:
        what = _WORDS.get(package, f"one of the {package}")
        raise UsageError(f"there is no {what} '{name}'", f"there are: {', '.join(found)}")
    return found[name]


def name_of(provider: Any) -> str:
    """What users call a provider: its ``name``, or the ``kind`` of a cluster."""
    return str(getattr(provider, "name", None) or provider.kind)


@cache
def packages_of(package: str) -> dict[str, str]:
    """Program to the Debian package that has it, for all programs that the providers of a package
    declare as their ``tools``.
    """
    return {
        tool: debian for one in providers(package).values() for tool, debian in one.tools.items()
    }


@cache
def folders(package: str) -> tuple[Path, ...]:
    """The folders of data files (profiles) that installed packages offer: each entry point names a
    module, whose folder it is.

    Raises MissingError.
    """
    return tuple(Path(path) for point in _entry_points(package) for path in _load(point).__path__)


def _entry_points(package: str) -> list[EntryPoint]:
    return sorted(entry_points(group=f"cnibench.{package}"), key=lambda point: point.name)


def _load(point: EntryPoint) -> Any:
    try:
        return point.load()
    except Exception as error:
        raise MissingError(
            f"{_origin(point)} offers '{point.name}' ({point.value}), which cannot be imported:"
            f" {type(error).__name__}: {error}",
            "update or uninstall that package",
        ) from error


def _origin(point: EntryPoint) -> str:
    return f"the package {point.dist.name} {point.dist.version}" if point.dist else "a package"


def _offered(offer: Any) -> Iterator[Any]:
    yield from offer if isinstance(offer, tuple) else (offer,)
