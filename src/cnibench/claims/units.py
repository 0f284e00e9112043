"""The units that the studies write their figures in, and the SI base unit of each."""

from __future__ import annotations

# Table II of qi2021 says Gb/s and means 2^30 bit/s: its figures are requests/s times 5 MiB.
UNITS: dict[str, tuple[str, float]] = {
    "Gbit/s": ("bit/s", 1e9),
    "Gibit/s": ("bit/s", float(1 << 30)),
    "Mbit/s": ("bit/s", 1e6),
    "bit/s": ("bit/s", 1.0),
    "s": ("s", 1.0),
    "ms": ("s", 1e-3),
    "us": ("s", 1e-6),
    "1/s": ("1/s", 1.0),
    "1": ("1", 1.0),
    "MB": ("B", 1e6),
    "B": ("B", 1.0),
}


def base(value: float, unit: str) -> float:
    """``value`` of a study in its SI base unit."""
    return value * UNITS[unit][1]
