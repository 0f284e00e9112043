"""The course of several pairs that are measured at the same time."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from cnibench.errors import ClusterError, Interrupted, MeasureError
from cnibench.run.windows import sample
from tests.unit._sample_script import Collector, Script, Workload, measure_one, scripted


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Script:
    return scripted(tmp_path, monkeypatch)


def _pairs(script: Script, count: int = 2, workload: Workload | None = None, **more: Any) -> Any:
    pairs = [(script.context(pair, **more), [Collector(script)]) for pair in range(count)]
    return sample.measure_pairs(pairs, workload or Workload(script))  # type: ignore[arg-type]


def test_pairs_share_one_window(script: Script) -> None:
    script.opening, script.port = 0.25, 100
    found = _pairs(script)
    steps = [entry[:2] for entry in script.log]
    assert steps[:3] == [("hearts", [0, 1]), ("serve", 0), ("serve", 1)]
    assert sorted(steps[3:5]) == [("warm up", 0), ("warm up", 1)]
    assert script.log[5:11] == [
        ("prepare packets", 0),
        ("prepare packets", 1),
        ("ready",),
        ("start", 0, 10.0),
        ("start", 1, 10.0),
        ("watch", 0, 0.5),
    ]
    assert sorted(script.log[11:13]) == [("congestion", 0, 100, 3.0), ("congestion", 1, 101, 3.0)]
    assert steps[13:15] == [("pinned", 0), ("pinned", 1)]
    assert sorted(steps[15:17]) == [("observe packets", 0), ("observe packets", 1)]
    assert script.log[17] == ("watch", 0, 8.5)
    assert sorted(steps[18:20]) == [("read packets", 0), ("read packets", 1)]
    assert steps[20:22] == [("wait", 0), ("wait", 1)]
    for what in ("warm up", "congestion", "observe packets", "read packets"):
        assert threading.main_thread().name not in script.threads[what]
    assert len(script.spans) == 2
    assert [one.measurements.readings[1].value for one in found] == [0.0, 1.0]
    assert [one.congestion_control for one in found] == ["cubic", "cubic"]


def test_one_pair_needs_no_threads(script: Script) -> None:
    script.port = 1
    measure_one(script)
    for what in ("warm up", "congestion", "observe packets", "read packets"):
        assert script.threads[what] == {threading.main_thread().name}


def test_pairs_without_a_warm_up_are_left_out_of_it(script: Script) -> None:
    _pairs(script, warmup=0.0)
    assert "warm up" not in script.threads
    pairs = [(script.context(0, warmup=0.0), []), (script.context(1, warmup=0.5), [])]
    sample.measure_pairs(pairs, Workload(script))  # type: ignore[arg-type]
    assert [entry for entry in script.log if entry[0] == "warm up"] == [("warm up", 1)]


@pytest.mark.parametrize(("opening", "late"), [(3.5, False), (3.51, True)])
def test_a_fifth_of_the_window_of_pairs_must_be_left(
    script: Script, opening: float, late: bool
) -> None:
    """Of 10 s the margins are 1 s, and the collectors of both pairs begin in 7 s: 2 s are left."""
    script.opening = opening
    if late:
        with pytest.raises(MeasureError) as error:
            _pairs(script, 2)
        assert error.value.message == "starting 2 pairs took most of their window"
        assert sorted(script.closed) == [(0, MeasureError), (1, MeasureError)]
    else:
        _pairs(script, 2)
    script.opening = 2 * opening
    measure_one(script)  # of one pair nothing is asked


@pytest.mark.parametrize(
    "step",
    [
        "serve",
        "warm up",
        "start",
        "congestion",
        "pinned",
        "observe packets",
        "read packets",
        "wait",
        "measurements",
    ],
)
def test_an_error_says_of_which_pair_it_is(script: Script, step: str) -> None:
    script.port = 7
    script.fault = (step, 1)
    with pytest.raises(MeasureError) as error:
        _pairs(script, 2)
    named = "broken" if step == "congestion" else "pair 1, of 2 at the same time: broken"
    assert error.value.message == named
    assert error.value.remedy == "mend it"


def test_an_error_of_the_only_pair_has_no_number(script: Script) -> None:
    script.fault = ("serve", 0)
    with pytest.raises(MeasureError) as error:
        measure_one(script)
    assert error.value.message == "broken"


@pytest.mark.parametrize("kind", [Interrupted, ClusterError, KeyError])
def test_an_interruption_stays_what_it_is(script: Script, kind: type[Exception]) -> None:
    script.error = kind("stop")
    script.fault = ("start", 1)
    with pytest.raises(kind) as error:
        _pairs(script, 2)
    assert ("pair 1" in str(getattr(error.value, "message", ""))) == (kind is ClusterError)
    assert error.value is script.error


def test_every_collector_is_closed_where_one_fails(script: Script) -> None:
    script.fault = ("observe second", 1)
    pairs = [
        (script.context(pair), [Collector(script, "first"), Collector(script, "second")])
        for pair in range(2)
    ]
    with pytest.raises(MeasureError) as error:
        sample.measure_pairs(pairs, Workload(script))  # type: ignore[arg-type]
    assert error.value.message.startswith("pair 1, of 2")
    assert sorted(script.closed, key=str) == [
        (0, MeasureError),
        (0, MeasureError),
        (1, MeasureError),
    ]
    assert "wait" not in script.threads
