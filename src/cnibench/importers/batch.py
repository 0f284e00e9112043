"""What a reader of another tool's results hands over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from cnibench.errors import InputError, UsageError

UNKNOWN = "not recorded"
_MOST_RESULTS = 100_000
_LONGEST_NAME = 1000  # characters of a label or a test's name
_LONGEST_FACT = 200
_NAMED = 12  # tests that a note names


@dataclass(frozen=True)
class Given:
    """What the user says beside the files: ``label`` names the results, ``placement`` is intra or
    inter, ``workload`` the test, ``unit`` the letter of netperf's -f; '' where the files tell it.
    """

    label: str = ""
    placement: str = ""
    workload: str = ""
    unit: str = ""


@dataclass(frozen=True)
class Figure:
    """One figure in the SI base unit of its metric. ``value`` None: it is missing, ``reason`` says
    how; it stays missing.
    """

    metric: str
    value: float | None
    params: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""

    @property
    def failure(self) -> str:
        """Why a measurement failed whose main figure this is, '' if it did not: 0 is no result."""
        return self.reason or ("" if self.value else f"its {self.metric} is 0")


@dataclass(frozen=True)
class Result:
    """One measurement of another tool. Without figures it failed, and ``reason`` says why.
    ``start`` and ``end`` in s since 1970, or None.

    ``repeat`` is its block where the files number their repeats; None: they are counted in the
    order of the results. ``ip`` and ``mtu`` are 0 where they are not recorded. ``untold`` names the
    parameters that the output of a failed one does not tell, though it had them.
    """

    label: str
    placement: str
    workload: str
    params: Mapping[str, Any]
    figures: tuple[Figure, ...]
    file: Path
    reason: str = ""
    path: str = UNKNOWN
    fidelity: str = UNKNOWN
    ip: int = 0
    mtu: int = 0
    repeat: int | None = None
    start: float | None = None
    end: float | None = None
    duration: float = 0.0  # s; 0: that of the batch
    untold: tuple[str, ...] = ()


@dataclass
class Batch:
    """All results of one import of ``root``; ``given`` is what the user says. ``facts`` are those
    of env.json that the files tell, ``notes`` what was left out, ``not_run`` the tests (label,
    test) that the other tool did not start: they are neither results nor failures.
    """

    root: Path
    given: Given = Given()
    results: list[Result] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    duration: float = 0.0
    not_run: list[tuple[str, str]] = field(default_factory=list)

    def add(self, found: Iterable[Result]) -> None:
        """Results of the hosts' own network belong to no CNI: their label is host, unless the user
        gave one. Raises InputError when there are too many.
        """
        for result in found:
            own = result.fidelity == "baseline" and not self.given.label
            one = replace(result, label="host") if own else result
            if len(one.label) > _LONGEST_NAME or len(one.workload) > _LONGEST_NAME:
                raise InputError(
                    f"{one.file}: a name of more than {_LONGEST_NAME} characters",
                    "name the results with --label",
                )
            self.results.append(one)
            if len(self.results) > _MOST_RESULTS:
                raise InputError(
                    f"{self.root}: more than {_MOST_RESULTS:,} results", "import it in parts"
                )

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def fact(self, name: str, value: object) -> None:
        """A fact of env.json, unless it is blank; two different values become 'several'."""
        text = str(value or "").strip()[:_LONGEST_FACT]
        if text:
            self.facts[name] = text if self.facts.get(name, text) == text else "several"

    def facts_of(self, found: Mapping[str, Any], **keys: str) -> None:
        """The facts of those names, each from its key."""
        for name, key in keys.items():
            self.fact(name, found.get(key))

    def remarks(self) -> list[str]:
        """The notes and, at their end, what was not run."""
        tests = dict.fromkeys(f"{label}: {test}" for label, test in self.not_run)
        more = f" and {len(tests) - _NAMED} more" if len(tests) > _NAMED else ""
        said = f"not run: {'; '.join(list(tests)[:_NAMED])}{more}"
        return [*self.notes, *([said] if tests else [])]


class Reader(Protocol):
    """One format. ``read`` raises InputError naming the file and the line, or UsageError when the
    user must say more.
    """

    name: str
    title: str

    def read(self, path: Path, given: Given) -> Batch: ...


def placement_of(given: Given, tool: str, *nodes: object) -> str:
    """The placement that the names of both ends' nodes tell, else the one that the user gave.
    Raises UsageError when there is neither.
    """
    if nodes and all(nodes):
        return "intra" if nodes[0] == nodes[1] else "inter"
    if not given.placement:
        raise UsageError(
            f"the output of {tool} does not say where its ends ran",
            "say it: --placement intra (one node) or --placement inter",
        )
    return given.placement
