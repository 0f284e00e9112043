"""Values as the output of other tools has them, as numbers and figures."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from cnibench.errors import InputError
from cnibench.importers.batch import Figure

_LARGEST_FIGURE = (
    1e24  # beyond any figure of a network in any unit; sums and products of such are still numbers
)
_LARGEST_MTU = 65535
_BLANKS = re.compile(r"[ \t\r\n]*")


def json_of(text: str, path: Path) -> Any:
    """JSON text, in which NaN and Infinity are missing values. Raises InputError naming the
    line.
    """
    values = list(islice(json_values(text, path), 2))
    if len(values) == 1:
        return values[0]
    raise InputError(
        f"{path}, line 1: not JSON: expected one value, got {'several' if values else 'none'}",
        "check that this is the right file and complete",
    )


def json_values(text: str, path: Path) -> Iterator[Any]:
    """The JSON values that follow each other in a text. Raises InputError as ``json_of``."""
    decoder = json.JSONDecoder(parse_constant=lambda _: None)
    escaped = "\\u" in text  # half a surrogate pair can be escaped in JSON, and is no text
    try:
        at = _blank(text, 0)
        while at < len(text):
            value, at = decoder.raw_decode(text, at)
            if escaped:
                json.dumps(value, ensure_ascii=False).encode()
            yield value
            at = _blank(text, at)
    except json.JSONDecodeError as error:
        raise InputError(
            f"{path}, line {error.lineno}: not JSON: {error.msg}",
            "check that this is the right file and complete",
        ) from None
    except (RecursionError, ValueError):
        raise InputError(
            f"{path}: JSON that cannot be read (nested too deeply, numbers too long, no text)",
            "check that this is the right file",
        ) from None


def _blank(text: str, at: int) -> int:
    """Where the next value begins."""
    found = _BLANKS.match(text, at)
    return found.end() if found else at


def number(value: object) -> float | None:
    """A finite figure that is not negative, from text or JSON; None for everything else: null,
    blank, NaN, words.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if 0 <= found <= _LARGEST_FIGURE else None


def whole(value: object) -> int:
    """A size or a count; 0 where there is none, or an impossible one."""
    found = number(value)
    return int(found) if found is not None and found < 2**53 else 0


def mtu_of(value: object) -> int:
    """0 where there is none, or an impossible one."""
    found = whole(value)
    return found if found <= _LARGEST_MTU else 0


def moment(value: object) -> float | None:
    """Seconds since 1970 of a time in ISO 8601, in UTC unless it names another zone; None for
    everything else.
    """
    try:
        found = datetime.fromisoformat(str(value))
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def mapping(value: object) -> Mapping[str, Any]:
    """A JSON object; empty when it is something else."""
    return value if isinstance(value, dict) else {}


def figure(metric: str, value: object, what: str, scale: float = 1.0, **params: Any) -> Figure:
    """A figure of that metric; one that is missing says what was there."""
    found = number(value)
    if found is None:
        said = (
            "is missing"
            if value is None
            else "is blank"
            if str(value).strip() == ""
            else f"is no figure: {str(value)[:40]}"
        )
        return Figure(metric, None, params, f"{what} {said}")
    if not math.isfinite(found * scale):
        return Figure(metric, None, params, f"{what} is no possible figure: {str(value)[:40]}")
    return Figure(metric, found * scale, params)


def lines(text: str) -> Iterator[tuple[int, str]]:
    """(number, line) of the lines that are not blank, without blanks around them."""
    for at, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield at, line.strip()
