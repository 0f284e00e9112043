"""Ownership of a namespace on a cluster: a Lease (coordination.k8s.io/v1) in it, renewed for as
long as its run lives.

Its rule is that of client-go's leader election (tools/leaderelection): whoever finds the Lease
unchanged for longer than its duration, by the observer's own monotonic clock, may take it. Times in
a Lease are for people: no clock of one machine is compared with that of another. Taking it is one
conditional write, so that of two that want it one gets it, and a run that was only asleep finds
that it has lost it.
"""

from __future__ import annotations

import datetime
import threading
import time
from collections.abc import Mapping
from typing import Any

from cnibench.clusters.kubernetes.api import objects
from cnibench.clusters.kubernetes.api.access import Access
from cnibench.clusters.kubernetes.api.client import Answer
from cnibench.clusters.kubernetes.api.operations import created

NAME = "cnibench"
DURATION = 30  # s
_RENEW = 5.0  # s between two renewals
FRESH = 1.0  # s that a renewal counts as one of this moment
_AGAIN = 1.0  # s after one that failed
_ANSWER = 3.0  # s; a later answer counts as an outage
OWNER, SPACE = "cnibench.io/owner", "cnibench.io/namespace-uid"


def path(namespace: str, name: str = NAME) -> str:
    """Of a Lease, in the API; ``name`` '': of all in the namespace."""
    return f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases" + (
        f"/{name}" if name else ""
    )


def body(namespace: str, uid: str, owner: str, holder: str) -> dict[str, Any]:
    """A new Lease; ``uid`` is the namespace's, so that a copy elsewhere proves nothing."""
    moment = _now()
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": NAME,
            "namespace": namespace,
            "labels": {objects.OURS: objects.NAME},
            "annotations": {OWNER: owner, SPACE: uid, objects.RUN: holder.partition("_")[2]},
        },
        "spec": {
            "holderIdentity": holder,
            "leaseDurationSeconds": DURATION,
            "acquireTime": moment,
            "renewTime": moment,
            "leaseTransitions": 0,
        },
    }


def reference(uid: str) -> dict[str, str]:
    """The owner reference of what goes with the Lease that has this UID."""
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "name": NAME, "uid": uid}


def taken(lease: Mapping[str, Any], holder: str) -> dict[str, Any]:
    """The same Lease with another holder; '' is nobody."""
    moment, spec = _now(), lease["spec"]
    changed = {
        "holderIdentity": holder,
        "acquireTime": moment,
        "renewTime": moment,
        "leaseTransitions": spec.get("leaseTransitions", 0) + 1,
    }
    return {**lease, "spec": {**spec, **changed}}


class Lease:
    """One that this process holds. A thread renews it; ``lost`` says why it is not ours any more,
    '' while it is.

    The thread may be starved or the process stopped: ``check`` sees that by the age of the last
    renewal.
    """

    def __init__(self, access: Access, namespace: str, uid: str, owner: str, run: str) -> None:
        """Makes it. Raises ClusterError."""
        self.access = access
        self.namespace = namespace
        self.holder = f"{owner}_{run}"
        self.lost = ""
        answer = created(access, path(namespace, ""), body(namespace, uid, owner, self.holder))
        if not answer.ok:
            raise access.refusal(answer, f"the Lease of the namespace {namespace} cannot be made")
        self._lease = dict(answer.body)
        self.uid = str(self._lease["metadata"]["uid"])
        self._renewed = _clock()
        self._busy = threading.Lock()
        self._end = threading.Event()
        threading.Thread(target=self._keep, name="cnibench-lease", daemon=True).start()

    def check(self, now: bool = False) -> str:
        """Why it is not ours any more, '' when it is. Asks the API server when the last renewal is
        old; ``now``: when it is not of this very moment.
        """
        age = _clock() - self._renewed
        if not self.lost and (age > DURATION or (now and age > FRESH)):
            self._renew()
        return self.lost

    def stop(self) -> None:
        """Ends the renewing: what it is in goes away as a whole."""
        self._end.set()

    def release(self) -> None:
        """Ends the renewing, and says on the cluster that nobody holds it. An API server that does
        not answer is no error.
        """
        self._end.set()
        with self._busy:
            if not self.lost:
                self.access.api.call("PUT", path(self.namespace), taken(self._lease, ""), _ANSWER)
                self.lost = "it was released"

    def _keep(self) -> None:
        pause = _RENEW
        while not self._end.wait(pause):
            if (age := _clock() - self._renewed) < _RENEW / 2:  # ``check`` has renewed it
                pause = _RENEW - age
                continue
            pause = _RENEW if self._renew() else _AGAIN
            if self.lost:
                return

    def _renew(self) -> bool:
        """Did the API server answer?"""
        with self._busy:
            if self.lost or self._end.is_set():
                return True
            began = time.monotonic()
            lease = {**self._lease, "spec": {**self._lease["spec"], "renewTime": _now()}}
            answer = self.access.api.call("PUT", path(self.namespace), lease, _ANSWER)
            if (
                answer.status == 409
            ):  # somebody has changed it, or our last renewal arrived after we gave it up
                answer = self._again()
            if answer.silent:
                self.access.availability.failed(
                    answer.message or answer.reason, time.monotonic() - began
                )
                return False
            self.access.availability.answered()
            if answer.ok:
                self._lease, self._renewed = dict(answer.body), _clock()
            elif answer.status == 404:
                self.lost = self._gone()
            elif _clock() - self._renewed > DURATION:
                self.lost = (
                    f"the Lease of the namespace {self.namespace} cannot be renewed:"
                    f" {answer.message or answer.reason}"
                )
            return True

    def _again(self) -> Answer:
        answer = self.access.api.call("GET", path(self.namespace), None, _ANSWER)
        if not answer.ok:
            return answer
        spec = answer.body["spec"]
        if spec.get("holderIdentity") != self.holder:
            other = spec.get("holderIdentity") or "nobody"
            self.lost = (
                f"the Lease of the namespace {self.namespace} was taken away from this run: its"
                f" holder is {other}"
            )
            return answer
        lease = {**answer.body, "spec": {**spec, "renewTime": _now()}}
        return self.access.api.call("PUT", path(self.namespace), lease, _ANSWER)

    def _gone(self) -> str:
        answer = self.access.api.call("GET", f"/api/v1/namespaces/{self.namespace}", None, _ANSWER)
        ending = answer.status == 404 or bool(
            answer.body.get("metadata", {}).get("deletionTimestamp")
        )
        what = (
            f"the namespace {self.namespace}"
            if ending
            else f"the Lease of the namespace {self.namespace}"
        )
        return f"somebody else has deleted {what}"


def changed(lease: Mapping[str, Any]) -> tuple[Any, ...]:
    """What a renewal changes: while this stays the same, nobody has renewed it."""
    spec = lease.get("spec", {})
    return (
        lease.get("metadata", {}).get("uid"),
        spec.get("holderIdentity"),
        spec.get("renewTime"),
        spec.get("leaseTransitions"),
    )


def seconds(lease: Mapping[str, Any]) -> float:
    """Its duration. One without says nothing about how long to wait: ours counts."""
    given = lease.get("spec", {}).get("leaseDurationSeconds")
    return float(given) if given else float(DURATION)


def take(access: Access, lease: Mapping[str, Any], holder: str) -> bool:
    """Makes ``holder`` the holder unless the Lease has changed since it was read. Raises
    ClusterError.
    """
    answer = access.call("PUT", path(lease["metadata"]["namespace"]), taken(lease, holder))
    if answer.ok:
        return True
    if answer.status in (404, 409):
        return False
    raise access.refusal(answer, f"the Lease of {lease['metadata']['namespace']} cannot be taken")


def _clock() -> float:
    """Goes on while the machine sleeps, as the clocks of observers do."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _now() -> str:
    """As MicroTime of the API is written."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
