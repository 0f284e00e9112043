"""Requests about objects by their paths: a deletion by UID, a listing of metadata alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cnibench.clusters.kubernetes.api.access import Access
from cnibench.clusters.kubernetes.api.client import JSON, Answer
from cnibench.clusters.kubernetes.api.operations import APPLIER, Object, created

_LIMIT = 60.0  # s
_METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_UNSERVED = (404, 405, 503)
_PAGE = 500  # objects in one answer


class Rest:
    """The objects of one cluster. All methods raise ClusterError and its kinds."""

    def __init__(self, access: Access) -> None:
        self.access = access

    def get(self, path: str) -> Object | None:
        """One object with its managed fields, None when there is none."""
        answer = self.access.call("GET", path, timeout=_LIMIT)
        return None if answer.status == 404 else self._checked(answer, path)

    def kinds(self, api: str) -> list[Object]:
        """The kinds of a group's version; none while the server that has that group is down."""
        path = f"/apis/{api}" if "/" in api else f"/api/{api}"
        answer = self._listed(path, JSON)
        return (
            []
            if answer.status in _UNSERVED
            else list(self._checked(answer, path).get("resources") or ())
        )

    def metadata(self, path: str) -> list[Object] | None:
        """The metadata of all objects of a kind; None when they cannot be listed now."""
        found: list[Object] = []
        more = ""
        while True:
            answer = self._listed(f"{path}?limit={_PAGE}{more}", _METADATA)
            if answer.status in _UNSERVED or (
                answer.status == 500 and not self.access.unanswered()
            ):  # one kind alone: the webhook that converts it has gone, for instance
                return None
            page = self._checked(answer, path)
            found += page.get("items") or ()
            token = page.get("metadata", {}).get("continue")
            if not token:
                return found
            more = f"&continue={token}"

    def create(self, path: str, item: Mapping[str, Any]) -> Object:
        """Raises ClusterError when it exists already."""
        return self._checked(created(self.access, path, item, f"?fieldManager={APPLIER}"), path)

    def apply(self, path: str, item: Mapping[str, Any]) -> Object:
        """Server-side apply; the object as it is then, with its UID."""
        query = f"?fieldManager={APPLIER}&force=true&fieldValidation=Strict"
        answer = self.access.call(
            "PATCH", path + query, item, _LIMIT, content="application/apply-patch+yaml"
        )
        return self._checked(answer, path)

    def patch(self, path: str, change: Mapping[str, Any]) -> bool:
        """A merge patch; False when the object is gone, is not the one whose metadata.uid
        ``change`` has, or does not have the resourceVersion that ``change`` has.
        """
        answer = self.access.call(
            "PATCH", path, change, _LIMIT, content="application/merge-patch+json"
        )
        if answer.status in (404, 409) or (
            answer.status == 422 and self._now(path).get("uid") != change["metadata"]["uid"]
        ):
            return False
        self._checked(answer, path)
        return True

    def delete(
        self, path: str, uid: str, propagation: str = "Background", grace: int | None = None
    ) -> bool:
        """Asks for its end if it has this UID, after ``grace`` s where it is given; False when that
        object is gone.
        """
        options: Object = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": uid},
            "propagationPolicy": propagation,
        }
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        answer = self.access.call("DELETE", path, options, _LIMIT)
        if answer.status == 404:
            return False
        if answer.status == 409:  # it is going already, or another one has its name now
            there = self._now(path)
            if there.get("uid") != uid or there.get("deletionTimestamp"):
                return there.get("uid") == uid
        self._checked(answer, path)
        return True

    def _now(self, path: str) -> Object:
        """The metadata of the object that has that name now; none when there is no such object."""
        return dict((self.get(path) or {}).get("metadata", {}))

    def _listed(self, path: str, accept: str) -> Answer:
        """An answer of 503 may be that of an extension's own server, which the API server's being
        ready does not mend. One that is not ready yet has all its kinds later: raises ClusterError.
        """
        answer = self.access.api.call("GET", path, timeout=_LIMIT, accept=accept)
        starting = answer.status in (500, 503) and bool(self.access.unanswered())
        if answer.status in (0, 429) or starting:
            answer = self.access.call("GET", path, timeout=_LIMIT, accept=accept)
            if starting and answer.silent:
                raise self.access.refusal(answer, path)
        return answer

    def _checked(self, answer: Answer, path: str) -> Object:
        if not answer.ok:
            raise self.access.refusal(answer, path)
        return dict(answer.body)
