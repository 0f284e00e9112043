"""The parser of ab's report, on what ab really printed and on anything else."""

from __future__ import annotations

import dataclasses
import math
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cnibench.errors import MeasureError
from cnibench.workloads import _ab, _common

GOLDEN = Path(__file__).parent.parent / "golden" / "ab"
ERROR_PAGE = 197  # bytes of nginx' page for 503


def golden(name: str) -> tuple[str, str]:
    return (GOLDEN / f"{name}.stdout").read_text(), _common.read(GOLDEN / f"{name}.stderr")


@pytest.mark.parametrize(("name", "complete"), [("plain", 2000), ("ipv6", 300)])
def test_a_whole_report(name: str, complete: int) -> None:
    report = _ab.parse(*golden(name))
    _ab.check(report, complete, 0, 20_000)
    assert (report.complete, report.whole, report.failed, report.not_ok) == (
        complete,
        complete,
        0,
        0,
    )
    assert len(report.latencies) == 101
    assert report.whole_rate == report.rate == pytest.approx(complete / report.seconds, rel=0.02)
    assert report.latencies[0] <= report.mean <= report.latencies[100] < 10


def test_a_report_by_time() -> None:
    report = _ab.parse(*golden("by_time"))
    _ab.check(report, 0, 1, 20_000)
    with pytest.raises(MeasureError, match=r"ended early: after 1\.01 s of 5 s and 7377 requests$"):
        _ab.check(report, 0, 5, 20_000)
    with pytest.raises(MeasureError, match="ended early: 7377 of 10000000 requests"):
        _ab.check(report, 10_000_000, 5, 20_000)
    full = dataclasses.replace(report, complete=_ab.most(5))
    with pytest.raises(MeasureError, match="2000000 requests, the most that fit in 5 s"):
        _ab.check(full, 0, 5, 20_000)


def test_the_room_for_requests_grows_with_the_time() -> None:
    assert _ab.most(1) == 2_000_000
    assert _ab.most(60) >= 60 * 100_000
    assert _ab.most(86_400) == 100_000_000, "ab's memory for them is asked for at once"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("not_found", "Connect 0, Receive 0, Length 0, Exceptions 0, Non-2xx 50"),
        ("no_server", "Connect 0, Receive 50, Length 0, Exceptions 25, Non-2xx 0"),
    ],
)
def test_nothing_but_failures_is_no_result(name: str, reason: str) -> None:
    report = _ab.parse(*golden(name))
    assert (report.failed, report.whole, report.whole_rate) == (50, 0, 0)
    with pytest.raises(MeasureError, match=f"of 50 requests 50 failed; ab counted {reason}"):
        _ab.check(report, 50, 0, 20_000)


def test_most_requests_failing_is_no_result() -> None:
    report = _ab.parse(*golden("server_gone"))
    _ab.check(report, 0, 2, 20_000)
    with pytest.raises(MeasureError, match="of 5599 requests 2800 failed"):
        _ab.check(dataclasses.replace(report, length=2800), 0, 2, 20_000)


def test_lengths_that_were_compared_with_something_else_are_no_result() -> None:
    with pytest.raises(MeasureError, match="first response had 20000 bytes, the file has 30000"):
        _ab.check(_ab.parse(*golden("plain")), 2000, 0, 30_000)


def test_the_high_percentiles_of_few_requests_are_the_longest() -> None:
    report = _ab.parse(*golden("not_found"))
    assert report.latencies[99] == report.latencies[100] == pytest.approx(0.004485)


@pytest.mark.parametrize("name", ["server_gone", "overloaded"])
def test_each_failed_request_is_counted_once(name: str) -> None:
    """The bytes of the documents that arrived tell how many were whole: ab's report gives them
    apart from its failures.
    """
    text = golden(name)[0]
    report = _ab.parse(text)
    arrived = int(re.findall(r"HTML transferred: +(\d+)", text)[0])
    assert int(re.findall(r"Failed requests: +(\d+)", text)[0]) + report.not_ok > report.failed > 0
    assert report.whole == (arrived - report.not_ok * ERROR_PAGE) / 20_000
    assert report.whole_rate == pytest.approx(report.whole / report.seconds, rel=0.01)
    assert report.whole_rate < report.rate


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (
            "timed_out",
            (
                r" before the first request was complete: timed out, nothing arrived any more:"
                r" apr_pollset_poll"
            ),
        ),
        ("stalled", r" after 943 requests: timed out, nothing arrived any more: apr_pollset_poll"),
        ("reset", r" after 3360 requests: .*reset by peer"),
    ],
)
def test_failures_have_their_reason_and_how_far_they_came(name: str, reason: str) -> None:
    with pytest.raises(MeasureError, match=f"ab ended early{reason}") as caught:
        _ab.parse(*golden(name))
    assert ("timeout" in caught.value.remedy) == (name != "reset")


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
        ("Failed requests:        0", "Failed requests:        3"),
        ("Document Length:", "Document Size:"),
    ],
)
def test_impossible_reports_are_refused(old: str, new: str) -> None:
    text = golden("plain")[0]
    assert old in text
    with pytest.raises(MeasureError):
        _ab.parse(text.replace(old, new, 1))


def only_a_report_or_measure_error(text: str, errors: str = "") -> None:
    try:
        report = _ab.parse(text, errors)
    except MeasureError:
        return
    assert report.failed + report.whole == report.complete
    for figure in (
        report.failed,
        report.whole,
        report.seconds,
        report.whole_rate,
        report.mean,
        report.document,
        *report.latencies,
    ):
        assert math.isfinite(figure)
        assert figure >= 0


@given(st.text(), st.text())
def test_any_text(text: str, errors: str) -> None:
    only_a_report_or_measure_error(text, errors)
    only_a_report_or_measure_error(f"Complete requests: {text}\n{errors}")
    only_a_report_or_measure_error(
        golden("plain")[0].partition("Percentage served")[0]
        + "Percentage served,Time in ms\n"
        + text
    )


@given(st.integers(0, 2500), st.integers(0, 2500), st.text(max_size=12))
def test_a_report_with_anything_in_it(start: int, length: int, text: str) -> None:
    whole = golden("plain")[0]
    only_a_report_or_measure_error(whole[:start] + text + whole[start + length :])
