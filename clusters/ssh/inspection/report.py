"""What a machine reports: scripts/inspect.sh's output, parsed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

PORTS = "6443 2379 2380 10250 10257 10259"  # of a control plane and a kubelet


@dataclass(frozen=True)
class Seen:
    """``facts`` are the script's lines."""

    facts: Mapping[str, str]

    def __getitem__(self, name: str) -> str:
        return self.facts.get(name, "")

    def words(self, name: str) -> list[str]:
        return self[name].split()

    def number(self, name: str) -> int:
        """0 where it is not reported."""
        return int(self[name]) if self[name].isdecimal() else 0

    @property
    def tools(self) -> set[str]:
        return set(self.words("tools"))


def seen(output: str) -> Seen:
    """Lines of KEY=VALUE."""
    pairs = (line.partition("=") for line in output.splitlines())
    return Seen({key: value.strip() for key, equals, value in pairs if equals})
