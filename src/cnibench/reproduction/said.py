"""A value as a study prints it: a number, about a number, or a range."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, JsonValue

from cnibench.model.profile import Strict

_TEXT = re.compile(r"(~?)(\d+(?:\.\d+)?)(?: to (\d+(?:\.\d+)?))?")


class Said(Strict):
    """``low`` and ``high`` are the same unless the study gives a range; ``about``: it rounds
    itself.
    """

    low: float = Field(ge=0.0)
    high: float = Field(ge=0.0)
    about: bool = False

    @property
    def middle(self) -> float:
        return (self.low + self.high) / 2

    def words(self) -> str:
        """``3.64``, ``approximately 45`` or ``18 to 19.7``."""
        text = f"{self.low:g}" if self.low == self.high else f"{self.low:g} to {self.high:g}"
        return f"approximately {text}" if self.about else text


def _read(value: Any) -> Any:
    """``3.64``, ``~45`` or ``18 to 19.7``."""
    match = None if isinstance(value, bool | dict | Said) else _TEXT.fullmatch(str(value))
    if not match:
        return value
    return {"low": float(match[2]), "high": float(match[3] or match[2]), "about": bool(match[1])}


Value = Annotated[Said, BeforeValidator(_read, json_schema_input_type=float | str)]
Params = dict[str, JsonValue]
