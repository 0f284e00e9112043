"""Durations, sizes, percentages and rates, as people write and read them."""

from __future__ import annotations

import re

from cnibench.errors import UsageError

_SECONDS = {"": 1.0, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_BYTES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_LARGEST = 1e100  # beyond any figure; sums and products of such are still numbers
_NUMBER = r"\s*(\d{1,18}(?:\.\d+)?)\s*"  # more digits may be beyond any float


def is_number(value: object) -> bool:
    """Is it a finite number that one can calculate with? (``math.isfinite`` raises OverflowError
    for large integers, which data of others may hold.)
    """
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _LARGEST


def seconds(text: str) -> float:
    """``'10s'``, ``'500ms'``, ``'2m'``, ``'1h'`` or a plain number, in seconds. Raises
    UsageError.
    """
    match = re.fullmatch(_NUMBER + r"(ms|s|min|m|h|)\s*", text.lower())
    if not match:
        raise UsageError(f"'{text}' is not a duration", "write 10s, 500ms, 2m or 1h")
    return float(match[1]) * _SECONDS[match[2]]


def size(text: str) -> int:
    """``'4M'``, ``'16k'``, ``'1500'`` in bytes (binary multiples, as netperf takes them). Raises
    UsageError.
    """
    match = re.fullmatch(_NUMBER + r"([kmg]?)i?b?\s*", text.lower())
    if not match:
        raise UsageError(f"'{text}' is not a size", "write 1500, 16k, 4M or 1G")
    return int(float(match[1]) * _BYTES[match[2]])


def fraction(text: str) -> float:
    """``'2%'`` or ``'0.02'`` as 0.02. Raises UsageError."""
    match = re.fullmatch(_NUMBER + r"(%?)\s*", text)
    if not match:
        raise UsageError(f"'{text}' is not a percentage", "write 2% or 0.02")
    return float(match[1]) / (100.0 if match[2] else 1.0)


def bits_per_second(text: str) -> float:
    """``'50M'``, ``'1.5G'`` in bit/s (decimal multiples, as iperf3 takes them). Raises
    UsageError.
    """
    match = re.fullmatch(_NUMBER + r"([kmgKMG]?)(?:bit/s|bps|)\s*", text)
    if not match:
        raise UsageError(f"'{text}' is not a rate", "write 50M or 1G (bit/s)")
    return float(match[1]) * {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9}[match[2].lower()]


_PREFIXES = ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))


def human(value: float, unit: str) -> str:
    """A value in an SI base unit with three significant digits and a prefix: ``human(1.4e10,
    'bit/s')`` -> ``'14.0 Gbit/s'``.
    """
    if unit == "s":
        for scale, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
            if abs(value) >= scale:
                return f"{_three(value / scale)} {name}"
        return f"{_three(value * 1e6)} us"
    if unit == "B":
        for scale, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
            if abs(value) >= scale:
                return f"{_three(value / scale)} {name}"
        return f"{_three(value)} B"
    if unit == "1" and abs(value) < 1000 and float(value).is_integer():
        return f"{value:.0f}"  # a count
    suffix = "/s" if unit == "1/s" else "" if unit == "1" else unit
    for scale, prefix in _PREFIXES:
        if abs(value) >= scale:
            return f"{_three(value / scale)} {prefix}{suffix}".rstrip()
    return f"{_three(value)} {suffix}".rstrip()


def _three(value: float) -> str:
    magnitude = abs(value)
    digits = 0 if magnitude >= 100 else 1 if magnitude >= 10 else 2
    return f"{value:.{digits}f}"


def plural(number: int, noun: str) -> str:
    """``'1 block'``, ``'3 blocks'``."""
    return f"{number} {noun}{'s' * (number != 1)}"


def duration(value: float) -> str:
    """Seconds as people say them: ``'1 h 03 min'``, ``'2 min 05 s'``, ``'4.2 s'``."""
    if value < 60:
        return f"{value:.1f} s" if value < 10 else f"{value:.0f} s"
    minutes, rest = divmod(round(value), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"
