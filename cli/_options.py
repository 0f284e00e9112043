"""Options of ``cnibench run`` that only some kinds of cluster know: each ``_options_*.py`` here
offers some as ``OPTIONS``.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


@cache
def _offered() -> tuple[click.Option, ...]:
    stems = sorted(path.stem for path in Path(__file__).parent.glob("_options_*.py"))
    return tuple(
        option
        for stem in stems
        for option in importlib.import_module(f"cnibench.cli.{stem}").OPTIONS
    )


def cluster_options(function: F) -> F:
    """Adds them to a command; the modules import nothing heavy."""
    params = getattr(function, "__click_params__", [])
    function.__click_params__ = [*reversed(_offered()), *params]  # type: ignore[attr-defined]
    return function


def extra_of(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of these options that were given, for Options.extra."""
    names = [str(option.name) for option in _offered()]
    extra = {name: values[name] for name in names if values.get(name) not in (None, (), False)}
    if values.get("keep"):
        extra["keep"] = True
    return extra
