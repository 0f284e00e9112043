"""Earlier runs that tell the noise of this machine, and which of them do not apply."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cnibench.errors import InputError, UsageError
from cnibench.model.context import MUST_AGREE
from cnibench.planning.plan import Plan
from cnibench.rundir.chain import digest
from cnibench.rundir.index import find
from cnibench.rundir.reader import RunReader
from cnibench.rundir.schema import CALIBRATION, LONGEST_DOCUMENT
from cnibench.system.environment import this_cpu
from cnibench.system.files import read_beneath

REMEDY = "give a number, 2% say, or calibrate here"

_COMPARED = ("method", "cpus", "duration", "warmup")  # with the calibration's floors, or scaled
# Keys of a plan that must agree with the calibration's: what else figures must agree in.
_SETTINGS = tuple(
    one.name for one in MUST_AGREE if one.name in Plan.model_fields and one.name not in _COMPARED
)


@dataclass(frozen=True)
class Here:
    """Where the planned run is measured; ``folder`` holds earlier runs. A calibration from
    elsewhere says nothing about it.

    ``testbed``, lab or vm, distinguishes the two kinds of lab.
    """

    folder: Path
    cluster: str = "lab"
    testbed: str = "lab"
    kernel: str = field(default_factory=platform.release)
    cpu: str = field(default_factory=this_cpu)

    def differs(self, reader: RunReader) -> str:
        """In words what makes that run one of another machine; '' when it is one of this."""
        facts = reader.environment
        pairs: list[tuple[str, Any, str]] = [("cluster", reader.plan.cluster, self.cluster)]
        if (
            self.cluster == "lab"
        ):  # the nodes' kernels and CPUs of other clusters are not known before they are asked
            pairs += [
                ("testbed", facts.get("testbed"), self.testbed),
                ("kernel", facts.get("kernel"), self.kernel),
            ]
            pairs += [("CPU", facts.get("cpu_model"), self.cpu)] if self.testbed == "lab" else []
        return "; ".join(
            f"{name} {theirs or 'not recorded'} instead of {ours}"
            for name, theirs, ours in pairs
            if theirs != ours
        )


@dataclass(frozen=True)
class Known:
    """An earlier run's noise. ``refused`` says in words why it says nothing about the plan."""

    reader: RunReader
    floors: Sequence[Mapping[str, Any]]
    refused: str

    @property
    def origin(self) -> str:
        """How old it is and what it was measured on: ``3 days old, on Xeon, Linux 6.1``."""
        facts = self.reader.environment
        cpu, kernel = facts.get("cpu_model"), facts.get("kernel")
        return (
            f"{_age(self.reader.plan.created)}, on {cpu or 'an unknown CPU'},"
            f" {f'Linux {kernel}' if kernel else 'an unknown kernel'}"
        )


def calibrations(plan: Plan, here: Here) -> list[Known]:
    """Those of the folder, the newest first."""
    found = sorted(_calibrated(here.folder), key=lambda reader: reader.plan.created, reverse=True)
    return [
        Known(reader, _stored(reader), here.differs(reader) or _other_settings(plan, reader))
        for reader in found
    ]


def named(name: str, plan: Plan, here: Here | None) -> Known:
    """Any earlier run. Raises UsageError when it is not there, was made elsewhere or with other
    settings, or has no noise.
    """
    reader = RunReader(find(name, here.folder if here else Path("runs")))
    if here and (difference := here.differs(reader) or _other_settings(plan, reader)):
        raise UsageError(f"--noise {name}: it was measured elsewhere: {difference}", REMEDY)
    return Known(reader, _stored(reader) or _computed(reader), "")


def _other_settings(plan: Plan, reader: RunReader) -> str:
    """In words what that run was measured with and the plan is not; '' where nothing differs."""
    ours = plan.model_dump(mode="json", by_alias=True)
    theirs = {**Plan().model_dump(mode="json", by_alias=True), **reader.plan.plan}
    return "; ".join(
        f"{name.replace('_', ' ')} {theirs[name] or 'by default'} instead of"
        f" {ours[name] or 'the default'}"
        for name in _SETTINGS
        if theirs[name] != ours[name]
    )


def _calibrated(folder: Path) -> Iterator[RunReader]:
    """The runs of calibrate below ``folder``; no other run is read, and one that cannot be is
    passed over.
    """
    for file in sorted(folder.glob(f"*/{CALIBRATION}")):
        with suppress(InputError):
            yield RunReader(file.parent)


def _stored(reader: RunReader) -> list[dict[str, Any]]:
    """The places of a calibration; none when it is no calibration, cannot be read, or is not what
    the run's events name.
    """
    try:
        data = read_beneath(reader.path, CALIBRATION, LONGEST_DOCUMENT)
        if reader.chain.chained and digest(data) not in reader.chain.documents().get(
            CALIBRATION, ()
        ):
            return []
        found = json.loads(data)["floors"]
        return [one for one in found if isinstance(one, dict)]
    except (OSError, InputError, ValueError, KeyError, TypeError, RecursionError):
        return []


def _computed(reader: RunReader) -> list[dict[str, Any]]:
    from cnibench.analysis.calibration import scatter

    found = scatter(reader)
    if not found:
        raise UsageError(
            f"--noise {reader.path.name}: no two profiles of it were measured in the same blocks",
            "name a run of calibrate",
        )
    return found


def _age(created: str) -> str:
    try:
        made = datetime.fromisoformat(created)
    except ValueError:
        return "of unknown age"
    made = made if made.tzinfo else made.replace(tzinfo=UTC)
    hours = (datetime.now(UTC) - made).total_seconds() / 3600
    if hours < 0:
        return "dated in the future"
    return f"{hours:.0f} h old" if hours < 48 else f"{hours / 24:.0f} days old"
