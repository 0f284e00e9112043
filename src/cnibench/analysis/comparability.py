"""Which runs may be put into one figure or compared: those that agree on all that must agree
(model/coordinates.py).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from cnibench.analysis.samples.series import Gathered
from cnibench.analysis.samples.stream import Line
from cnibench.errors import UsageError
from cnibench.model import context
from cnibench.model.context import Disagreement, differing, disagreements
from cnibench.model.coordinates import LABEL, UNREAD
from cnibench.rundir.reader import RunReader

_LABEL = {one.name: one for one in LABEL}


@dataclass
class Circumstances:
    """Of one run, or of several that agree: the machine, and for each label and each place what
    must agree.
    """

    facts: dict[str, Any]
    labels: dict[str, dict[str, Any]] = field(default_factory=dict)
    places: dict[str, dict[str, Any]] = field(default_factory=dict)
    settings: str = ""  # those for all labels
    within: list[Disagreement] = field(default_factory=list)  # between samples of one cell

    def add(self, other: Circumstances) -> None:
        """Takes up what a run that agrees adds."""
        for label, what in other.labels.items():
            self.labels.setdefault(label, {}).update(what)
        for key, place in other.places.items():
            self.places[key] = _known(self.places.get(key, {}), place)


def circumstances(
    reader: RunReader, lines: Iterable[tuple[Line, str]], label: str = ""
) -> Circumstances:
    """``lines`` are one line of each cell and its canonical parameters. ``label``: of this one
    alone, and its name is no matter then.
    """
    plan = reader.plan
    found = Circumstances(
        {**reader.environment, "tool_version": plan.tool_version},
        settings=settings_of(plan.plan, ""),
    )
    installed = reader.installed
    for name, profile in plan.profiles.items():
        if name == (label or name):
            found.labels[name] = {
                "profile": _short(profile),
                "settings": settings_of(plan.plan, name),
            }
            if name in installed:
                found.labels[name]["installed"] = installed[name]
    for line, params in lines:
        if label and line.label != label:
            continue
        where = context.place(line) | {"params": params}
        own = "" if label else line.label
        key = f"{own} {line.window} {context.key(where, context.IDENTITY)}"
        while key in found.places:  # what was read back differs from sample to sample
            found.within += _samples(found.places[key], where)
            key += " again"
        found.places[key] = where
        if line.fidelity != "baseline":
            found.labels.setdefault(line.label, {})["fidelity"] = line.fidelity
        if line.proxy:
            found.labels.setdefault(line.label, {})["proxy"] = line.proxy
    return found


def circumstances_of(reader: RunReader, gathered: Gathered, label: str) -> Circumstances:
    """Of one label of a run, of which ``gathered`` was read."""
    return circumstances(reader, [(one.first, one.params) for one in gathered.tried], label)


def _known(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """``one``, with what only ``other`` knows."""
    return {
        **other,
        **{
            name: value
            for name, value in one.items()
            if name not in context.READ_BACK or value != UNREAD
        },
    }


def settings_of(plan: Mapping[str, Any], label: str) -> str:
    """Those of a label, with those of all labels, out of a run's plan; '' without any."""
    given = plan.get("settings")
    settings = given if isinstance(given, Mapping) else {}
    both = [settings.get(name) for name in dict.fromkeys(("", label))]
    own = {
        key: value for table in both if isinstance(table, Mapping) for key, value in table.items()
    }
    return msgspec.json.encode(own, order="sorted").decode() if own else ""


def _short(profile: Mapping[str, Any]) -> str:
    return hashlib.sha256(msgspec.json.encode(profile, order="sorted")).hexdigest()[:12]


def differences(one: Circumstances, other: Circumstances, *, trend: bool = False) -> list[str]:
    """What must agree between two runs and does not, each with both values. What only one of them
    measured is no difference. ``trend``: versions may differ, and what one did not record may.
    """
    found = disagreements(one.facts, other.facts, partial=trend, versions=not trend)
    for label in (label for label in one.labels if label in other.labels):
        found += _labels(one.labels[label], other.labels[label], label, versions=not trend)
    return _words([*found, *_places(one, other)])


def between(
    base: Circumstances, candidate: Circumstances, label: str, other: str, *, one_run: bool
) -> list[str]:
    """The same for a gate: the two labels may differ in profile, and within one run, or under names
    of their own, in their settings.
    """
    found: list[Disagreement] = [*base.within, *candidate.within]
    ours, theirs = base.labels.get(label, {}), candidate.labels.get(other, {})
    if not one_run:
        found += disagreements(base.facts, candidate.facts, partial=False)
        if label == other:
            found += _labels(
                {"settings": ours.get("settings")}, {"settings": theirs.get("settings")}, label
            )
            if "proxy" in ours and "proxy" in theirs:
                found += _labels({"proxy": ours["proxy"]}, {"proxy": theirs["proxy"]}, label)
        else:
            found += differing(
                _LABEL["settings"], base.settings, candidate.settings, "settings of all labels"
            )
    if "fidelity" in ours and "fidelity" in theirs:
        found += differing(
            _LABEL["fidelity"],
            ours["fidelity"],
            theirs["fidelity"],
            f"fidelity of {' and '.join(dict.fromkeys((label, other)))}",
        )
    return _words([*found, *_places(base, candidate)])


def _labels(
    one: Mapping[str, Any], other: Mapping[str, Any], label: str, *, versions: bool = True
) -> list[Disagreement]:
    both = [
        name
        for name, coordinate in _LABEL.items()
        if name in one and name in other and (versions or not coordinate.version)
    ]
    return [
        item
        for name in both
        for item in differing(_LABEL[name], one[name], other[name], f"{name} of {label}")
    ]


def _places(one: Circumstances, other: Circumstances) -> list[Disagreement]:
    """Of the places that both have; and what no place of the one shares with any of the other."""
    found = []
    common = [key for key in one.places if key in other.places]
    for coordinate in context.MUST_AGREE:
        name = coordinate.name
        for key in common:
            found += differing(coordinate, one.places[key][name], other.places[key][name])
        ours, theirs = (
            {place[name] for place in run.places.values()}
            - ({UNREAD} if coordinate.read_back else set())
            for run in (one, other)
        )
        if not common and ours and theirs and not ours & theirs:
            found += differing(coordinate, min(ours), min(theirs))
    return found


def _samples(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[Disagreement]:
    """Of samples of one cell."""
    return [
        item
        for coordinate in context.MUST_AGREE
        if coordinate.read_back
        for item in differing(
            coordinate,
            one[coordinate.name],
            other[coordinate.name],
            f"{coordinate.title} within one cell",
        )
    ]


def _words(found: Sequence[Disagreement]) -> list[str]:
    return list(dict.fromkeys(map(str, found)))


def environments(
    readers: Sequence[RunReader], gathered: Gathered, allow: bool, *, trend: bool = False
) -> tuple[list[int], list[str]]:
    """(for each run the number of its environment, what distinguishes the environments in words);
    ``trend`` as in ``differences``.

    Raises UsageError when there is more than one and ``allow`` is not set.
    """
    distinct: list[Circumstances] = []
    numbers, apart = [], []
    for number, reader in enumerate(readers):
        lines = [(one.first, one.params) for one in gathered.tried if one.run == number]
        mine = circumstances(reader, lines)
        same = next(
            (i for i, other in enumerate(distinct) if not differences(other, mine, trend=trend)),
            None,
        )
        if same is None:
            if distinct:
                said = "; ".join(differences(distinct[0], mine, trend=trend))
                if not allow:
                    raise UsageError(
                        f"{reader.id} is not comparable with {readers[0].id}: {said}",
                        "report them one by one, or use --allow-different to show the results of"
                        " each separately",
                    )
                apart.append(
                    f"environment {len(distinct) + 1} ({reader.id}) differs from environment 1"
                    f" ({readers[0].id}): {said}"
                )
            distinct.append(mine)
            same = len(distinct) - 1
        else:
            distinct[same].add(mine)
        numbers.append(same)
    return numbers, apart
