"""When is a sample disturbed? What was seen to stop while it was measured, and the
thresholds (docs/disturbances.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from cnibench.run.checks.node_load import NodeLoad, busiest

Kind = Literal["stopped", "frozen", "gap", "starved"]

# Shares are of the time that the measured client took; in slices, of the time of the
# sample's own slices.
STOPPED = 0.01  # share: a process was stopped or frozen; no load does that, so little is enough
STOPPED_LEAST = 0.1  # s: so long a stop disturbs however long the sample is
GAP = 0.02  # share: nothing ran, although nothing else kept the CPU
# s: a shorter one is not counted: a virtual CPU waits that long for its host on a busy machine
GAP_LEAST = 0.1
STARVED = 0.3  # share: no CPU at one stretch, other work having it
STARVED_LEAST = 0.75  # s: a dozen busy programs on each CPU make stretches of half a second
STEAL = 0.1  # share of the machine's CPU time that its host gave to others
THROTTLED = 0.05  # share: a CPU quota kept the cgroup from running, its CPUs together
NOTED = 0.01  # s: shorter ones are not stored
OVERTIME = 2.0  # s beyond the longest that the workload may take


@dataclass(frozen=True)
class Stall:
    """``what`` was stopped in ``where`` (both in words) for ``seconds``, from ``at`` s after the
    client's start.

    ``where`` is '' on the machine that runs cnibench. ``what`` is '' for a gap in which nothing
    ran, the program's name where only that is known.
    """

    kind: Kind
    what: str
    where: str
    at: float
    seconds: float


@dataclass(frozen=True)
class Evidence:
    """What was seen from the client's start to its end, ``taken`` s later; it was to take at most
    ``longest`` s.

    ``steal`` is a share of the machine's CPU time, in slices of that of the CPUs which the load may
    use; ``throttled`` is in s; both are the worst of all places. ``unseen`` says where nothing
    could be seen. ``others`` are CPUs that other programs used, at least (in slices: estimated),
    None where nobody knows: on clusters those of the busiest of the pair's nodes, whose figures
    are ``node_load``. ``slices`` is the time of the sample's own slices, to which all of these
    belong; None of a window.
    """

    taken: float
    longest: float = math.inf
    stalls: tuple[Stall, ...] = ()
    steal: float = 0.0
    throttled: float = 0.0
    unseen: tuple[str, ...] = ()
    others: float | None = None
    slices: float | None = None
    node_load: tuple[NodeLoad, ...] = ()

    def on_nodes(self, loads: Sequence[NodeLoad]) -> Evidence:
        """With what other programs used there."""
        return replace(self, others=busiest(loads), node_load=tuple(loads))

    def record(self, reason: str) -> dict[str, Any]:
        """The line of stalls.jsonl: figures in s and shares, those below the thresholds, too."""
        return {
            "taken": round(self.taken, 6),
            "slices": None if self.slices is None else round(self.slices, 6),
            "longest_gap": round(
                max((one.seconds for one in self.stalls if one.kind == "gap"), default=0.0), 6
            ),
            "longest_stop": round(
                max(
                    (one.seconds for one in self.stalls if one.kind in ("stopped", "frozen")),
                    default=0.0,
                ),
                6,
            ),
            "steal": round(self.steal, 6),
            "throttled": round(self.throttled, 6),
            "unseen": list(self.unseen),
            "others": None if self.others is None else round(self.others, 3),
            "node_load": [
                {**asdict(one), "others": round(one.others, 3)} for one in self.node_load
            ],
            "stalls": [_rounded(one) for one in self.stalls if one.seconds >= NOTED],
            "disturbed": reason,
        }


def disturbed(seen: Evidence) -> str:
    """Why the sample is no measurement, in words; '' when it is one. A pure function of what was
    seen.
    """
    if not seen.taken > 0:
        return ""
    own = seen.taken if seen.slices is None else seen.slices
    found: list[tuple[float, str]] = []
    for (kind, what, where), spans in _grouped(seen.stalls).items():
        whole = kind == "starved"  # a busy machine makes many short stretches, none of them a stall
        total = min(max(spans) if whole else math.fsum(spans), own)
        if total >= _least(kind, own):
            times = f" in {len(spans)} pieces" if len(spans) > 1 and not whole else ""
            found.append(
                (
                    total,
                    (
                        f"{_subject(kind, what, where)} for {_seconds(total)} of"
                        f" {_seconds(own)}{times}"
                    ),
                )
            )
    found.sort(reverse=True)
    words = [text for _, text in found]
    if seen.steal >= STEAL:
        words.append(f"the machine's host gave {seen.steal:.0%} of its CPU time to others (steal)")
    if seen.throttled >= THROTTLED * own:
        words.append(
            f"a CPU quota held its programs back for {_seconds(seen.throttled)} of {_seconds(own)}"
        )
    if seen.taken > seen.longest + OVERTIME:
        words.append(
            f"the client took {_seconds(seen.taken)}, and {_seconds(seen.longest)} is the longest"
            " that it may"
        )
    words += [f"the heartbeat {where or 'on this machine'} did not answer" for where in seen.unseen]
    return "; ".join(words)


def _rounded(one: Stall) -> dict[str, Any]:
    times = {"at": round(one.at, 6), "seconds": round(one.seconds, 6)}
    return {"kind": one.kind, "what": one.what, "where": one.where, **times}


def _grouped(stalls: Sequence[Stall]) -> dict[tuple[Kind, str, str], list[float]]:
    found: dict[tuple[Kind, str, str], list[float]] = {}
    for one in stalls:
        if one.seconds >= {"gap": GAP_LEAST, "starved": STARVED_LEAST}.get(one.kind, 0.0):
            found.setdefault((one.kind, one.what, one.where), []).append(one.seconds)
    return found


def _least(kind: Kind, taken: float) -> float:
    """Seconds from which such a stall disturbs."""
    if kind in ("gap", "starved"):
        return {"gap": GAP, "starved": STARVED}[kind] * taken
    return min(STOPPED * taken, STOPPED_LEAST)


def _subject(kind: Kind, what: str, where: str) -> str:
    place = f" {where}" if where else ""
    if kind == "gap":
        return f"{what or 'everything'}{place or ' on this machine'} stalled"
    return f"{what}{place} {'got no CPU' if kind == 'starved' else f'was {kind}'}"


def _seconds(value: float) -> str:
    return f"{value:.2f} s" if value < 10 else f"{value:.1f} s"
