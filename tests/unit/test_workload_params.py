"""Parameters of the workloads: sizes and rates as people write them, everything else refused;
figures for plans.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from cnibench.errors import MeasureError
from cnibench.model.metrics import METRICS
from cnibench.registry import providers
from cnibench.run.workload import Workload
from cnibench.workloads import _common, _load

WORKLOADS: dict[str, Workload] = providers("workloads")


@pytest.mark.parametrize("name", WORKLOADS)
def test_defaults_are_a_fixed_point(name: str) -> None:
    workload = WORKLOADS[name]
    defaults = workload.params({})
    assert workload.params(defaults) == defaults
    assert workload.primary in METRICS
    assert workload.title
    if name in ("http", "tcp-stream"):
        assert workload.bytes(defaults, 10) > 0
    with pytest.raises(ValidationError):
        workload.params({"no-such-parameter": 1})


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("tcp-stream", {"message": "4M"}, {"message": 4 << 20}),
        ("tcp-stream", {"message": "16k"}, {"message": 16 << 10}),
        ("tcp-rr", {"request": "100", "response": 200}, {"request": 100, "response": 200}),
        ("iperf3-udp", {"rate": "50M"}, {"rate": 50e6}),
        ("http", {"payload": "5M", "requests": 500000}, {"payload": 5 << 20, "requests": 500000}),
    ],
)
def test_sizes_and_rates_are_read(
    name: str, given: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert expected.items() <= WORKLOADS[name].params(given).items()


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("tcp-stream", {"message": "0"}),
        ("tcp-stream", {"message": "4 parsecs"}),
        ("tcp-stream", {"message": float("nan")}),
        ("udp-stream", {"message": 65508}),
        ("iperf3-tcp", {"streams": 129}),
        ("iperf3-udp", {"rate": -1}),
        ("iperf3-udp", {"rate": float("inf")}),
        ("http", {"concurrency": 0}),
        ("http", {"requests": 9, "concurrency": 10}),
        ("tcp-stream-series", {"interval": 0.01}),
        ("tcp-rr-under-load", {"connections": -1}),
    ],
)
def test_impossible_ones_are_refused(name: str, given: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        WORKLOADS[name].params(given)


def test_as_many_requests_at_once_as_there_are_in_all() -> None:
    http = WORKLOADS["http"]
    assert http.params({"requests": 10, "concurrency": 10})["concurrency"] == 10
    assert http.params({"concurrency": 500})["requests"] == 0, "a run by time has enough of them"
    with pytest.raises(
        ValidationError, match=r"at least the concurrency 11, or 0 \(by time\), got 10"
    ):
        http.params({"requests": 10, "concurrency": 11})


def test_a_fixed_number_of_requests_takes_its_own_time() -> None:
    http = WORKLOADS["http"]
    assert http.seconds(http.params({}), 10, 2) == 12
    many = http.params({"requests": 500_000})
    assert 2000 < http.seconds(many, 10, 2) < http.longest(many, 10)
    assert http.longest(many, 10) > 30_000, "a slow network is not a hanging client"
    assert http.longest(http.params({}), 10) == 15


@given(st.integers(1, 20_000), st.integers(1, 300))
def test_connections_are_spread_evenly(connections: int, pods: int) -> None:
    pairs = min(connections, pods)
    streams = _load.Load(connections, pairs, 1e6).streams()
    assert sum(streams) == connections
    assert len(streams) == pairs
    assert min(streams) >= 1
    assert max(streams) - min(streams) <= 1


def test_a_slow_connection_sends_small_blocks() -> None:
    assert [_load.Load(1, 1, rate).block() for rate in (0, 50e6, 10e6, 1e6, 1)] == [
        131072,
        125000,
        25000,
        2500,
        1024,
    ]


def test_pairs_of_the_load_are_those_of_qi2021() -> None:
    assert [_load.most_pairs(n, "intra", 0) for n in (1, 49, 1500)] == [1, 49, 49]
    assert [_load.most_pairs(n, "inter", 0) for n in (1, 400)] == [1, 99]
    with pytest.raises(MeasureError, match="more than 128 each"):
        _load.most_pairs(1000, "intra", 2)


@given(st.text())
def test_device_counters_of_any_text(text: str) -> None:
    for table in (text, f"eth0: {text}"):
        try:
            assert _load.sent(table, "eth0") >= 0
        except MeasureError:
            pass


def test_device_counters() -> None:
    table = (
        "Inter-|   Receive\n face |bytes\n    lo: 1 2 0 0 0 0 0 0 3 4 0 0 0 0 0 0\n  eth0:10 2 0 0"
        " 0 0 0 0 777 4 0 0 0 0 0 0\n"
    )
    assert _load.sent(table, "eth0") == 777


def test_sockets_of_a_port() -> None:
    table = (
        "  sl  local_address rem_address   st\n"
        "   0: 0100007F:1451 00000000:0000 0A 00000000:00000000 00:00000000\n"
        "   1: 0100007F:1451 0100007F:A000 01 00000000:00000000 00:00000000\n"
        "   2: 0100007F:A000 0100007F:1451 01 00000000:00000000 00:00000000\n"
    )
    assert [_common.sockets(table, 5201, state) for state in ("0A", "01", "06")] == [1, 1, 0]


@given(st.floats(0.001, 1e5))
def test_whole_seconds_never_fall_short(seconds: float) -> None:
    assert (
        seconds <= _common.whole_seconds(seconds) < seconds + 1
        or _common.whole_seconds(seconds) == 1
    )
    assert math.isfinite(_common.whole_seconds(seconds))
