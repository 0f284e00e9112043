"""The call stacks that a bundle has for its flame graphs, and their check against the cycles by
component that the run's own records state.

The recordings themselves are raw output, which no bundle has. Of the folded stacks each profile and
place keeps the mean over its blocks, in cycles per packet; stacks below 0.05 % of the total, which
no flame graph shows, are only summed up.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import msgspec

from cnibench.cpp import summary, taxonomy
from cnibench.cpp.flamegraph import Tree
from cnibench.errors import InputError
from cnibench.reports.site.publication.pseudonyms import Pseudonyms
from cnibench.rundir.reader import RunReader

_LEAST = 5e-4  # of a group's total
_CLOSE = 1e-4  # relative to the total: figures are kept to six digits
_DEEPEST, _MOST = 200, 5000  # frames of a stack, stacks of a group


class Group(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``number`` is that of cpp/summary.py's groups of the run. A stack is (numbers of its frames,
    root first; cycles per packet); ``rest`` is the sum of those that are left out.
    """

    number: int
    stacks: list[tuple[list[int], float]]
    rest: float


class CallStacks(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """stacks.json of a bundle."""

    frames: list[str]
    groups: list[Group]

    def tree(self, group: Group) -> Tree:
        """Stacks that became alike by pseudonyms are one."""
        found: dict[tuple[str, ...], float] = {}
        for path, cycles in group.stacks:
            names = tuple(self.frames[one] for one in path)
            found[names] = found.get(names, 0.0) + cycles
        return found


def of(reader: RunReader, names: Pseudonyms) -> bytes:
    """stacks.json of a run directory; b'' where no stacks were kept with it."""
    known = taxonomy.load()
    frames: dict[str, int] = {}
    found = []
    for number, group in enumerate(summary.groups(reader.records("cpp"))):
        try:
            tree = summary.trees(reader, group, known)
        except InputError:  # copied without its raw output
            continue
        least = _LEAST * sum(tree.values())
        kept = sorted((path, cycles) for path, cycles in tree.items() if cycles >= least)
        rest = sum(cycles for cycles in tree.values() if cycles < least)
        stacks = [
            ([frames.setdefault(names.text(one), len(frames)) for one in path], _short(cycles))
            for path, cycles in kept
        ]
        found.append(Group(number, stacks, _short(rest)))
    return msgspec.json.encode(CallStacks(list(frames), found)) if found else b""


def decoded(data: bytes) -> CallStacks:
    """Raises InputError when it is not as ``of`` writes it, or has more than can be drawn."""
    try:
        found = msgspec.json.decode(data, type=CallStacks)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise InputError(f"it cannot be read: {error}", "") from None
    figures = (one for group in found.groups for _, one in (*group.stacks, ([], group.rest)))
    if not all(math.isfinite(one) and one >= 0 for one in figures):
        raise InputError("a stack's cycles are no figure", "")
    for group in found.groups:
        deep = any(not 0 < len(path) <= _DEEPEST for path, _ in group.stacks)
        if deep or len(group.stacks) > _MOST:
            raise InputError("it has more stacks, or deeper ones, than are drawn", "")
        if any(not 0 <= one < len(found.frames) for path, _ in group.stacks for one in path):
            raise InputError("a stack has a frame without a name", "")
    return found


def contradictions(stacks: CallStacks, groups: Sequence[summary.Group]) -> list[str]:
    """Where the stacks and the cycles by component of the run's records cannot both be true."""
    known = taxonomy.load()
    said = []
    numbers = [one.number for one in stacks.groups]
    if len(set(numbers)) < len(numbers) or not all(0 <= one < len(groups) for one in numbers):
        return ["its stacks are not those of the run's cells"]
    for one in stacks.groups:
        group = groups[one.number]
        if group.taxonomy == known.version:
            said += [
                f"{group.label}, {group.title}: {words}"
                for words in _contradictions(stacks.tree(one), one.rest, group, known)
            ]
    return said


def _contradictions(
    tree: Tree, rest: float, group: summary.Group, known: taxonomy.Taxonomy
) -> Iterator[str]:
    close = _CLOSE * group.total
    sums: dict[str, float] = {}
    for path, cycles in tree.items():
        component = known.nearest(path[::-1]) or "unclassified"
        sums[component] = sums.get(component, 0.0) + cycles
    if abs(sum(sums.values()) + rest - group.total) > close:
        yield (
            f"the stacks have {sum(sums.values()) + rest:.1f} cycles per packet, the records"
            f" {group.total:.1f}"
        )
    stated = group.components | {"unclassified": group.unclassified}
    for component in sorted(sums.keys() | stated.keys()):
        here, there = sums.get(component, 0.0), stated.get(component, 0.0)
        if not here - close <= there <= here + rest + close:
            yield f"the stacks have {here:.1f} cycles of {component}, the records {there:.1f}"


def _short(cycles: float) -> float:
    return float(f"{cycles:.6g}")
