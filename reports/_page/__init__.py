"""What the pages of the site and of the board share: page.html, and how templates are rendered."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment
    from jinja2.runtime import Context


def environment(folder: Path, shown: Callable[[Context, str], str]) -> Environment:
    """The templates of ``folder``; they can extend page.html. ``shown`` makes a string of a run
    one without control characters.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined, pass_context
    from markupsafe import Markup

    @pass_context
    def visible(context: Context, value: Any) -> Any:
        """The last gate before a page: it sees whatever a template prints."""
        text = isinstance(value, str) and not isinstance(value, Markup)
        return shown(context, value) if text else value

    return Environment(
        loader=FileSystemLoader([folder, Path(__file__).parent]),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=visible,
        trim_blocks=True,
        lstrip_blocks=True,
    )
