"""Which cells of a plan are measured in slices, for how long, and what is said of the others."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from cnibench.cli.measurement.plan import plan_of, with_usual_method
from cnibench.cli.options.plan import PlanOptions
from cnibench.errors import UsageError
from cnibench.model.cell import Cell
from cnibench.model.profile import builtin
from cnibench.planning.cells import cells
from cnibench.planning.forecast import expected_seconds
from cnibench.planning.method import CYCLES, MEASURED, with_fewer_cycles
from cnibench.planning.plan import build_plan
from cnibench.registry import providers

WORKLOADS = providers("workloads")


def planned(**options: Any) -> tuple[list[Cell], list[str]]:
    plan = build_plan({"method": "slices", "placement": ["inter"], **options})
    return cells(plan, WORKLOADS, {"a": builtin()["flannel"]})


def test_slices_with_perf_last_longer() -> None:
    found, notes = planned(workload=["tcp-rr"])
    assert notes == []
    assert [(one.window, one.method, one.duration, one.blocks) for one in found] == [
        ("speed", "slices", MEASURED, None),
        ("cpp", "slices", CYCLES, None),
    ]


@pytest.mark.parametrize(("blocks", "with_perf"), [("auto", 2), (5, None)])
def test_cycles_are_measured_in_two_blocks_unless_a_number_of_blocks_is_given(
    blocks: object, with_perf: int | None
) -> None:
    plan = build_plan({"method": "slices", "blocks": blocks})
    found, _ = planned(workload=["tcp-rr"])
    limited = with_fewer_cycles(found, plan)
    assert [(one.window, one.blocks) for one in limited] == [("speed", None), ("cpp", with_perf)]
    (speed, _) = found
    (window,) = with_fewer_cycles([replace(found[1], method="windows")], plan)
    assert (window.blocks, with_fewer_cycles([speed], plan)) == (None, [speed])


@pytest.mark.parametrize(
    ("options", "method"),
    [
        (PlanOptions(), "slices"),
        (PlanOptions(method="windows"), "windows"),
        (PlanOptions(pairs=2), "windows"),
        (PlanOptions(cluster="kind"), "slices"),
        (PlanOptions(cluster="existing"), "slices"),
        (PlanOptions(plan="quick"), "windows"),
        (PlanOptions(scale=0.1), "windows"),
    ],
)
def test_slices_are_the_default_where_loads_can_be_paused(
    options: PlanOptions, method: str
) -> None:
    plan = with_usual_method(plan_of(options), options)
    assert plan.method == method
    assert (plan.warmup == 0.2) is (method == "slices")


def test_a_warm_up_that_was_given_holds() -> None:
    options = PlanOptions(warmup="1s")
    assert with_usual_method(plan_of(options), options).warmup == 1.0


def test_a_duration_that_was_given_holds_for_slices() -> None:
    found, _ = planned(workload=["tcp-rr"], duration="3s", windows=["speed"])
    assert [(one.method, one.duration) for one in found] == [("slices", None)]
    assert 3.0 < expected_seconds(found, WORKLOADS, 3.0, 2.0) < 5.0


@pytest.mark.parametrize(
    ("work", "why"),
    [
        ({"name": "tcp-stream-series"}, "no load that goes on unharmed"),
        ({"name": "http"}, "too few requests of more than 64 KiB"),
        ({"name": "http", "params": {"payload": 1024, "keepalive": True}}, "count the connections"),
        ({"name": "http", "params": {"payload": 1024, "requests": 9}}, "fixed number of requests"),
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


@pytest.mark.parametrize(
    ("asked", "notes"),
    [
        ({}, []),
        (
            {"params": {"message": 2 << 20}},
            ["tcp-stream in slices: message is 1048576, not 2097152"],
        ),
        ({"params": {"message": 65536}}, []),
    ],
)
def test_a_cell_has_the_parameters_that_hold_in_slices(
    asked: dict[str, Any], notes: list[str]
) -> None:
    """So that samples, cycles and cross-checks are all of the same cell."""
    found, said = planned(workload=[{"name": "tcp-stream", **asked}])
    least = asked.get("params", {}).get("message", 1 << 20)
    assert {one.params["message"] for one in found} == {min(least, 1 << 20)}
    assert said == notes


@pytest.mark.parametrize(
    ("warmup", "notes"),
    [
        ("5s", ["tcp-rr in slices: no warm-up of 5.0 s, but a lead-in before each slice"]),
        ("0.2s", []),
    ],
)
def test_a_warm_up_that_slices_do_not_have_is_said(warmup: str, notes: list[str]) -> None:
    assert planned(workload=["tcp-rr"], warmup=warmup)[1] == notes


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
