"""The parser of ab's report, on what ab really printed and on anything else."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cnibench.errors import MeasureError
from cnibench.workloads import _common, http

GOLDEN = Path(__file__).parent.parent / "golden" / "ab"


def golden(name: str) -> tuple[str, str]:
    return (GOLDEN / f"{name}.stdout").read_text(), _common.read(GOLDEN / f"{name}.stderr")


@pytest.mark.parametrize(("name", "complete"), [("plain", 2000), ("ipv6", 300)])
def test_a_whole_report(name: str, complete: int) -> None:
    report = http.parse(*golden(name))
    http._complete(report, complete, 0)
    assert (report.complete, report.failed, report.not_ok) == (complete, 0, 0)
    assert len(report.latencies) == 101
    assert report.rate == pytest.approx(complete / report.seconds, rel=0.02)
    assert report.received > complete * 20_000
    assert report.latencies[0] <= report.mean <= report.latencies[100] < 10


def test_a_report_by_time() -> None:
    report = http.parse(*golden("by_time"))
    http._complete(report, 0, 1)
    with pytest.raises(MeasureError, match="ended early: after"):
        http._complete(report, 0, 5)
    with pytest.raises(MeasureError, match="ended early"):
        http._complete(report, 10_000_000, 5)


@pytest.mark.parametrize("name", ["not_found", "no_server"])
def test_nothing_but_failures_is_no_result(name: str) -> None:
    with pytest.raises(MeasureError, match="of 50 requests"):
        http._complete(http.parse(*golden(name)), 50, 0)


def test_the_high_percentiles_of_few_requests_are_the_longest() -> None:
    report = http.parse(*golden("not_found"))
    assert report.latencies[99] == report.latencies[100] == pytest.approx(0.004485)


def test_failed_requests_are_counted() -> None:
    report = http.parse(*golden("server_gone"))
    assert 0 < report.failed < report.complete


@pytest.mark.parametrize(("name", "reason"), [("timed_out", "timed out"), ("reset", "reset by peer")])
def test_failures_have_their_reason(name: str, reason: str) -> None:
    with pytest.raises(MeasureError, match=rf"ab ended early: .*{reason}"):
        http.parse(*golden(name))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Complete requests:      2000", "Complete requests:      -5"),
        ("Complete requests:      2000", "Complete requests:      nan"),
        ("Requests per second:", "Requests per minute:"),
        ("\n50,", "\n51,"),
        ("\n100,", "\n100,nan,"),
        ("\n100,", "\n100,-"),
        ("\n0,", "\n0,9"),
        ("Time taken for tests:", "Time taken for tests:   inf"),
    ],
)
def test_impossible_reports_are_refused(old: str, new: str) -> None:
    text = golden("plain")[0]
    assert old in text
    with pytest.raises(MeasureError):
        http.parse(text.replace(old, new, 1))


def only_a_report_or_measure_error(text: str, errors: str = "") -> None:
    try:
        report = http.parse(text, errors)
    except MeasureError:
        return
    for figure in (report.complete, report.failed, report.seconds, report.rate, report.mean, report.received, *report.latencies):
        assert math.isfinite(figure)
        assert figure >= 0


@given(st.text(), st.text())
def test_any_text(text: str, errors: str) -> None:
    only_a_report_or_measure_error(text, errors)
    only_a_report_or_measure_error(f"Complete requests: {text}\n{errors}")
    only_a_report_or_measure_error(golden("plain")[0].partition("Percentage served")[0] + "Percentage served,Time in ms\n" + text)


@given(st.integers(0, 2500), st.integers(0, 2500), st.text(max_size=12))
def test_a_report_with_anything_in_it(start: int, length: int, text: str) -> None:
    whole = golden("plain")[0]
    only_a_report_or_measure_error(whole[:start] + text + whole[start + length :])
