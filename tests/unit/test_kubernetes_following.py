"""Pods that are listed once and then watched."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cnibench.clusters.kubernetes.api.access import Access, DeniedError
from cnibench.clusters.kubernetes.api.following import Following, following
from cnibench.clusters.kubernetes.api.objects import Making
from cnibench.clusters.kubernetes.pods.watch import watching
from cnibench.errors import ClusterError
from tests.unit._objects import Objects, kubeconfig, serving

LIMIT = 20.0  # s


def pod(name: str) -> dict[str, object]:
    meta = {"name": name, "namespace": "n", "resourceVersion": "1"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {}}


class Watched(Objects):
    """``news`` are what a watch reports; it ends after them unless ``held`` is set."""

    def __init__(self) -> None:
        super().__init__(pod("a"))
        self.news: list[dict[str, object]] = []
        self.held = threading.Event()

    def stream(self, path: str) -> Iterator[bytes]:
        self.asked.append(f"WATCH {path}")
        for one in self.news:
            yield json.dumps(one).encode() + b"\n"
        if self.held.is_set():
            time.sleep(LIMIT)


def until(what: object, news: Following) -> None:
    end = time.monotonic() + LIMIT
    while {item["metadata"]["name"] for item in news.items()} != what:
        assert time.monotonic() < end
        news.wait(0.05)


def test_looking_again_costs_no_request(tmp_path: Path) -> None:
    api = Watched()
    api.held.set()
    api.news = [{"type": "ADDED", "object": pod("b")}, {"type": "DELETED", "object": pod("a")}]
    with serving(api) as address, following(Access(kubeconfig(tmp_path, address)), "n", "") as news:
        until({"b"}, news)
        asked = len(api.asked)
        for _ in range(5):
            news.items()
        assert len(api.asked) == asked == 2


def test_a_watch_that_ends_has_them_listed_again(tmp_path: Path) -> None:
    api = Watched()
    api.news = [{"type": "ERROR", "object": {"kind": "Status", "code": 410}}]
    with serving(api) as address, following(Access(kubeconfig(tmp_path, address)), "n", "") as news:
        until({"a"}, news)
        api.add(pod("c"))
        until({"a", "c"}, news)
        api.refused = {"GET /api/v1/namespaces/n/pods": "forbidden"}
        with pytest.raises(DeniedError):
            until({"never"}, news)


def test_a_watch_that_is_denied_says_so(tmp_path: Path) -> None:
    api = Watched()
    making = Making("n", "run", "workload", "agent")
    with serving(api) as address:
        access = Access(kubeconfig(tmp_path, address))
        api.refused = {"WATCH": "forbidden"}
        with (
            pytest.raises(DeniedError, match="cannot be watched") as error,
            watching(access, making),
        ):
            pass
        assert "'cnibench rbac' prints all that cnibench uses" in error.value.remedy


def test_a_watch_that_ends_before_it_has_begun_is_an_error(tmp_path: Path) -> None:
    making = Making("n", "run", "workload", "agent")
    with (
        serving(Watched()) as address,
        pytest.raises(ClusterError, match="reports nothing"),
        watching(Access(kubeconfig(tmp_path, address)), making),
    ):
        pass
