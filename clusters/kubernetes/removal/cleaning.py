"""What may be removed of what runs left on a cluster: the same checks for ``clean`` and for a run
that finds it in its way.
"""

from __future__ import annotations

import functools
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cnibench.clusters.kubernetes.api import objects
from cnibench.clusters.kubernetes.api.access import Access
from cnibench.clusters.kubernetes.nodes import agents
from cnibench.clusters.kubernetes.ownership import discovery, lease, namespace, safety, state
from cnibench.clusters.kubernetes.ownership.discovery import Space
from cnibench.clusters.kubernetes.ownership.safety import Allowed, RefusedError
from cnibench.clusters.kubernetes.removal.record import NAME as RECORD
from cnibench.errors import ClusterError
from cnibench.testbed.capabilities.ownership import Leftover

UNKNOWN = "unknown"  # the owner of what an older cnibench left
_RECORD = f"/api/v1/namespaces/kube-system/configmaps/{RECORD}"


@dataclass(frozen=True)
class Record:
    """A CNI that a run installed and did not remove; ``version`` is the record's
    resourceVersion.
    """

    profile: str
    run: str
    owner: str
    version: str


def record(access: Access) -> Record | None:
    """None when no CNI was left. Raises ClusterError."""
    answer = access.call("GET", _RECORD)
    if answer.status == 404:
        return None
    if not answer.ok:
        raise access.refusal(answer, "whether an earlier run installed a CNI cannot be asked")
    meta = answer.body["metadata"]
    noted = meta.get("annotations") or {}
    return Record(
        str(answer.body.get("data", {}).get("profile", "")),
        str(noted.get(objects.RUN, "")),
        str(noted.get(lease.OWNER) or UNKNOWN),
        str(meta["resourceVersion"]),
    )


class Survey:
    """What is left on one cluster. ``owners`` are those whose leftovers may be removed, beside this
    user's own.
    """

    def __init__(
        self,
        access: Access,
        allowed: Allowed,
        owners: Sequence[str],
        notify: Callable[[str], None],
        run: str = "",
    ) -> None:
        """Watches the Leases that matter for as long as they last; what ``run`` has is nothing
        that is left. Raises ClusterError.
        """
        self.access = access
        self.allowed = allowed
        self.mine = {state.owner(), *owners}
        self.record = record(access)
        self._holder = f"{state.owner()}_clean-{secrets.token_hex(4)}"
        self._held: set[str] = set()
        found = [one for one in discovery.spaces(access) if not run or one.run != run]
        # Whoever measures on this cluster measures by its CNI.
        matter = [one for one in found if self.record or one.owner in self.mine]
        settled = {one.name: one for one in discovery.watched(access, matter, notify)}
        self.spaces = [
            settled.get(one.name, one) for one in found if one.name in settled or one not in matter
        ]

    def of_record(self) -> Space | None:
        """The namespace of the run that installed the CNI, when it is still there."""
        run = self.record.run if self.record else ""
        return next((one for one in self.spaces if run and one.run == run), None)

    def hold(self, space: Space | None) -> None:
        """Takes a Lease over, so that a run that was only asleep finds it lost. Raises ClusterError
        when that has woken up.
        """
        if space is None or not space.lease or space.name in self._held:
            return
        if not lease.take(self.access, space.lease, self._holder):
            raise ClusterError(
                f"the Lease of the namespace {space.name} was renewed in the meantime: the"
                " namespace is not removed",
                "a run uses it; wait for its end",
            )
        self._held.add(space.name)

    def namespaces(self) -> list[Leftover]:
        """Each with why it stays, when it does. Raises ClusterError."""
        found = []
        for space in self.spaces:
            kept, remedy = self._kept(space)
            what = f"the namespace {space.name} on the cluster of the context {self.access.context}"
            remove = functools.partial(self._remove, space)
            found.append(
                Leftover(what, remove, owner=space.owner or UNKNOWN, kept=kept, remedy=remedy)
            )
        return found

    def cni(self, nodes: int, remove: Callable[[], object]) -> Leftover | None:
        """The CNI that a run left, with why it stays; ``remove`` does the work. Raises
        ClusterError.
        """
        if self.record is None:
            return None
        context = self.access.context
        what = f"the profile {self.record.profile} on the cluster of the context {context}"
        user = next((one for one in self.spaces if one.use in ("live", "held")), None)
        strangers = safety.foreign(self.access.listed("pods"))
        about = f"it is removed from all {nodes} nodes, whose Pods are without a network then"
        kept = remedy = ""
        refused = False
        if user is not None:
            kept, remedy = f"the run {user.run} uses it", "wait for its end"
        elif self.record.owner not in self.mine:
            kept, remedy = (
                f"it was installed by {self.record.owner}",
                f"cnibench clean --cluster existing --owner {self.record.owner} removes it",
            )
        else:
            try:
                safety.check_change(
                    self.allowed, self.record.profile, context, nodes, strangers, ours=True
                )
            except RefusedError as error:
                kept, remedy, refused = error.message, error.remedy, True
        return Leftover(
            what,
            remove,
            owner=self.record.owner,
            about=about,
            kept=kept,
            remedy=remedy,
            refused=refused,
        )

    def take_record(self, run: str) -> None:
        """The CNI is from now on that of ``run``. Raises ClusterError when somebody else was
        quicker, or another run or Pods of others have come.
        """
        assert self.record is not None
        self.hold(self.of_record())
        known = {one.uid for one in self.spaces}
        for one in discovery.spaces(self.access):
            if one.use == "held" and one.run != run and one.uid not in known:
                raise ClusterError(
                    f"the run {one.run} of {one.owner} has begun to use the cluster of the context"
                    f" {self.access.context}: no CNI is changed under it",
                    "wait for its end",
                )
        strangers = safety.foreign(self.access.listed("pods"))
        count = len(self.access.listed("nodes"))
        safety.check_change(
            self.allowed, self.record.profile, self.access.context, count, strangers, ours=True
        )
        noted = {objects.RUN: run, lease.OWNER: state.owner()}
        change = {"metadata": {"annotations": noted, "resourceVersion": self.record.version}}
        answer = self.access.call(
            "PATCH",
            f"/api/v1/namespaces/kube-system/configmaps/{RECORD}",
            change,
            content="application/merge-patch+json",
        )
        self.access.checked(answer, f"the record {RECORD} cannot be taken")

    def _kept(self, space: Space) -> tuple[str, str]:
        if space.use == "unproven":
            return (
                "no Lease in it proves that cnibench made it",
                f"kubectl delete namespace {space.name}, if it is yours",
            )
        if space.owner not in self.mine:
            return (
                f"it is of {space.owner}",
                (
                    f"cnibench clean --cluster existing --owner {space.owner} removes it, unless a"
                    " run uses it"
                ),
            )
        if space.use in ("live", "held"):
            return f"a run of {space.owner} uses it", "wait for its end"
        pods = self.access.listed("pods", space.name)
        if foreign := safety.foreign(pods):
            return f"{safety.some([name for _, name in foreign])} run in it", "take them elsewhere"
        return "", ""

    def _remove(self, space: Space) -> None:
        self.hold(space)
        agents.restore(self.access, space.name)
        namespace.remove(self.access, space.name, space.uid)
        state.unmark(space.uid)
