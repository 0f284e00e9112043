"""Our namespaces on clusters of others: made as ours with a Lease, and deleted only as the ones
that were made.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

from cnibench.clusters.kubernetes.api import objects
from cnibench.clusters.kubernetes.api.access import Access
from cnibench.clusters.kubernetes.api.objects import Making
from cnibench.clusters.kubernetes.api.operations import created
from cnibench.clusters.kubernetes.ownership import lease, state
from cnibench.clusters.kubernetes.ownership.lease import Lease
from cnibench.errors import ClusterError, EndedError, UsageError
from cnibench.rundir.schema import now
from cnibench.system.interrupt import uninterrupted
from cnibench.testbed.capabilities.outages import Outage

PATIENCE = "2m"  # how long a run waits for an API server that does not answer
GONE = 120.0  # s: a namespace with all that is in it
_AGAIN = 0.5  # s
# s after which the API server's controller empties a namespace that is deleted, at the earliest
# (namespaceDeletionGracePeriod, pkg/controller/namespace/namespace_controller.go)
_EMPTIED = 5.0
_LOOK = 0.2  # s between two looks at one that should be gone, which grow to _RARELY
_RARELY = 2.0
# s that the cluster is given after an outage: kubelets report every 10 s, the node controller looks
# every 5 s
_SETTLING = 60.0


def path(name: str) -> str:
    """Of a namespace, in the API."""
    return f"/api/v1/namespaces/{name}"


def check_free(access: Access, name: str) -> None:
    """Raises UsageError when a namespace of that name is there: ours are made, never taken over."""
    answer = access.call("GET", path(name))
    if answer.ok:
        raise _not_free(name)
    if answer.status != 404:
        raise access.refusal(answer, f"whether the namespace {name} is there cannot be asked")


class Claim:
    """A namespace that this process has made and owns."""

    def __init__(self, access: Access, making: Making) -> None:
        """Makes it, with its Lease. Raises UsageError when there is one of that name, ClusterError;
        nothing stays then.
        """
        self.access = access
        self.name = making.namespace
        owner = state.owner()
        made = objects.namespace(making)
        made["metadata"]["annotations"] = {lease.OWNER: owner}
        answer = created(access, "/api/v1/namespaces", made)
        if answer.reason == "AlreadyExists":
            raise _not_free(self.name)
        if not answer.ok:
            raise access.refusal(answer, f"the namespace {self.name} cannot be made")
        self.uid = str(answer.body["metadata"]["uid"])
        self._mark = state.Mark(self.uid)
        try:
            self.lease = Lease(access, self.name, self.uid, owner, making.run)
        except BaseException:
            with uninterrupted():
                remove(access, self.name, self.uid)
                self._mark.close()
            raise

    def outages(self, suspect: bool, alive: Callable[[], str]) -> list[Outage]:
        """As Cluster.outages; ``alive`` says what of the run's has died, as Deployment.alive does.
        Raises EndedError.
        """
        availability = self.access.availability
        self._keep(now=True)  # what was measured after it was lost is not stored
        if availability.down():
            availability.wait()
            self._keep(now=True)
        dropped, self.access.dropped = self.access.dropped, []
        found = availability.take()
        if not found and suspect and dropped and not alive():
            found = [Outage(now(), 0.0, dropped[0])]
        end = time.monotonic() + _SETTLING
        while (
            found and alive() and time.monotonic() < end
        ):  # nodes are called NotReady until their kubelets come through again
            time.sleep(_AGAIN)
        return found

    def _keep(self, now: bool) -> None:
        if lost := self.lease.check(now):
            words = f"{lost}; this run stops, and leaves the cluster as it is"
            raise EndedError(words, "cnibench clean --cluster existing --dry-run says what is left")

    def remove(self) -> None:
        """Deletes it with all that is in it, unless it is not ours any more. Raises
        ClusterError.
        """
        try:
            if not self.lease.check(now=True):
                remove(self.access, self.name, self.uid)
        finally:
            self.release()

    def release(self) -> None:
        """Gives it up as it is."""
        self.lease.release()
        self._mark.close()

    def stop(self) -> None:
        """It goes with its cluster."""
        self.lease.stop()
        self._mark.close()


def remove(access: Access, name: str, uid: str, limit: float = GONE) -> None:
    """Deletes the namespace of that name and UID with all that is in it, and waits until it is
    gone; another of that name stays.

    Raises ClusterError.
    """
    answer = access.call(
        "DELETE",
        path(name),
        {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}},
    )
    if answer.status == 409:  # it is going already, or another one has its name now
        answer = access.call("GET", path(name))
    if answer.status == 404 or (
        answer.ok and answer.body.get("metadata", {}).get("uid", uid) != uid
    ):
        return
    if not answer.ok:
        raise access.refusal(answer, f"the namespace {name} cannot be deleted")
    began = time.monotonic()
    # Without a CNI no sandbox ends properly: its Pods are not waited for.
    with contextlib.suppress(ClusterError):  # it goes all the same, only later
        access.delete("pods", name, f"{objects.OURS}={objects.NAME}", grace=0)
    pause = _LOOK
    while (answer := access.call("GET", path(name))).ok and answer.body["metadata"].get(
        "uid"
    ) == uid:
        waited = time.monotonic() - began
        if waited > limit:
            raise ClusterError(
                f"the namespace {name} was not deleted within {limit:.0f} s",
                f"kubectl get all -n {name}",
            )
        if waited < _EMPTIED:
            time.sleep(min(_RARELY, _EMPTIED - waited))
            continue
        time.sleep(pause)
        pause = min(_RARELY, pause * 1.5)
    if not answer.ok and answer.status != 404:
        raise access.refusal(answer, f"whether the namespace {name} is gone cannot be asked")


def _not_free(name: str) -> UsageError:
    return UsageError(
        f"the namespace '{name}' exists already",
        "name a new one, or omit -n; 'cnibench clean' removes those of cnibench",
    )
