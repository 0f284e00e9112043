"""What the pages are made of: the analysis of all runs, each run by itself, and their records,
cleaned for publishing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import msgspec

from cnibench.analysis.build import analyse
from cnibench.analysis.comparability import environments
from cnibench.analysis.model import Analysis, Where
from cnibench.analysis.samples.series import gather
from cnibench.model import context
from cnibench.reports._looks import Look, looks
from cnibench.reports.site.publication.pseudonyms import Pseudonyms
from cnibench.reports.site.publication.validation import fits
from cnibench.rundir.reader import RunReader
from cnibench.rundir.schema import Record

_RECORDS = ("cdf", "series", "pods", "rulepath")  # those that have a chart or a table of their own


@dataclass(frozen=True)
class OneRun:
    """One run: its own analysis, the number of its environment, and what its plan says
    (``profiles``: label to the whole profile).
    """

    id: str
    alone: Analysis
    number: int
    profiles: dict[str, Any]
    cells: int
    cluster: str
    target_ci: float


@dataclass(frozen=True)
class Material:
    """``names`` cleans further text (of verdicts on claims, say). Records carry ``environment``
    beside their coordinates.
    """

    analysis: Analysis
    runs: list[OneRun]
    records: dict[str, list[Record]]
    profiles: dict[str, Any]
    names: Pseudonyms
    raw: bool
    several: bool
    readers: list[RunReader] = field(default_factory=list)

    @property
    def baselines(self) -> frozenset[str]:
        """Labels of what is no CNI but a yardstick: bare veths, the node's own network."""
        found = {result.label for result in self.analysis.results if result.fidelity == "baseline"}
        return frozenset(
            found
            | {label for label, profile in self.profiles.items() if profile.get("cni") == "none"}
        )

    @cached_property
    def looks(self) -> dict[str, Look]:
        """What each profile looks like in the charts of the site."""
        return looks({label: self.profiles.get(label, {}) for label in self.analysis.labels})

    def of(self, name: str, where: Where) -> list[Record]:
        """The records of that file that belong to a place."""
        key = _place(context.place(where), where.environment)
        return [record for record in self.records.get(name, []) if record["_place"] == key]


def material(
    readers: Sequence[RunReader], *, raw: bool, allow_different: bool, baseline: str
) -> Material:
    """Reads and analyses the runs. Raises UsageError and InputError as analyse does."""
    analysis = analyse(readers, allow_different=allow_different, baseline=baseline)
    several = len(readers) > 1
    numbers = (
        environments(readers, gather(readers), True)[0]
        if several and allow_different
        else [0] * len(readers)
    )
    labels = {label for reader in readers for label in reader.plan.profiles}
    names = Pseudonyms(not raw, labels | {reader.id for reader in readers})
    for reader in readers:
        names.learn(reader.environment, reader.plan.command)
    runs = []
    for reader, number in zip(readers, numbers, strict=True):
        alone = analyse([reader]) if several else analysis
        plan = reader.plan
        runs.append(
            OneRun(
                names.text(reader.id),
                _clean(alone, names),
                number,
                names.walk(plan.profiles),
                len(plan.cells),
                names.text(plan.cluster),
                plan.target_ci,
            )
        )
    both = list(zip(readers, numbers, strict=True))
    records = {
        name: [one for reader, number in both for one in _records(reader, name, number, names)]
        for name in _RECORDS
    }
    profiles = {label: profile for run in reversed(runs) for label, profile in run.profiles.items()}
    return Material(
        runs[0].alone if not several else _clean(analysis, names),
        runs,
        records,
        profiles,
        names,
        raw,
        several,
        list(readers),
    )


def _clean(analysis: Analysis, names: Pseudonyms) -> Analysis:
    return msgspec.convert(names.walk(msgspec.to_builtins(analysis)), Analysis)


def _records(reader: RunReader, name: str, number: int, names: Pseudonyms) -> list[Record]:
    """Those that say where they belong; one that does not was written by something else, and is
    passed over.
    """
    found = []
    for record in reader.records(name):
        cleaned = names.walk(record)
        try:
            place = _place(cleaned, number)
        except (KeyError, TypeError):
            reader.warnings.append(
                f"{reader.path / name}.jsonl: a record without its coordinates is left out"
            )
            continue
        if not fits(name, cleaned):
            reader.warnings.append(
                f"{reader.path / name}.jsonl: a record of another shape is left out"
            )
            continue
        found.append({**cleaned, "_place": place, "environment": number})
    return found


def _place(where: Mapping[str, Any], environment: int) -> tuple[int, str]:
    return environment, context.key(where, context.OF_RECORD)
