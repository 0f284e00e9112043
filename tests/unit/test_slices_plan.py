"""Which cells of a plan are measured in slices, for how long, and what is said of the others."""

from __future__ import annotations

from typing import Any

import pytest

from cnibench.errors import UsageError
from cnibench.model.cell import Cell
from cnibench.model.profile import builtin
from cnibench.planning.plan import build_plan, cells, expected_seconds
from cnibench.registry import providers

WORKLOADS = providers("workloads")


def planned(**options: Any) -> tuple[list[Cell], list[str]]:
    plan = build_plan({"method": "slices", "placement": ["inter"], **options})
    return cells(plan, WORKLOADS, {"a": builtin()["flannel"]})


def test_slices_last_half_a_second_and_cycles_have_two_windows_of_one() -> None:
    found, notes = planned(workload=["tcp-rr"])
    assert notes == []
    assert [(one.window, one.method, one.duration, one.blocks) for one in found] == [
        ("speed", "slices", 0.5, None),
        ("cpp", "windows", 1.0, 2),
    ]


def test_a_duration_that_was_given_holds_for_slices() -> None:
    found, _ = planned(workload=["tcp-rr"], duration="3s", windows=["speed"])
    assert [(one.method, one.duration) for one in found] == [("slices", None)]
    assert 3.0 < expected_seconds(found, WORKLOADS, 3.0, 2.0) < 5.0


@pytest.mark.parametrize(
    ("work", "why"),
    [
        ({"name": "http"}, "no load that goes on unharmed"),
        ({"name": "tcp-crr"}, "no load that goes on unharmed"),
        ({"name": "iperf3-tcp", "params": {"bidirectional": True}}, "one direction"),
        ({"name": "tcp-rr", "params": {"policy.entries": 10}}, "conditions"),
    ],
)
def test_what_cannot_be_sliced_is_measured_in_windows_and_said(
    work: dict[str, Any], why: str
) -> None:
    found, notes = planned(workload=[work], windows=["speed"])
    assert [(one.method, one.duration) for one in found] == [("windows", None)]
    (note,) = notes
    assert note.startswith(f"{work['name']} is measured in windows, not in slices: ")
    assert why in note


def test_pairs_at_the_same_time_are_measured_in_windows() -> None:
    found, notes = planned(workload=["tcp-rr"], windows=["speed"], pairs=2)
    assert {one.method for one in found} == {"windows"}
    assert notes == [
        "tcp-rr is measured in windows, not in slices: pairs at the same time do not take turns"
    ]


def test_windows_are_the_default_and_other_methods_are_refused() -> None:
    found, _ = planned(method="windows", workload=["tcp-rr"])
    assert {(one.method, one.duration) for one in found} == {("windows", None)}
    with pytest.raises(UsageError, match="method"):
        planned(method="moments")


def test_the_method_is_no_part_of_a_cells_identity() -> None:
    sliced, _ = planned(workload=["tcp-rr"])
    windows, _ = planned(method="windows", workload=["tcp-rr"])
    assert [one.id for one in sliced] == [one.id for one in windows]
