"""What runs record of the machine, the programs and the CNIs, what the user said of them
(``--fact``), and how that differs from run to run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cnibench.analysis.comparability import settings_of
from cnibench.model.coordinates import MACHINE
from cnibench.rundir.reader import RunReader

_RECORDED = ("os", "sysctls")  # facts that need not agree, and explain changes
_NONE = "none"


class Facts:
    """Of runs, by their number; each is read once."""

    def __init__(self, readers: Sequence[RunReader]) -> None:
        self._readers = readers
        self._machine: dict[int, dict[str, str]] = {}

    def differing(self, one: int, other: int, labels: Sequence[str]) -> list[str]:
        """``kernel: 6.1.0 to 6.1.2``: what both recorded otherwise of the machine and of each of
        the labels.
        """
        ours, theirs = self._of_machine(one), self._of_machine(other)
        found = [
            f"{name}: {ours[name]} to {theirs[name]}"
            for name in ours
            if name in theirs and ours[name] != theirs[name]
        ]
        for label in labels:
            both = self._of_label(one, label), self._of_label(other, label)
            for old, new in zip(*both, strict=True):
                found += _differing(old, new, label)
        return found

    def _of_machine(self, run: int) -> dict[str, str]:
        if run not in self._machine:
            reader = self._readers[run]
            facts = {**reader.environment, "tool_version": reader.plan.tool_version}
            values = [(one, one.of(facts)) for one in MACHINE]
            found = {one.title: one.words(value) for one, value in values if value is not None}
            found |= _flat({name: facts[name] for name in _RECORDED if name in facts})
            self._machine[run] = {**reader.plan.facts, **found}
        return self._machine[run]

    def _of_label(self, run: int, label: str) -> list[dict[str, str] | None]:
        """Its profile, settings and what was installed; None for what is not recorded."""
        reader = self._readers[run]
        profile, installed = reader.plan.profiles.get(label), reader.installed.get(label)
        return [
            None if profile is None else _flat(profile, "profile"),
            {"settings": settings_of(reader.plan.plan, label)},
            _flat(installed, "installed") if isinstance(installed, Mapping) else None,
        ]


def _differing(
    old: Mapping[str, str] | None, new: Mapping[str, str] | None, label: str
) -> Iterator[str]:
    if old is None or new is None:
        return
    for name in dict.fromkeys((*old, *new)):
        ours, theirs = old.get(name) or _NONE, new.get(name) or _NONE
        if ours != theirs:
            yield f"{label}, {name}: {ours} to {theirs}"


def _flat(value: Any, name: str = "") -> dict[str, str]:
    """A document's values by their paths."""
    if isinstance(value, Mapping):
        found: dict[str, str] = {}
        for key, inner in value.items():
            found |= _flat(inner, f"{name} {key}".strip())
        return found
    return {name: str(value)}
