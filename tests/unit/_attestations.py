"""A check of an attestation, as given observations make it."""

from __future__ import annotations

from typing import NamedTuple


class Check(NamedTuple):
    name: str
    expected: str
    observed: str
    passed: bool
    ip: int = 4
