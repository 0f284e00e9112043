"""Which deployment each block of a run was measured on, and what deployments and blocks took."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from cnibench.rundir.reader import RunReader


@dataclass(frozen=True)
class Deployments:
    """``of`` maps a block to the number of its deployment. ``seconds`` is what deploying all
    profiles took, ``block_seconds`` a block after that, both the median; 0 where the events do not
    tell.
    """

    of: dict[int, int]
    seconds: float
    block_seconds: float

    def grouped(self, blocks: Sequence[int]) -> list[list[int]]:
        """The blocks of each deployment, in order."""
        found: dict[int, list[int]] = {}
        for block in sorted(blocks):
            found.setdefault(self.of.get(block, 0), []).append(block)
        return list(found.values())


def deployments(reader: RunReader) -> Deployments:
    """From the order of the run's events: a deployment begins with the first profile that is
    installed after a sample.
    """
    of: dict[int, int] = {}
    number, fresh = 0, False
    began = installed = ""
    deploying, measuring = [], []
    for event in reader.events():
        kind, time = event.get("event"), str(event.get("time", ""))
        if kind == "profile-installed":
            number += not fresh
            fresh, installed = True, time
        elif kind == "cell-finished":
            of[event["block"]], fresh = number, False
        elif kind == "block-finished":
            if installed and began:
                deploying.append(_between(began, installed))
            measuring.append(_between(installed or began, time))
            began, installed = time, ""
        elif kind == "run-resumed":
            began = ""
    return Deployments(of, _median(deploying), _median(measuring))


def _between(first: str, last: str) -> float | None:
    try:
        return (datetime.fromisoformat(last) - datetime.fromisoformat(first)).total_seconds()
    except (ValueError, TypeError):
        return None


def _median(found: Sequence[float | None]) -> float:
    """Without those for which the clock was set back."""
    return statistics.median([one for one in found if one is not None and one > 0] or [0.0])
