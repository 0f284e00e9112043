"""From the trace of one packet to the hooks, chains and rules that it met: those that matched, and
those that it was compared with.

A rule that does not match leaves no event. Which rules preceded the one that matched is known
from the list of rules, so the walk repeats what nft_do_chain does (net/netfilter/nf_tables_core.c),
with the events as its answers; an event that the walk does not come to means that the rules changed
meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from cnibench.errors import MeasureError
from cnibench.rulepath.trace import Event, Key, Ruleset

ENDS = frozenset({"accept", "drop", "queue", "stolen"})
_DEPTH = 64  # deeper than any chain of jumps that the kernel takes (NFT_JUMP_STACK_SIZE is 16)


class Changed(MeasureError):
    """The rules are not those that the packet met."""


@dataclass
class Visit:
    """One chain, once: how many of its rules the packet was compared with, and how many of them
    matched.
    """

    family: str
    table: str
    chain: str
    evaluated: int = 0
    matched: int = 0


@dataclass
class Hook:
    """One netfilter hook, once, with the chains that were entered there, base chains and those
    jumped to, in their order.
    """

    hook: str
    chains: list[Visit] = field(default_factory=list)


def hooks(events: Sequence[Event], ruleset: Ruleset, probe: tuple[str, str]) -> list[Hook]:
    """The hooks that traced packets passed. ``probe`` is (family, table) with one base chain per
    hook, named as the hook and met first.

    Raises Changed.
    """
    found: list[Hook] = []
    for group in _groups(events):
        chain = group[0].chain
        if chain[:2] == probe:
            found.append(Hook(chain[2]))
        elif not found:
            raise Changed(
                f"{' '.join(chain)} was met before any hook of the probe", "measure again"
            )
        else:
            found[-1].chains += visits(group, ruleset)
    return found


def visits(group: Sequence[Event], ruleset: Ruleset) -> list[Visit]:
    """The chains of one traversal of a base chain; its first event says which one. Raises
    Changed.
    """
    walk = _Walk(group[1:], ruleset)
    walk.base(group[0].chain)
    return walk.visits


def packet(passed: Sequence[Hook], which: int, packets: int) -> list[Hook]:
    """The hooks of packet number ``which`` of ``packets`` that passed in turn. Raises Changed when
    they cannot be distinguished.
    """
    size, rest = divmod(len(passed), packets)
    parts = [passed[size * number : size * (number + 1)] for number in range(packets)]
    if rest or any(
        [hook.hook for hook in part] != [hook.hook for hook in parts[0]] for part in parts
    ):
        names = " ".join(hook.hook for hook in passed)
        raise Changed(
            f"other packets were traced besides the marked ones: {names}",
            "measure again with less traffic on the nodes",
        )
    return list(parts[which])


def totals(passed: Sequence[Hook]) -> dict[str, int]:
    """{hooks, chains, rules (compared with), matched}."""
    visits = [visit for hook in passed for visit in hook.chains]
    return {
        "hooks": len(passed),
        "chains": len(visits),
        "rules": sum(visit.evaluated for visit in visits),
        "matched": sum(visit.matched for visit in visits),
    }


def document(passed: Sequence[Hook]) -> list[dict[str, Any]]:
    """The hooks as they are stored."""
    return [
        {"hook": hook.hook, "chains": [vars(visit) for visit in hook.chains]} for hook in passed
    ]


def _groups(events: Sequence[Event]) -> list[list[Event]]:
    """Events by the base chain that was entered."""
    found: list[list[Event]] = []
    for event in events:
        if event.kind == "packet":
            found.append([event])
        elif found:
            found[-1].append(event)
        else:
            raise Changed("the trace begins within a chain", "measure again")
    return found


class _Walk:
    """One base chain's traversal."""

    def __init__(self, events: Sequence[Event], ruleset: Ruleset) -> None:
        self.visits: list[Visit] = []
        self._events = list(events)
        self._next = 0
        self._ruleset = ruleset

    def base(self, chain: Key) -> None:
        if not self._chain(chain, 0):
            last = self._take()
            if last is None or last.kind != "policy":
                raise Changed(
                    f"the end of {' '.join(chain)} was expected, and the trace says {last}",
                    "measure again",
                )
        if self._next != len(self._events):
            raise Changed(
                f"after {' '.join(chain)} the trace continues with {self._events[self._next]}",
                "measure again",
            )

    def _take(self) -> Event | None:
        event = self._events[self._next] if self._next < len(self._events) else None
        self._next += event is not None
        return event

    def _matches(self, chain: Key, handle: int) -> Event | None:
        event = self._events[self._next] if self._next < len(self._events) else None
        if event is None or event.kind != "rule" or event.chain != chain or event.handle != handle:
            return None
        return self._take()

    def _chain(self, chain: Key, depth: int) -> bool:
        """True when a verdict ended the whole traversal there."""
        if chain not in self._ruleset or depth > _DEPTH:
            raise Changed(f"the chain {' '.join(chain)} is not among the rules", "measure again")
        visit = Visit(*chain)
        self.visits.append(visit)
        for handle in self._ruleset[chain]:
            visit.evaluated += 1
            event = self._matches(chain, handle)
            if event is None:
                continue
            visit.matched += 1
            target = (chain[0], chain[1], event.target)
            if event.verdict in ENDS:
                return True
            if event.verdict == "return":
                return False
            if event.verdict == "goto":
                return self._chain(target, depth + 1)
            if event.verdict == "jump" and self._chain(target, depth + 1):
                return True
        return False
