"""The parser of iperf3's JSON, on what iperf3 really printed and on anything else."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cnibench.errors import MeasureError
from cnibench.registry import provider
from cnibench.run.sample_context import Measurements
from cnibench.workloads import _iperf3

GOLDEN = Path(__file__).parent.parent / "golden" / "iperf3"
ANY_JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=12,
)


def golden(name: str) -> str:
    return (GOLDEN / f"{name}.json").read_text()


def interpreted(workload: str, name: str, **params: Any) -> Measurements:
    """What that workload makes of the report."""
    found: Measurements = provider("workloads", workload).interpret(
        _iperf3.parse(golden(name)), params
    )
    return found


def figures(found: Measurements) -> dict[str, float]:
    return {reading.metric: reading.value for reading in found.readings}


def test_one_stream() -> None:
    end = json.loads(golden("tcp"))["end"]
    report = _iperf3.parse(golden("tcp"))
    assert report.forward == end["sum_received"]["bits_per_second"]
    assert (report.reverse, report.streams, report.times) == (0.0, 1, report.times)
    assert report.retransmits == end["sum_sent"]["retransmits"]


def test_streams_over_ipv6() -> None:
    report = _iperf3.parse(golden("tcp_ipv6_streams"))
    assert report.streams == 3
    each = [
        stream["receiver"]["bytes"]
        for stream in json.loads(golden("tcp_ipv6_streams"))["end"]["streams"]
    ]
    assert report.forward * report.seconds == pytest.approx(sum(each) * 8, rel=0.01)


def test_both_directions() -> None:
    report = _iperf3.parse(golden("tcp_bidirectional"))
    assert report.streams == 4
    found = interpreted("iperf3-tcp", "tcp_bidirectional", streams=2, bidirectional=True).readings
    assert [reading.params for reading in found] == [
        {},
        {"direction": "forward"},
        {"direction": "reverse"},
    ]
    assert found[0].value == pytest.approx(found[1].value + found[2].value)
    assert all(reading.value > 0 for reading in found)


def test_a_missing_stream_is_a_failure() -> None:
    with pytest.raises(MeasureError, match="1 streams, 2 were asked for"):
        interpreted("iperf3-tcp", "tcp", streams=2, bidirectional=False)


def test_loss_at_a_fixed_rate() -> None:
    found = figures(interpreted("iperf3-udp", "udp", rate=50e6, message=1024))
    assert found["throughput"] == pytest.approx(50e6 * (1 - found["loss"]), rel=0.05)


def test_loss_is_a_share() -> None:
    total = json.loads(golden("udp_lossy"))["end"]["sum"]
    found = figures(interpreted("iperf3-udp", "udp_lossy", rate=0, message=1024))
    assert found["loss"] * 100 == pytest.approx(total["lost_percent"])


def test_a_sender_that_was_too_slow_is_refused() -> None:
    with pytest.raises(MeasureError, match="sent"):
        interpreted("iperf3-udp", "udp", rate=500e6, message=1024)


def test_series() -> None:
    report = _iperf3.parse(golden("series"))
    assert len(report.times) == len(report.rates) >= 4
    assert list(report.times) == sorted(report.times)
    assert sum(report.rates) / len(report.rates) == pytest.approx(report.forward, rel=0.25)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("no_server", "Connection refused"),
        ("busy", "busy"),
        ("interrupted", "interrupt"),
        ("server_gone", "iperf3: "),
    ],
)
def test_failures_have_their_reason(name: str, reason: str) -> None:
    with pytest.raises(MeasureError, match=reason):
        _iperf3.parse(golden(name))


@pytest.mark.parametrize(
    "value", ["NaN", "Infinity", "-1", "1e999", "true", "null", '"x"', "[]", "{}"]
)
def test_impossible_figures_are_refused(value: str) -> None:
    text = json.dumps({"end": {"sum_received": {"bits_per_second": "@", "seconds": 1}}}).replace(
        '"@"', value
    )
    with pytest.raises(MeasureError, match="bits_per_second"):
        _iperf3.parse(text)


def only_figures_or_measure_error(text: str, errors: str = "") -> None:
    try:
        report = _iperf3.parse(text, errors)
    except MeasureError:
        return
    for figure in (report.forward, report.reverse, report.seconds, *report.times, *report.rates):
        assert math.isfinite(figure)
        assert figure >= 0


@given(st.text(), st.text())
def test_any_text(text: str, errors: str) -> None:
    only_figures_or_measure_error(text, errors)


@given(ANY_JSON)
def test_any_json(data: Any) -> None:
    only_figures_or_measure_error(json.dumps(data))


@given(st.data())
def test_a_report_with_anything_in_one_place(data: st.DataObject) -> None:
    report = json.loads(
        golden(data.draw(st.sampled_from(["tcp", "tcp_bidirectional", "udp", "series"])))
    )
    place = report
    while isinstance(place, dict | list) and place:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = data.draw(st.sampled_from(keys))
        if data.draw(st.booleans()) or not isinstance(place[key], dict | list):
            place[key] = data.draw(ANY_JSON)
            break
        place = place[key]
    only_figures_or_measure_error(json.dumps(report))


def test_deep_nesting_is_refused() -> None:
    with pytest.raises(MeasureError):
        _iperf3.parse("[" * 100_000)
