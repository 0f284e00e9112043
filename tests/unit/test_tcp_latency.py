"""Latencies in steps of 10 ns: what the client of tcp-latency prints, and the note about tools
whose steps are too coarse.
"""

from __future__ import annotations

import json
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from cnibench.analysis.comparison.contexts import Context, Member
from cnibench.analysis.samples.stream import Line
from cnibench.analysis.text.notes.coarse_latencies import coarse_latencies
from cnibench.errors import MeasureError
from cnibench.model.profile import mistakes
from cnibench.registry import provider
from cnibench.workloads.tcp_latency import parse
from tests._each_workload import values


def printed(counts: dict[int, int]) -> str:
    total = sum((bucket * 10 + 5) * count for bucket, count in counts.items())
    return json.dumps({"total": total, "counts": sorted(counts.items())})


@given(st.lists(st.integers(0, 10**6), min_size=100, max_size=400))
def test_percentiles_are_those_of_the_round_trips(times: list[int]) -> None:
    """``times`` in ns."""
    counts: dict[int, int] = {}
    for one in times:
        counts[one // 10] = counts.get(one // 10, 0) + 1
    found = parse(printed(counts), "")
    ordered = sorted(times)
    for percent in (50, 90, 99):
        exact = ordered[(len(ordered) - 1) * percent // 100] * 1e-9
        assert values(found)[f"latency_p{percent}"] == pytest.approx(exact, abs=5.1e-9)
    mean = sum(times) / len(times) * 1e-9
    assert values(found)["latency_mean"] == pytest.approx(mean, abs=5.1e-9)
    ((name, curve),) = found.records
    assert name == "cdf"
    assert curve["values"] == sorted(curve["values"])
    assert curve["values"][0] == pytest.approx(ordered[0] * 1e-9, abs=5.1e-9)
    assert curve["values"][-1] == pytest.approx(ordered[-1] * 1e-9, abs=5.1e-9)


@pytest.mark.parametrize(
    ("text", "errors", "said"),
    [
        ("", "ConnectionRefusedError: [Errno 111] Connection refused", "Connection refused"),
        ("", "the server closed the connection", "server closed"),
        (printed({1300: 99}), "", "99 round trips, too few"),
        ('{"total": 1, "counts": [[5, 100], [5, 100]]}', "", "not possible"),
        ('{"total": 1, "counts": [[5, 100], [6, 0]]}', "", "not possible"),
        ('{"total": 1, "counts": [[-1, 100]]}', "", "not possible"),
        ('{"total": NaN, "counts": [[5, 100]]}', "", "not a possible figure"),
        ('{"counts": [[5, 100]]}', "", "failed"),
        ("[1]", "", "failed"),
    ],
)
def test_what_is_no_result_is_refused(text: str, errors: str, said: str) -> None:
    with pytest.raises(MeasureError, match=said):
        parse(text, errors)


@pytest.mark.parametrize(
    ("microseconds", "said"),
    [
        ([12.0, 14.0], ["8 % of their values"]),
        ([0.4, 1.0], []),
        ([1.0, 400.0], ["100 % of"]),
        ([12.0, 14.3], []),
        ([30.0, 41.0], []),
    ],
)
def test_whole_microseconds_are_said_where_they_are_coarse(
    microseconds: list[float], said: list[str]
) -> None:
    first = cast(Line, None)
    of_blocks = {(0, number): value * 1e-6 for number, value in enumerate(microseconds)}
    context = Context(
        {"metric": "latency_p50", "workload": "tcp-rr"}, "speed", {"one": Member(first, of_blocks)}
    )
    mean = Context({**context.where, "metric": "latency_mean"}, "speed", context.members)
    notes = coarse_latencies([mean, context])
    assert len(notes) == len(said)
    assert all(words in note for words, note in zip(said, notes, strict=True))
    assert coarse_latencies([mean]) == []


def test_a_limit_of_a_parameter_is_shown_with_all_its_digits() -> None:
    with pytest.raises(ValidationError) as refused:
        provider("workloads", "tcp-latency").params({"size": "2M"})
    assert mistakes(refused.value) == {"size": ["expected at most 1048576, got 2097152"]}
