"""What each Pod of the background load has sent, out of counters that may be reset or stand
still.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cnibench.errors import MeasureError
from cnibench.testbed.capabilities.pods.extra import ExtraPods
from cnibench.workloads import _load

PODS = [SimpleNamespace(name="ax0"), SimpleNamespace(name="ax1")]
FAST = _load.Load(connections=2, pairs=2, rate=50e6)


def marked(
    folder: Path,
    before: list[int] | None,
    after: list[int] | None,
    *,
    load: _load.Load = FAST,
    window: float = 10.0,
) -> tuple[Any, Any]:
    """The load that has sent so much ``window`` seconds after its mark."""
    (folder / "background").mkdir()
    s = SimpleNamespace(raw=folder)
    _load.mark(s, SimpleNamespace(bytes=lambda: before))  # type: ignore[arg-type]
    file = folder / "background" / "start.json"
    told = json.loads(file.read_text())
    assert told["at"] <= time.monotonic()
    file.write_text(json.dumps({**told, "at": told["at"] - window}))
    return s, SimpleNamespace(bytes=lambda: after, clients=PODS, load=load)


def test_the_rate_is_what_all_have_sent_since_the_mark(tmp_path: Path) -> None:
    s, load = marked(tmp_path, [1000, 0], [1000 + (1 << 30), 1 << 30], window=1000.0)
    assert _load.achieved(s, load) == pytest.approx((2 << 30) * 8 / 1000, rel=0.1)


def test_one_counter_that_fell_is_no_rate_though_the_sum_grew(tmp_path: Path) -> None:
    s, load = marked(tmp_path, [1 << 30, 0], [17, 8 << 30])
    with pytest.raises(
        MeasureError,
        match=(
            "counter of the background Pod ax0 fell within the window: it was reset, or has wrapped"
        ),
    ):
        _load.achieved(s, load)


@pytest.mark.parametrize("more", [0, 66, 30_000])
def test_one_pod_that_stalls_is_named_whatever_its_kernel_sent(tmp_path: Path, more: int) -> None:
    s, load = marked(tmp_path, [0, 5000], [1 << 30, 5000 + more])
    with pytest.raises(MeasureError, match=f"background load stalled: ax1 sent {more} bytes in 10"):
        _load.achieved(s, load)


def test_a_slow_pod_that_sends_is_none_that_stalls(tmp_path: Path) -> None:
    """One send of 1024 bytes takes 8 s at 1024 bit/s: it may be missing in a window of 10 s, not in
    one of 100 s.
    """
    slow = _load.Load(connections=2, pairs=2, rate=1024.0)
    for window, more, stalled in ((10.0, 0, False), (100.0, 1024, False), (100.0, 0, True)):
        folder = tmp_path / f"{window}-{more}"
        folder.mkdir()
        s, load = marked(folder, [0, 0], [1 << 20, more], load=slow, window=window)
        if stalled:
            with pytest.raises(MeasureError, match="stalled: ax1"):
                _load.achieved(s, load)
        else:
            assert _load.achieved(s, load) is not None


def test_pods_without_a_device_of_their_own_have_none(tmp_path: Path) -> None:
    s, load = marked(tmp_path, None, None)
    assert _load.achieved(s, load) is None


def test_an_unlimited_load_sends_all_the_time() -> None:
    assert _load.Load(connections=3, pairs=2, rate=0).sends(0.5) == [float("inf")] * 2
    assert _load.Load(connections=3, pairs=2, rate=50e6).sends(1.0) == [100.0, 50.0]


class Cluster(ExtraPods):
    """In place of a deployment: Pods are names."""

    def pods(self) -> Any:
        raise NotImplementedError

    def read_texts(self, pods: Any, path: str) -> Any:
        raise NotImplementedError

    def __init__(self) -> None:
        self.requests: list[list[tuple[str, int]]] = []

    def add_pods_on(self, wanted: Any) -> Any:
        first = {
            node.name: sum(
                count for request in self.requests for name, count in request if name == node.name
            )
            for node, _ in wanted
        }
        self.requests.append([(node.name, count) for node, count in wanted])
        return [
            [f"{node.name}x{first[node.name] + number}" for number in range(count)]
            for node, count in wanted
        ]


def test_the_study_takes_no_more_than_99_pods_of_a_node() -> None:
    """49 pairs on one node, then 99 between two, in one request each: a kubelet takes 110 Pods
    unless told otherwise.
    """
    deployment: Any = Cluster()
    a: Any = SimpleNamespace(name="a")
    b: Any = SimpleNamespace(name="b")
    clients, servers = _load.groups(deployment, [a, a], 49)
    assert (len(set(clients)), len(set(servers)), set(clients) & set(servers)) == (49, 49, set())
    far_clients, far_servers = _load.groups(deployment, [a, b], 99)
    assert deployment.requests == [[("a", 98)], [("a", 1), ("b", 99)]]
    assert (len(set(far_clients)), len(set(far_servers))) == (99, 99)
    assert _load.groups(deployment, [a, a], 49) == [clients, servers], "the same serve again"
    assert len(deployment.requests) == 2
    assert _load.groups(Cluster(), [a, b], 1) == [["ax0"], ["bx0"]]  # type: ignore[arg-type, comparison-overlap]
