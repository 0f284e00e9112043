"""What a document is made of: sections of paragraphs and tables, in plain text."""

from __future__ import annotations

import json
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Table:
    """Plain, unescaped text; the first column is the name, the others are numbers when
    ``numbers``.
    """

    heads: list[str]
    rows: list[list[str]]
    numbers: bool = True


@dataclass(frozen=True)
class Section:
    title: str
    tables: list[Table] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Document:
    title: str
    conditions: list[str]
    summary: list[str]
    sections: list[Section]


def text_of(value: object) -> str:
    """A value of a run's records as text: strings as they are, anything else as JSON, whole numbers
    without a point.
    """
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, str) else json.dumps(value)
