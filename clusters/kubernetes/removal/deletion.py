"""Deleting a CNI's objects from the API by UID, also those that finalizers keep which nobody
answers any more.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from cnibench.clusters.kubernetes.api.access import UnreachableError
from cnibench.clusters.kubernetes.api.rest import Rest
from cnibench.clusters.kubernetes.removal import selection
from cnibench.clusters.kubernetes.removal.inventory import DEFINITION, Inventory, Thing, defined_by
from cnibench.clusters.kubernetes.removal.selection import Belongings, Known
from cnibench.errors import ClusterError, EndedError, LimitError

GOING = 90.0  # s that objects are given to be gone
_FREEING = 15.0  # s after which finalizers of what has no controller any more are taken away
_STEP = 0.2  # s between two looks
_ANSWER = 2.0  # s: a request that takes longer waited for an API server that did not answer
_NAMED = 5  # objects that a message names

Step = Callable[[str, Callable[[], None]], None]


def delete(inventory: Inventory, known: Known, found: Belongings, step: Step) -> Callable[[], None]:
    """All of it, through ``step``, which calls each part with its name: custom resources while
    their controllers run, the rest, last what holds others: definitions and namespaces, which are
    looked into once more. Each raises ClusterError or LimitError.

    Namespaces take some seconds to go, when nothing in them runs any more: what is returned waits
    for them.
    """
    rest = inventory.rest
    custom = [
        one for one in found.applied if any(defined_by(each, [one]) for each in found.definitions)
    ]
    holders = [*found.definitions, *found.namespaces]
    last = {one.uid for one in (*custom, *holders)}
    step("custom resources", lambda: _delete(rest, custom, GOING))
    step(
        "objects",
        lambda: _delete(
            rest,
            [one for one in reversed(found.applied) if one.uid not in last],
            GOING,
            "Foreground",
        ),
    )
    step(
        "objects that its programs made",
        lambda: _delete(rest, [one for one in found.made if one.uid not in last], _FREEING),
    )
    held: dict[str, list[Thing]] | None = None

    def look() -> None:
        nonlocal held
        held = _held(inventory, known, holders)
        if held:
            things = [one for each in held.values() for one in each]
            names = [str(one) for one in holders if one.uid in held]
            raise ClusterError(
                "stays, because others have created objects there in the meantime:"
                f" {', '.join(map(str, things))} (with {', '.join(names)})"
            )

    step("what holds others", look)
    empty = [one for one in holders if held is not None and one.uid not in held]
    step(
        "definitions",
        lambda: _definitions(
            inventory, known, [one for one in empty if one.kind.kind == DEFINITION]
        ),
    )
    ending: list[Thing] = []
    refused: list[str] = []

    def ask() -> None:
        nonlocal ending, refused
        spaces = [one for one in empty if one.kind.kind != DEFINITION]
        ending, refused = _asked(rest, spaces)

    def go() -> None:
        _gone(rest, ending, GOING)
        _tell(refused)

    step("namespaces", ask)

    def gone() -> None:
        step("namespaces", go)
        if len(empty) == len(holders):
            step("what belonged to them", lambda: _gone(rest, found.derived, GOING))

    return gone


def _held(inventory: Inventory, known: Known, holders: Sequence[Thing]) -> dict[str, list[Thing]]:
    """UID of each that holds objects of others, and which: somebody may have put one there since it
    was looked at.
    """
    wanted = {one.uid for one in holders}
    found: dict[str, list[Thing]] = {}
    for one, holder in selection.find(known, inventory.things()).foreign if holders else ():
        if holder.uid in wanted:
            found.setdefault(holder.uid, []).append(one)
    return found


def _delete(
    rest: Rest, things: Sequence[Thing], patience: float, propagation: str = "Background"
) -> None:
    """Asks for the end of each and waits; those that are still there after ``patience`` seconds
    lose their finalizers. Raises ClusterError and LimitError, which name what stays.
    """
    left, refused = _asked(rest, things, propagation)
    try:
        _gone(rest, left, patience)
    except LimitError:
        refused += _freed(rest, left)
        _gone(rest, left, GOING / 2, refused)
    _tell(refused)


def _asked(
    rest: Rest, things: Sequence[Thing], propagation: str = "Background"
) -> tuple[list[Thing], list[str]]:
    """Asks for the end of each: (those that were there, what was refused and why). What one is
    refused keeps no other from being asked.
    """
    there: list[Thing] = []
    refused: list[str] = []
    for one in things:
        try:
            if rest.delete(one.path, one.uid, propagation):
                there.append(one)
        except (UnreachableError, EndedError):
            raise
        except ClusterError as error:
            refused.append(f"{one}: {error.message}")
    return there, refused


def _tell(refused: Sequence[str]) -> None:
    """Raises ClusterError for what was refused."""
    if refused:
        raise ClusterError(f"not deleted: {'; '.join(refused[:_NAMED])}", "kubectl delete says why")


def _freed(rest: Rest, things: Sequence[Thing]) -> list[str]:
    """Takes the finalizers away; what could not be changed, and why."""
    refused = []
    for one in things:
        try:
            rest.patch(one.path, {"metadata": {"uid": one.uid, "finalizers": None}})
        except (UnreachableError, EndedError):
            raise
        except ClusterError as error:
            refused.append(f"{one}: {error.message}")
    return refused


def _gone(
    rest: Rest, things: Sequence[Thing], patience: float, refused: Sequence[str] = ()
) -> None:
    """Returns when none of these is there any more; others may have their names. Raises LimitError
    after ``patience`` seconds, not counting those in which the API server did not answer.
    """
    left = list(things)
    spent = 0.0
    while True:
        held: dict[str, str] = {}
        for one in left:
            began = time.monotonic()
            meta = (rest.get(one.path) or {}).get("metadata") or {}
            spent += min(time.monotonic() - began, _ANSWER)
            if meta.get("uid") == one.uid:
                finalizers = ", ".join(meta.get("finalizers") or ())
                held[one.uid] = f"{one} (finalizers: {finalizers})" if finalizers else str(one)
        left = [one for one in left if one.uid in held]
        if not left:
            return
        if spent >= patience:
            more = f" and {len(left) - _NAMED} more" if len(left) > _NAMED else ""
            said = f"; {'; '.join(refused[:_NAMED])}" if refused else ""
            raise LimitError(
                f"still there: {', '.join(list(held.values())[:_NAMED])}{more}{said}",
                "kubectl get and kubectl describe say what holds them",
            )
        time.sleep(_STEP)
        spent += _STEP


def _definitions(inventory: Inventory, known: Known, definitions: Sequence[Thing]) -> None:
    """With their objects, of which those that are the CNI's lose their finalizers when nobody
    answers these any more.
    """
    rest = inventory.rest
    left = [one for one in definitions if rest.delete(one.path, one.uid)]
    try:
        _gone(rest, left, _FREEING)
        return
    except LimitError:
        pass
    found = selection.find(known, inventory.things())
    things = [*found.explicit, *found.derived]
    refused = _freed(rest, [one for each in left for one in defined_by(each, things)])
    _gone(rest, left, GOING, refused)
