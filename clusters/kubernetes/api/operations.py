"""What is done with objects that are named as people name them: read, listed, made, applied,
deleted by their UIDs.
"""

from __future__ import annotations

import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlencode

from cnibench.clusters.kubernetes.api import kinds
from cnibench.clusters.kubernetes.api.client import JSON, Answer
from cnibench.clusters.kubernetes.api.kinds import Kind
from cnibench.errors import ClusterError, LimitError

QUICK = 30.0  # s: a question to the API server
APPLIER = "cnibench"  # our name as a field manager (metadata.managedFields)
_REVIEW = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_REQUEST = "cnibench.io/request"  # an annotation: which request made the object
_PAGE = 500  # objects in one answer
_AT_ONCE = 8  # deletions
_LOOK = 0.3  # s between two looks at what is going
_EXPIRED = 410  # the rest of a list whose beginning is too old

Object = dict[str, Any]


class NotAdmittedError(ClusterError):
    """The user may make the object, and the cluster's admission refuses it."""


class Operations(ABC):
    """The objects of one API server. All methods raise ClusterError and its kinds; a right that is
    missing is never an object that is absent.
    """

    @abstractmethod
    def call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        timeout: float = QUICK,
        *,
        content: str = JSON,
        accept: str = JSON,
    ) -> Answer:
        """One request."""

    @abstractmethod
    def refusal(self, answer: Answer, what: str) -> ClusterError:
        """The error for an answer that is no success; ``what`` could not be done."""

    def find(
        self, kind: str, name: str, namespace: str = "", timeout: float = QUICK
    ) -> Object | None:
        """One object; None when there is none, or the server has no such kind."""
        known = self.served(kind)
        if known is None:
            return None
        answer = self.call("GET", known.path(namespace, name), timeout=timeout)
        if answer.status == 404:
            return None
        return self.checked(answer, f"{kind} {name} cannot be read")

    def look_up(self, what: str, namespace: str = "") -> Object | None:
        """The same for KIND/NAME, as profiles name objects."""
        kind, _, name = what.partition("/")
        return self.find(kind, name, namespace)

    def get(self, kind: str, name: str, namespace: str = "", timeout: float = QUICK) -> Object:
        """The same; one that is absent is an error."""
        found = self.find(kind, name, namespace, timeout)
        if found is None:
            where = f" in {namespace}" if namespace else ""
            raise ClusterError(f"there is no {kind} {name}{where}")
        return found

    def listed(
        self,
        kind: str,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        timeout: float = QUICK,
    ) -> list[Object]:
        """Those of a namespace, or of all."""
        path = self._kind(kind).path(namespace)
        query = {"labelSelector": labels, "fieldSelector": fields, "limit": str(_PAGE)}
        found: list[Object] = []
        while True:
            asked = urlencode({key: value for key, value in query.items() if value})
            answer = self.call("GET", f"{path}?{asked}", timeout=timeout)
            if answer.status == _EXPIRED and "continue" in query:
                del query["continue"], query["limit"]
                found = []
                continue
            page = self.checked(answer, f"{kind} cannot be listed")
            found += page.get("items") or ()
            token = (page.get("metadata") or {}).get("continue")
            if not token:
                return found
            query["continue"] = token

    def create(self, *objects: Mapping[str, Any], timeout: float = QUICK) -> list[Object]:
        """Makes objects that are not there yet."""
        return [
            self._admitted(
                created(self, self._path(item), item, f"?fieldManager={APPLIER}", timeout),
                item,
                f"{_words(item)} cannot be made",
                ("create",),
            )
            for item in objects
        ]

    def apply(
        self, *objects: Mapping[str, Any], dry_run: bool = False, timeout: float = QUICK
    ) -> list[Object]:
        """Makes or changes objects by server-side apply; as they are then. ``dry_run``: as they
        would be.
        """
        query = f"?fieldManager={APPLIER}&force=true&fieldValidation=Strict"
        query += "&dryRun=All" if dry_run else ""
        return [
            self._admitted(
                self.call(
                    "PATCH",
                    f"{self._path(item)}/{item['metadata']['name']}{query}",
                    item,
                    timeout,
                    content="application/apply-patch+yaml",
                ),
                item,
                f"{_words(item)} cannot be applied",
                ("create", "patch"),
            )
            for item in objects
        ]

    def delete(
        self,
        kind: str,
        namespace: str,
        labels: str,
        *,
        grace: int | None = None,
        wait: float = 0.0,
        timeout: float = QUICK,
    ) -> None:
        """Each with these labels, by its UID. ``wait``: up to so many seconds until they are gone,
        LimitError then.
        """
        known = self._kind(kind)
        uids = {
            str(item["metadata"]["name"]): str(item["metadata"]["uid"])
            for item in self.listed(kind, namespace, labels=labels, timeout=timeout)
        }
        with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
            jobs = [
                pool.submit(self._end, known.path(namespace, name), uid, grace, timeout)
                for name, uid in uids.items()
            ]
        for job in jobs:
            job.result()
        end = time.monotonic() + wait
        while uids and wait:
            there = self.listed(kind, namespace, labels=labels, timeout=timeout)
            left = _still(uids, there)
            if not left:
                return
            if time.monotonic() >= end:
                raise LimitError(
                    f"{', '.join(left[:3])} ({kind}) were not deleted within {wait:.0f} s",
                    f"kubectl get {kind} -n {namespace} says more",
                )
            time.sleep(_LOOK)

    def served(self, name: str) -> Kind | None:
        """The kind that is called so; None where the API server has none."""
        return kinds.named(kinds.BUILT_IN, name) or kinds.named(self._asked_for(name), name)

    def checked(self, answer: Answer, what: str) -> Object:
        """The body of a success. Raises the error for anything else."""
        if not answer.ok:
            raise self.refusal(answer, what)
        return dict(answer.body)

    def allowed(self, asked: Mapping[str, Any]) -> bool:
        """Does the authorizer let this user do that? ``asked``: the spec of a
        SelfSubjectAccessReview.
        """
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": dict(asked),
        }
        answer = self.call("POST", _REVIEW, review)
        if not answer.ok:
            raise self.refusal(answer, "which rights this user has cannot be asked")
        return bool(answer.body.get("status", {}).get("allowed"))

    def _admitted(
        self, answer: Answer, item: Mapping[str, Any], what: str, verbs: Sequence[str]
    ) -> Object:
        """As ``checked``. Admission refuses with the same status and reason as the authorizer:
        which of them it was, the authorizer tells.
        """
        if answer.reason == "Forbidden" and all(self._may(verb, item) for verb in verbs):
            where = str(item["metadata"].get("namespace") or "")
            raise NotAdmittedError(
                f"{what}: {answer.message}",
                "admission refused it, not the user's rights: a quota, a limit range, Pod Security"
                " or a policy of the cluster"
                + (
                    f" (kubectl describe quota,limits -n {where}). Quotas of CPU time or memory"
                    " need --pod-resources"
                    if where
                    else ""
                ),
            )
        return self.checked(answer, what)

    def _may(self, verb: str, item: Mapping[str, Any]) -> bool:
        path = self._path(item).split("/")
        about = {
            "verb": verb,
            "group": path[2] if path[1] == "apis" else "",
            "resource": path[-1],
            "namespace": str(item["metadata"].get("namespace") or ""),
            "name": str(item["metadata"]["name"]) if verb == "patch" else "",
        }
        return self.allowed({"resourceAttributes": {k: v for k, v in about.items() if v}})

    def _end(self, path: str, uid: str, grace: int | None, timeout: float) -> None:
        options: Object = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": uid},
            "propagationPolicy": "Background",
        }
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        answer = self.call("DELETE", path, options, timeout)
        if answer.status not in (404, 409):  # gone, or another object has its name now
            self.checked(answer, f"{path.rpartition('/')[2]} cannot be deleted")

    def _kind(self, name: str) -> Kind:
        known = self.served(name)
        if known is None:
            raise ClusterError(f"the API server has no objects of the kind {name}")
        return known

    def _path(self, item: Mapping[str, Any]) -> str:
        known = kinds.made_of(kinds.BUILT_IN, item)
        known = known or kinds.made_of(self._asked_for(item), item)
        if known is None:
            raise ClusterError(
                f"the API server knows no {item['kind']} of {item['apiVersion']}",
                "is the profile for this Kubernetes?",
            )
        return known.path(str(item["metadata"].get("namespace") or "default"))

    def _asked_for(self, wanted: str | Mapping[str, Any]) -> Sequence[Kind]:
        """What the API server has beside the built-in; asked again for one that is not among it,
        whose definition may be new.
        """
        known: Sequence[Kind] = self.__dict__.get("_discovered", ())
        if isinstance(wanted, str):
            there = kinds.named(known, wanted)
        else:
            there = kinds.made_of(known, wanted)
        if there is None:
            answer = self.call("GET", "/apis", accept=kinds.ALL)
            body = self.checked(answer, "which kinds there are cannot be asked")
            known = self.__dict__["_discovered"] = kinds.discovered(body)
        return known


def created(
    access: Operations, path: str, item: Mapping[str, Any], query: str = "", timeout: float = 60.0
) -> Answer:
    """Makes an object that has a name, once: a request whose answer was lost is sent again, and
    then the object that exists already is ours.
    """
    meta = item["metadata"]
    request = secrets.token_hex(8)
    annotations = {**(meta.get("annotations") or {}), _REQUEST: request}
    marked = {**item, "metadata": {**meta, "annotations": annotations}}
    answer = access.call("POST", path + query, marked, timeout)
    if answer.status == 409 and answer.reason == "AlreadyExists":
        there = access.call("GET", f"{path}/{meta['name']}", timeout=timeout)
        found = there.body.get("metadata", {}).get("annotations") or {}
        if there.ok and found.get(_REQUEST) == request:
            return there
    return answer


def _still(uids: Mapping[str, str], there: Collection[Object]) -> list[str]:
    return [
        item["metadata"]["name"]
        for item in there
        if uids.get(item["metadata"]["name"]) == item["metadata"]["uid"]
    ]


def _words(item: Mapping[str, Any]) -> str:
    return f"{item['kind']} {item['metadata'].get('namespace', '')}/{item['metadata']['name']}"
