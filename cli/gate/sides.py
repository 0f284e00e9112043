"""The runs and labels that a gate compares: found by name, and checked to be comparable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from cnibench.errors import UsageError

if TYPE_CHECKING:
    from cnibench.analysis.samples.series import Gathered
    from cnibench.rundir.reader import RunReader


class Chosen(NamedTuple):
    reader: RunReader
    label: str


def sides(text: str, folder: Path) -> list[Chosen]:
    """``RUN[:LABEL],RUN[:LABEL],...``; a label after the last one holds for all that name none."""
    from cnibench.rundir.index import find
    from cnibench.rundir.reader import RunReader

    found: list[tuple[RunReader, str]] = []
    for item in (part.strip() for part in text.split(",")):
        name, colon, label = (item, "", "") if Path(item).is_dir() else item.rpartition(":")
        if not colon:
            name, label = item, ""
        if not name:
            raise UsageError(f"'{text}' names no run", "write RUN or RUN:PROFILE")
        found.append((RunReader(find(name, folder)), label))
    last = found[-1][1]
    return [Chosen(reader, _label(reader, label or last)) for reader, label in found]


def _label(reader: RunReader, label: str) -> str:
    known = [*reader.plan.profiles, *(one.label for one in reader.plan.unsupported)]
    if label and label not in known:
        raise UsageError(f"{reader.id} has no profile '{label}'", f"it has: {', '.join(known)}")
    if not label and len(reader.plan.profiles) != 1:
        raise UsageError(
            f"{reader.id} has {len(reader.plan.profiles)} profiles",
            f"name one: RUN:PROFILE, of {', '.join(known)}",
        )
    return label or next(iter(reader.plan.profiles))


def of_the_same_runs(ours: Sequence[Chosen], theirs: Sequence[Chosen]) -> list[Chosen] | None:
    """``theirs`` in the order of ``ours``, None where they are not of the same runs. Raises
    UsageError where both are one profile of one run.
    """
    places = [one.reader.path.resolve() for one in ours]
    by_place = {one.reader.path.resolve(): one for one in theirs}
    if len(theirs) != len(ours) or set(places) != set(by_place):
        return None
    found = [by_place[place] for place in places]
    for one, other in zip(ours, found, strict=True):
        if one.label == other.label:
            raise UsageError(
                f"base and candidate are both {one.label} of one run",
                "name two profiles: RUN:base RUN:candidate",
            )
    return found


def ended_by_itself(items: Sequence[Chosen]) -> list[str]:
    """The runs that ended before their last block, when their pairs were decided: the differences
    chose the number of blocks, which the levels of a gate do not allow for.
    """
    return [
        one.reader.id
        for one in items
        if one.reader.plan.until_decided
        and any(event.event == "stopped" for event in one.reader.chain.events)
    ]


def comparable(
    ours: Sequence[Chosen], theirs: Sequence[Chosen], gathered: Mapping[str, Gathered]
) -> None:
    """Raises UsageError naming what differs: among the base runs, or between them and a
    candidate.
    """
    from cnibench.analysis.comparability import between, circumstances_of, differences

    found = {
        one: circumstances_of(one.reader, gathered[one.reader.id], one.label)
        for one in dict.fromkeys((*ours, *theirs))
    }
    first = ours[0]
    for one in (*ours[1:], *theirs):
        alike = one.reader.id == first.reader.id
        differs = between(found[first], found[one], first.label, one.label, one_run=alike)
        if one in ours and one.label == first.label:
            differs = list(dict.fromkeys([*differs, *differences(found[first], found[one])]))
        if differs:
            raise UsageError(
                f"{one.reader.id} ({one.label}) is not comparable with {first.reader.id}"
                f" ({first.label}): {'; '.join(differs)}",
                "measure both in the same way, preferably in one run; --allow-different compares"
                " them nevertheless",
            )
