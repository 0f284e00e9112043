"""Objects of one kind as the API server last reported them: listed once, and then watched, so that
looking at them again costs no request.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlencode

from cnibench.clusters.kubernetes.api.access import Access
from cnibench.clusters.kubernetes.api.client import Watching
from cnibench.clusters.kubernetes.api.operations import Object


class Following:
    """Pods of a namespace with these labels. What ends the watch, an outage say, has the next look
    list them again.
    """

    def __init__(self, access: Access, namespace: str, labels: str = "") -> None:
        self._access = access
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self._labels = labels
        self._changed = threading.Condition()
        self._items: dict[str, Object] = {}
        self._watching: Watching | None = None

    def items(self) -> list[Object]:
        """Raises ClusterError when they cannot be listed."""
        with self._changed:
            if self._watching is None:
                self._begin()
            return list(self._items.values())

    def wait(self, seconds: float) -> None:
        """Until something has changed, or that time is over."""
        with self._changed:
            if self._watching is not None:
                self._changed.wait(seconds)

    def close(self) -> None:
        """Ends the watch; may be called twice."""
        with self._changed:
            watching, self._watching = self._watching, None
        if watching is not None:
            watching.close()

    def _begin(self) -> None:
        query = {"labelSelector": self._labels} if self._labels else {}
        answer = self._access.call("GET", f"{self._path}?{urlencode(query)}")
        listed = self._access.checked(answer, "pods cannot be listed")
        self._items = {one["metadata"]["name"]: one for one in listed["items"]}
        version = str(listed["metadata"].get("resourceVersion", ""))
        asked = {**query, "watch": "1", "resourceVersion": version}
        self._watching = self._access.watch(f"{self._path}?{urlencode(asked)}")
        arguments = (self._watching,)
        threading.Thread(target=self._read, args=arguments, daemon=True).start()

    def _read(self, watching: Watching) -> None:
        for line in watching.lines():
            try:
                news = json.loads(line)
            except ValueError:
                break
            with self._changed:
                if self._watching is not watching or not self._take(news):
                    break
                self._changed.notify_all()
        with self._changed:
            if self._watching is watching:
                self._watching = None
            self._changed.notify_all()
        watching.close()

    def _take(self, news: Mapping[str, Any]) -> bool:
        """False for what ends a watch: the server has forgotten its beginning, say."""
        item = news.get("object") or {}
        name = str((item.get("metadata") or {}).get("name", ""))
        if news.get("type") in ("ADDED", "MODIFIED"):
            self._items[name] = item
        elif news.get("type") == "DELETED":
            self._items.pop(name, None)
        else:
            return False
        return True


@contextmanager
def following(access: Access, namespace: str, labels: str) -> Iterator[Following]:
    """As long as the block lasts."""
    made = Following(access, namespace, labels)
    try:
        yield made
    finally:
        made.close()
