"""The API's news of cnibench's Pods, with the time at which each arrived."""

from __future__ import annotations

import contextlib
import json
import queue
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cnibench.clusters.kubernetes.api import objects, pods
from cnibench.clusters.kubernetes.api.access import Access
from cnibench.clusters.kubernetes.api.client import Watching
from cnibench.clusters.kubernetes.api.objects import Making
from cnibench.errors import ClusterError, LimitError
from cnibench.system.guest import patience

_WATCHING = 20.0  # s for the watch to begin


@dataclass
class Timed:
    """When things were seen of one Pod, in s of our clock."""

    seen: dict[str, float] = field(default_factory=dict)
    addresses: Mapping[int, str] = field(default_factory=dict)
    trouble: tuple[str, str] = ("", "")


class Watch:
    """The API's news of the Pods of one call, with the time at which each arrived."""

    def __init__(self, watching: Watching) -> None:
        self.pods: dict[str, Timed] = {}
        self._news: queue.Queue[tuple[float, dict[str, Any]] | None] = queue.Queue()
        threading.Thread(target=self._read, args=(watching,), daemon=True).start()

    def _read(self, watching: Watching) -> None:
        for line in watching.lines():
            now = time.time()
            with contextlib.suppress(ValueError):
                self._news.put((now, json.loads(line)))
        self._news.put(None)

    def begin(self) -> None:
        """Returns at the first news. Raises ClusterError."""
        with contextlib.suppress(queue.Empty):
            if news := self._news.get(timeout=_WATCHING * patience()):
                return self._take(*news)
        raise ClusterError("the API server reports nothing about cnibench's Pods")

    def until_ready(self, names: Sequence[str], limit: float) -> None:
        """Raises LimitError, ClusterError with the reason why a Pod does not come."""
        end = time.monotonic() + limit * patience()
        while waiting := [name for name in names if "ready" not in self._of(name).seen]:
            trouble = next(
                (self._of(name).trouble for name in waiting if self._of(name).trouble[0]), ("", "")
            )
            if trouble[0] and not trouble[0].startswith("Unschedulable"):
                raise ClusterError(
                    f"the Pod {waiting[0]} will not run: {' '.join(trouble).strip()}",
                    "kubectl describe pod says more",
                )
            try:
                news = self._news.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                said = f" ({' '.join(trouble)})" if trouble[0] else ""
                raise LimitError(
                    f"the Pods {', '.join(waiting[:3])} were not ready within {limit:.0f} s{said}"
                ) from None
            if news is None:
                raise ClusterError(
                    "the API server closed the watch on cnibench's Pods",
                    "is it still there? kubectl get pods",
                )
            self._take(*news)

    def _of(self, name: str) -> Timed:
        return self.pods.setdefault(name, Timed())

    def _take(self, at: float, news: Mapping[str, Any]) -> None:
        pod = news.get("object", {})
        if news.get("type") == "DELETED" or pod.get("kind") != "Pod":
            return
        timed = self._of(pod["metadata"]["name"])
        holds = {
            item["type"]
            for item in pod.get("status", {}).get("conditions", ())
            if item["status"] == "True"
        }
        states = pod.get("status", {}).get("containerStatuses", ())
        for step, there in (
            ("asked", True),
            ("scheduled", bool(pod["spec"].get("nodeName"))),
            ("network", "PodReadyToStartContainers" in holds),
            ("running", any("running" in item.get("state", {}) for item in states)),
            ("ready", "Ready" in holds),
        ):
            if there:
                timed.seen.setdefault(step, at)
        timed.addresses = pods.addresses(pod) or timed.addresses
        timed.trouble = pods.trouble(pod)


@contextlib.contextmanager
def watching(access: Access, making: Making) -> Iterator[Watch]:
    """A watch of all our Pods; it has reported one that is there already when the block is entered,
    so it is late for none that comes.
    """
    path = f"/api/v1/namespaces/{making.namespace}/pods?watch=1&labelSelector={objects.RUN}%3D{making.run}"  # noqa: E501
    with access.watch(path) as news:
        watch = Watch(news)
        watch.begin()
        yield watch
