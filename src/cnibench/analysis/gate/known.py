"""What the lines of a history say, line by line, each held against those before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from cnibench.analysis.comparability import between, differences
from cnibench.analysis.gate.evidence import circumstances_of
from cnibench.analysis.gate.history import History, Look, Run
from cnibench.errors import InputError

_NEW = "begin a new history in another file"
_OTHER = "'--threshold' and '--metric' belong to a history; begin a new one in another file"


@dataclass(frozen=True)
class Question:
    """What a gate asks; the same in all looks of a history."""

    threshold: float
    metrics: tuple[str, ...]
    how: Literal["blocks", "runs"]


class Known:
    """What the lines read so far say."""

    def __init__(self, history: History) -> None:
        self.path = history.path
        self.lines: dict[tuple[str, str], int] = {}
        self.base: dict[tuple[str, str], Run] = {}
        self.candidate: dict[tuple[str, str], Run] = {}
        self.versions: list[tuple[Look, Any]] = []
        self.question: Question | None = None

    def add(self, look: Look, number: int) -> None:
        place = f"line {number}"
        self.same_question(Question(look.threshold, tuple(look.metrics), look.how), place)
        for run in look.runs:
            name = (run.id, run.label)
            if name in self.lines:
                raise InputError(
                    f"{self.path}, {place}: has the run {run.id}:{run.label}, which line"
                    f" {self.lines[name]} has already",
                    "restore the file from a complete copy: each run counts once",
                )
            as_base = name in look.base
            if as_base == (name in look.candidate):
                raise InputError(
                    f"{self.path}, {place}: the run {run.id}:{run.label} must be of the base or of"
                    " the candidate",
                    _NEW,
                )
            self.agrees(run, base=as_base, place=place)
            (self.base if as_base else self.candidate)[name] = run
            self.lines[name] = number
        for names, there in ((look.base, self.base), (look.candidate, self.candidate)):
            if absent := [name for name in names if name not in there] or [("", "")] * (not names):
                raise InputError(
                    f"{self.path}, {place}: no line has the run {':'.join(absent[0])}", _NEW
                )
        version = one_version([self.candidate[name] for name in look.candidate])
        count = 1 + sum(seen == version for _, seen in self.versions)
        if look.look != count:
            raise InputError(
                f"{self.path}, {place}: says look {look.look} at its candidate, it is look {count}",
                "restore the file from a complete copy",
            )
        if look.how == "blocks" and sorted(one for one, _ in look.base) != sorted(
            one for one, _ in look.candidate
        ):
            raise InputError(
                f"{self.path}, {place}: base and candidate are not of the same runs", _NEW
            )
        self.versions.append((look, version))

    def same_question(self, question: Question, place: str) -> None:
        first = self.question = self.question or question
        for title, ours, theirs in (
            ("threshold", f"{first.threshold:.6g}", f"{question.threshold:.6g}"),
            ("metrics", _list(first.metrics), _list(question.metrics)),
            ("compared", _how(first.how), _how(question.how)),
        ):
            if ours != theirs:
                raise InputError(
                    f"{self.path}: {title}: {ours} in line 1, {theirs} in {place}", _OTHER
                )

    def is_new(self, run: Run) -> bool:
        """Raises InputError when the history has it with other content."""
        name = (run.id, run.label)
        known = self.base.get(name) or self.candidate.get(name)
        if known is not None and (changed := _changed(known, run)):
            raise InputError(
                f"{self.path}, line {self.lines[name]}: the run {run.id}:{run.label} was another"
                f" one then: {changed}",
                "a run that was looked at must stay as it is; measure more in a new run",
            )
        return known is None

    def same_role(self, run: Run, *, base: bool, place: str) -> None:
        name = (run.id, run.label)
        if name in (self.candidate if base else self.base):
            raise InputError(
                f"{self.path}: {run.id}:{run.label} is of the {'candidate' if base else 'base'} in"
                f" line {self.lines[name]}, of the {'base' if base else 'candidate'} in {place}",
                _NEW,
            )

    def agrees(self, run: Run, *, base: bool, place: str) -> None:
        first = next(iter(self.base.values()), None)
        if first is None:
            return
        ours, theirs = circumstances_of(first), circumstances_of(run)
        found = between(ours, theirs, first.label, run.label, one_run=first.id == run.id)
        if base and run.label != first.label:
            found.append(f"label of the base: {first.label} against {run.label}")
        elif base:
            found = list(dict.fromkeys([*found, *differences(ours, theirs)]))
        if found:
            raise InputError(
                f"{self.path}: {first.id} in line {self.lines[first.id, first.label]} and {run.id}"
                f" in {place} are not comparable: {'; '.join(found)}",
                f"measure as before, or {_NEW}",
            )


def version_of(run: Run) -> Any:
    """What makes it the same candidate: its label, profile, settings and what was installed."""
    own = {**run.labels.get(run.label, {})}
    own.pop("fidelity", None)
    return (run.label, own)


def one_version(runs: Sequence[Run]) -> Any:
    first = runs[0]
    for run in runs[1:]:
        if version_of(run) != version_of(first):
            said = differences(circumstances_of(first), circumstances_of(run))
            raise InputError(
                f"the candidate's runs {first.id} and {run.id} are not of one candidate:"
                f" {'; '.join(said) or f'{first.label} against {run.label}'}",
                "name runs of one candidate: a history keeps candidates apart",
            )
    return version_of(first)


def _changed(known: Run, run: Run) -> str:
    """The first difference with both values; '' without any."""
    ours = {(one.where.metric, _text(one.where)): one for one in known.cells}
    theirs = {(one.where.metric, _text(one.where)): one for one in run.cells}
    for key in (*ours, *theirs):
        one, other = ours.get(key), theirs.get(key)
        if one is None or other is None:
            there, here = (f"{'no ' * (x is None)}{key[0] or 'figure'}" for x in (one, other))
            return f"{there} there, {here} here"
        for block in sorted({*one.values, *other.values}):
            a, b = one.values.get(block), other.values.get(block)
            if a != b:
                return f"{key[0]} in block {block}: {_value(a)} there, {_value(b)} here"
        for title in ("tried", "failed", "disturbed"):
            a_blocks, b_blocks = getattr(one, title), getattr(other, title)
            if a_blocks != b_blocks:
                return f"{key[0]}: {len(a_blocks)} blocks {title} there, {len(b_blocks)} here"
    found = differences(circumstances_of(known), circumstances_of(run))
    return "; ".join(found)


def _text(where: Any) -> str:
    return repr(where)


def _value(value: float | None) -> str:
    return "nothing" if value is None else f"{value:.10g}"


def _list(metrics: Sequence[str]) -> str:
    return ", ".join(metrics) or "the main ones"


def _how(how: str) -> str:
    return "block by block" if how == "blocks" else "runs against runs"
