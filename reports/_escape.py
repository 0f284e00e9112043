"""Text from runs made safe to show: control characters go, what a format takes as its own is
escaped.
"""

from __future__ import annotations

import json
import re
from typing import Any

from cnibench.system.text import HIDDEN

_LONGEST = 400


def plain(value: object, longest: int = _LONGEST) -> str:
    """One line without control characters, terminal escapes, surrogates or marks that turn the
    direction of writing; cut at ``longest``.
    """
    text = str(value)
    if text.isascii() and text.isprintable() and len(text) <= longest:
        return " ".join(text.split())  # nearly all are so, and reports ask a million times
    text = re.sub(r"\x1b\[[0-9;?]*[ -/]*[@-~]", "", text)
    kept = " ".join(HIDDEN.sub(lambda match: " " if match[0] in "\n\r\t" else "", text).split())
    return kept if len(kept) <= longest else kept[: longest - 1] + "…"


def markdown(value: object) -> str:
    """For a paragraph or a table's cell of Markdown: HTML and every mark that Markdown gives a
    meaning are escaped.
    """
    text = plain(value).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    # A name with underscores inside or a hyphen stays readable: they mean something only at the
    # edge of a word or of a line.
    text = re.sub(r"([\\`*\[\]|~#])", r"\\\1", text)
    text = re.sub(r"(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])", r"\\_", text)
    text = re.sub(r"^([+-]|\d+\.)(?=\s)", r"\\\1", text)
    return (
        re.sub(r"(?i)\b(https?|ftp):", r"\1&#58;", text)
        .replace("@", "&#64;")
        .replace("www.", "www&#46;")
    )


def cell(value: object) -> str:
    """For a cell of CSV: a spreadsheet must not take a name for a formula."""
    text = plain(value)
    return "'" + text if text[:1] in tuple("=+-@") else text


def script_json(value: Any) -> str:
    """JSON that may be in a script element: nothing in it ends the element or a line of script;
    no NaN.
    """
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
