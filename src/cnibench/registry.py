"""Finds what stands in a room: every module there with a ``PROVIDER`` offers it. Adding a provider is adding one file."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from collections.abc import Iterator
from functools import cache
from typing import Any

from cnibench.errors import UsageError


@cache
def providers(room: str) -> dict[str, Any]:
    """Name to provider of ``cnibench.ROOM``; the name is the provider's ``name`` or ``kind``, modules starting with _ are private."""
    package = importlib.import_module(f"cnibench.{room}")
    found: dict[str, Any] = {}
    for info in sorted(pkgutil.iter_modules(package.__path__), key=lambda item: item.name):
        if info.name.startswith("_"):
            continue
        module = importlib.import_module(f"{package.__name__}.{info.name}")
        for provider in _offered(module):
            found[getattr(provider, "name", None) or provider.kind] = provider
    return found


def provider(room: str, name: str) -> Any:
    """One provider. Raises UsageError naming those that are there.

    Where a module is named as its provider (``tcp-rr``: tcp_rr.py) it alone is imported.
    """
    stem = name.replace("-", "_")
    own = f"cnibench.{room}.{stem}"
    if stem.isidentifier() and importlib.util.find_spec(own):
        for offered in _offered(importlib.import_module(own)):
            if name in (getattr(offered, "name", None), getattr(offered, "kind", None)):
                return offered
    found = providers(room)
    if name not in found:
        raise UsageError(f"there is no '{name}' in {room}", f"there are: {', '.join(found)}")
    return found[name]


def _offered(module: Any) -> Iterator[Any]:
    offer = getattr(module, "PROVIDER", ())
    yield from offer if isinstance(offer, tuple) else (offer,)
