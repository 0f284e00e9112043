"""Which objects of a cluster are a CNI's, by what was recorded and who wrote or owns them; and
whose objects would go with them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from cnibench.clusters.kubernetes.api.kinds import Kind
from cnibench.clusters.kubernetes.api.operations import APPLIER
from cnibench.clusters.kubernetes.removal.inventory import DEFINITION, Identity, Thing, defined_by
from cnibench.errors import ClusterError

# What these write follows from other objects (default service accounts, endpoints, a workload's
# Pods), or completes them.
_CLUSTER = frozenset(
    {"kube-controller-manager", "kube-apiserver", "kube-scheduler", "kubelet", "k3s", "kubernetes"}
)
# Many projects' programs have these names: they tell only within definitions and namespaces that
# are the CNI's.
_COMMON = frozenset({"operator", "manager", "controller", "main"})
# What programs write that give no name. calicoctl is one of them: it tells only of objects that
# nobody but the CNI makes.
_NAMELESS = frozenset({"Go-http-client"})
_NEVER = frozenset({"kube-system", "kube-public", "kube-node-lease", "default"})  # namespaces


@dataclass(frozen=True)
class Known:
    """What is known of an installation.

    ``applied`` maps what was applied to its UID, '' where the process ended before the answer came;
    ``profile`` is the label that those have. ``before`` are UIDs of all objects that were there
    before. ``managers`` are the names under which its programs write.
    """

    applied: Mapping[Identity, str]
    profile: str
    managers: Collection[str]
    before: Collection[str] = frozenset()
    bookkeeping: Collection[str] = ()

    def names(self, one: Thing, inside: bool) -> set[str]:
        """Those by which such an object is its own; ``inside``: in a namespace or of a definition
        of its own.
        """
        names = set(self.managers) - (set() if inside else _COMMON)
        return names | (
            _NAMELESS if inside and one.kind.resource in self.bookkeeping else frozenset()
        )


@dataclass(frozen=True)
class Belongings:
    """What would be removed: ``applied`` in the order of ``Known.applied``, ``made`` by its
    programs; ``derived`` follows them by itself.

    ``foreign`` are objects of others that would go with one of these, each with the one that it
    would go with. ``dependents`` are those among ``derived`` that others wrote: they say themselves
    (ownerReferences) that they go with their owner, and so do not block.
    """

    applied: Sequence[Thing]
    made: Sequence[Thing] = ()
    derived: Sequence[Thing] = ()
    foreign: Sequence[tuple[Thing, Thing]] = ()
    dependents: Sequence[Thing] = ()

    @property
    def explicit(self) -> list[Thing]:
        """All that is deleted by name and UID."""
        return [*self.applied, *self.made]

    @property
    def definitions(self) -> list[Thing]:
        return [one for one in self.explicit if one.kind.kind == DEFINITION]

    @property
    def namespaces(self) -> list[Thing]:
        return [one for one in self.explicit if _is_namespace(one)]

    def lines(self) -> list[str]:
        """One for each object, for the user to read."""
        others = [f"{one} (written by others, goes with its owner)" for one in self.dependents]
        return sorted([*map(str, self.explicit), *others])


class BlockedError(ClusterError):
    """Objects of others would go with what is to be removed; nothing was removed."""


def check(found: Belongings, what: str, unseen: Collection[Kind] = ()) -> None:
    """Raises BlockedError with the names of all foreign objects, or with the kinds that could not
    be listed and may have some.
    """
    if found.foreign:
        names = sorted({f"{one} (with {holder})" for one, holder in found.foreign})
        raise BlockedError(
            f"{what} is not removed, because that would also delete objects of others:"
            f" {', '.join(names)}",
            "move or delete these (kubectl delete ...), then repeat it; 'cnibench clean --cluster"
            " existing' removes what a run left",
        )
    definitions = {one.name for one in found.definitions}
    hidden = sorted(
        one.resource
        for one in unseen
        if (one.namespaced and found.namespaces) or one.resource in definitions
    )
    if hidden:
        raise BlockedError(
            f"{what} is not removed: these cannot be listed, and may have objects of others that"
            f" would go with it: {', '.join(hidden)}",
            f"kubectl get {hidden[0]} -A says why",
        )


def find(known: Known, things: Sequence[Thing]) -> Belongings:
    """``things`` are all objects that are there. Nothing that was there before, or that others
    wrote, is ever among what is found.
    """
    new = [one for one in things if one.uid not in known.before]
    applied = {one.uid: one for one in new if _was_applied(known, one)}
    ours = dict(applied)
    made: dict[str, Thing] = {}
    derived: dict[str, Thing] = {}
    while True:  # what belongs to one that belongs to it, and so on
        inside = _inside([*ours.values(), *derived.values()], things)
        size = len(ours) + len(derived)
        for one in new:
            if one.uid in ours or one.uid in derived:
                continue
            if _written_by(one, known.names(one, one.uid in inside)):
                made[one.uid] = ours[one.uid] = one
            elif one.owners & (ours.keys() | derived.keys()) or (
                one.uid in inside and (_follows(one) or one.of_a_run)
            ):
                derived[one.uid] = one
        if len(ours) + len(derived) == size:
            break
    inside = _inside([*ours.values(), *derived.values()], things)
    foreign = [
        (one, inside[one.uid])
        for one in things
        if one.uid in inside and one.uid not in ours and one.uid not in derived
    ]
    order = list(known.applied)
    return Belongings(
        sorted(applied.values(), key=lambda one: order.index(one.identity)),
        sorted(made.values(), key=lambda one: one.identity),
        list(derived.values()),
        foreign,
        sorted(
            (one for one in derived.values() if not _comes_back(known, one)),
            key=lambda one: one.identity,
        ),
    )


def is_own(managers: Collection[str], one: Thing) -> bool:
    """Has nobody written it but we, programs of these names, and the cluster?"""
    return one.managers <= {APPLIER, *managers, *_NAMELESS, *_CLUSTER}


def _was_applied(known: Known, one: Thing) -> bool:
    uid = known.applied.get(one.identity)
    if uid is None or (_is_namespace(one) and one.name in _NEVER):
        return False
    return one.uid == uid if uid else one.profile == known.profile and APPLIER in one.managers


def _written_by(one: Thing, names: set[str]) -> bool:
    """By its programs, and nobody but the cluster beside them: what somebody has edited is his,
    too.
    """
    return bool(one.managers & names) and one.managers <= names | _CLUSTER


def _follows(one: Thing) -> bool:
    """The service account of each namespace has no field that anybody wrote, unless somebody
    changes it.
    """
    if not one.managers:
        return one.kind.kind == "ServiceAccount" and one.name == "default"
    return one.managers <= _CLUSTER


def _comes_back(known: Known, one: Thing) -> bool:
    """Is it written again by the cluster's controllers, the CNI's programs or a run?"""
    if _follows(one) or one.of_a_run:
        return True
    return bool(one.managers) and one.managers <= {APPLIER, *known.managers, *_CLUSTER}


def _is_namespace(one: Thing) -> bool:
    return one.kind.kind == "Namespace" and not one.kind.group


def _inside(ours: Sequence[Thing], things: Sequence[Thing]) -> dict[str, Thing]:
    """UID of everything that goes with a namespace or a definition of ours, and with which."""
    spaces = {one.name: one for one in ours if _is_namespace(one)}
    found = {one.uid: spaces[one.namespace] for one in things if one.namespace in spaces}
    for definition in ours:
        if definition.kind.kind == DEFINITION:
            found |= {one.uid: definition for one in defined_by(definition, things)}
    return found
