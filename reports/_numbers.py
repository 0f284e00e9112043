"""Numbers of one column in one scale, with as many digits as its values need to differ."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

_DECIMAL = ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_TIME = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"))
_BYTES = ((float(1 << 30), "GiB"), (float(1 << 20), "MiB"), (float(1 << 10), "KiB"), (1.0, "B"))


@dataclass(frozen=True)
class Scale:
    """``scale(value)`` writes a value without its unit, which is ``unit``."""

    factor: float
    unit: str
    digits: int

    @classmethod
    def of(cls, values: Sequence[float], unit: str) -> Scale:
        """The scale in which the largest of ``values`` (SI base unit ``unit``) has one to three
        digits before the point.
        """
        largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
        steps = _TIME if unit == "s" else _BYTES if unit == "B" else _DECIMAL
        factor, name = next(((size, name) for size, name in steps if largest >= size), steps[-1])
        full = (
            name
            if unit in ("s", "B")
            else name + ("" if unit == "1" else "/s" if unit == "1/s" else unit)
        )
        scaled = largest / factor
        digits = 0 if scaled == 0 else min(6, max(0, 3 - math.floor(math.log10(scaled))))
        if (
            unit == "1"
            and factor == 1.0
            and all(float(value).is_integer() for value in values if math.isfinite(value))
        ):
            digits = 0  # counts
        return cls(factor, full, digits)

    def __call__(self, value: float) -> str:
        return f"{value / self.factor:.{self.digits}f}" if math.isfinite(value) else "-"

    def heading(self) -> str:
        """``, Gbit/s`` for a heading; '' for a plain number."""
        return f", {self.unit}" if self.unit else ""


def p_value(p: float | None) -> str:
    """``0.41``; three digits below 0.1, so that 0.052 is not taken for 0.05; ``<0.001`` below
    that.
    """
    if p is None:
        return "-"
    return "<0.001" if p < 0.001 else f"{p:.3f}" if p < 0.1 else f"{p:.2f}"
