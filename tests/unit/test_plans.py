"""The shipped plans, their schema, what --scale gives up, and conditions as parameters of cells."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from cnibench.errors import InputError, UsageError
from cnibench.model import conditions
from cnibench.model.profile import builtin, choose, read_yaml
from cnibench.planning import plans
from cnibench.planning.cells import cells
from cnibench.planning.forecast import AROUND, expected_seconds, passes, whole
from cnibench.planning.plan import Plan, Work
from cnibench.planning.schedule import blocks_needed
from cnibench.registry import provider, providers
from cnibench.testbed.cluster import Options

STUDIES = ("bruijn2017", "makowski2018", "qi2021")


def cells_of(name: str) -> list[object]:
    plan = plans.named(name)
    return list(cells(plan, providers("workloads"), choose(plan.cni))[0])


def test_the_schema_is_current() -> None:
    assert (plans.FOLDER / "schema.json").read_text() == plans.schema_text(), (
        "run: python -m cnibench.planning.plans"
    )


@pytest.mark.parametrize("name", plans.names())
def test_shipped_plans_are_whole(name: str) -> None:
    plan = plans.named(name)
    jsonschema.validate(
        dict(read_yaml(plans.FOLDER / f"{name}.yaml")), json.loads(plans.schema_text())
    )
    assert plan.title == name
    assert set(choose(plan.cni)) <= set(builtin())
    found = cells_of(name)
    assert found
    for work in plan.workload:
        assert not work.only or choose(work.only).keys() & choose(plan.cni).keys(), work
    assert Plan.model_validate(plan.model_dump(mode="json", by_alias=True)) == plan


def test_all_studies_are_there() -> None:
    assert set(STUDIES) | {"quick"} <= set(plans.names())


def test_the_schema_refuses_what_the_reader_refuses(tmp_path: Path) -> None:
    for text in (
        "schema: 1\ndurtion: 3s\n",
        "schema: 1\nworkload: [{name: tcp-rr, blcks: 2}]\n",
        "schema: 1\nplacement: outer\n",
    ):
        file = tmp_path / "p.yaml"
        file.write_text(text)
        with pytest.raises(InputError):
            plans.named(str(file))
        if "outer" not in text:
            with pytest.raises(jsonschema.ValidationError):
                jsonschema.validate(dict(read_yaml(file)), json.loads(plans.schema_text()))


def test_an_unknown_plan_is_reported_with_those_that_are_there() -> None:
    with pytest.raises(UsageError) as caught:
        plans.named("qi2022")
    assert "qi2021" in caught.value.remedy


def test_bruijn2017_is_as_published() -> None:
    found = cells_of("bruijn2017")
    plan = plans.named("bruijn2017")
    assert (plan.duration, plan.blocks, plan.mtu, plan.wire_offload) == (60, 10, 1500, "none")
    speed = [
        c
        for c in found
        if c.window == "speed" and c.workload == "iperf3-tcp" and c.label == "bridge-static"
    ]  # type: ignore[attr-defined]
    entries = {c.params["policy.entries"] for c in speed if "policy.entries" in c.params}  # type: ignore[attr-defined]
    assert entries == {0, 1, 5, 10, 25, 50, 100, 200}
    assert {c.params["policy.conntrack"] for c in speed} == {"bypassed"}  # type: ignore[attr-defined]
    baseline = {c.workload for c in found if c.label == "veth-baseline"}  # type: ignore[attr-defined]
    assert baseline == {"iperf3-tcp", "tcp-rr"}
    assert not any("policy.entries" in c.params for c in found if c.label == "veth-baseline")  # type: ignore[attr-defined]


def test_qi2021_is_as_published() -> None:
    plan = plans.named("qi2021")
    found, _ = cells(plan, providers("workloads"), choose(plan.cni))
    assert (plan.duration, plan.blocks) == (30, 50)
    cpp = [cell for cell in found if cell.window == "cpp"]
    assert {(cell.duration, cell.blocks) for cell in cpp} == {(60, 5)}
    http = [cell for cell in found if cell.workload == "http"]
    assert {cell.params["concurrency"] for cell in http} == {1, *range(50, 501, 25)}
    assert {cell.params["requests"] for cell in http} == {500_000}
    connections = {
        cell.params["connections"]
        for cell in found
        if cell.workload == "tcp-stream-under-load" and cell.placement == "intra"
    }
    assert max(connections) == 1500


def test_quick_takes_less_than_three_minutes_with_what_surrounds_it() -> None:
    plan = plans.named("quick")
    found, _ = cells(plan, providers("workloads"), choose(plan.cni))
    blocks = plan.number_of_blocks(len(choose(plan.cni)))
    assert blocks >= blocks_needed(3)
    assert (
        expected_seconds(
            (cell for cell, _ in passes(found, blocks)),
            providers("workloads"),
            plan.duration,
            plan.warmup,
        )
        < 100
    )


def test_scale_shrinks_and_says_what_it_gave_up() -> None:
    plan = plans.named("qi2021")
    workloads = providers("workloads")
    small, told = plans.scaled(plan, 0.1, 8, workloads)
    assert small.duration == 3
    assert small.blocks == blocks_needed(8)
    assert small.blocks > 50 * 0.1
    cpp = next(work for work in small.workload if work.windows == ("cpp",))
    assert (cpp.duration, cpp.blocks) == (6, 5)
    http = next(work for work in small.workload if work.name == "http")
    assert http.params["requests"] == 50_000
    assert len(http.sweep["concurrency"]) == 20
    assert "windows of 3.0 s instead of 30 s" in told[0]
    assert "50000 requests instead of 500000" in told[0]
    assert f"{small.blocks} blocks instead of 50" in told[0]
    tiny, _ = plans.scaled(plan, 1e-9, 8, workloads)
    assert tiny.duration == plans.SHORTEST
    assert next(work for work in tiny.workload if work.name == "http").params["requests"] == 500, (
        "the highest concurrency"
    )
    assert cells(tiny, workloads, choose(tiny.cni)), "every combination is still a possible one"


@pytest.mark.parametrize(
    ("params", "sweep", "left"),
    [
        ({"requests": 5000}, {}, [plans.FEWEST]),
        ({"requests": 5000, "concurrency": 300}, {}, [300]),
        ({"concurrency": 20}, {"requests": [50, 5000, 100_000]}, [50, 100, 1000]),
        ({}, {"requests": [600, 100_000], "concurrency": [1, 600]}, [600, 1000]),
    ],
)
def test_scale_leaves_as_many_requests_as_are_made_at_once(
    params: dict[str, Any], sweep: dict[str, Any], left: list[int]
) -> None:
    plan = Plan(
        workload=(Work(name="http", params=params, sweep=sweep),),
        blocks=1,
        duration=1.0,
        warmup=1.0,
    )
    small, told = plans.scaled(plan, 0.01, 1, providers("workloads"))
    (work,) = small.workload
    assert (work.sweep.get("requests") or [work.params["requests"]]) == left
    assert f"{left[-1]} requests instead of" in told[0]


def test_scale_of_one_changes_nothing() -> None:
    plan = plans.named("bruijn2017")
    assert plans.scaled(plan, 1, 3, providers("workloads")) == (plan, [])
    for wrong in (0, -1, 1.5, float("nan")):
        with pytest.raises(UsageError):
            plans.scaled(plan, wrong, 3, providers("workloads"))


def test_conditions_are_parameters_with_all_their_defaults() -> None:
    own, around = conditions.split({"request": 3, "policy.entries": 7})
    assert own == {"request": 3}
    assert around == {
        "policy.entries": 7,
        "policy.setting": "no-match",
        "policy.restrictions": 0,
        "policy.conntrack": "used",
        "policy.layer": "L4",
        "policy.api": "kubernetes",
        "policy.objects": "one",
    }
    asked = conditions.of({**own, **around})
    assert asked is not None
    assert asked.policy is not None
    assert asked.policy.entries == 7
    assert asked.offload is None
    assert conditions.of(own) is None


@pytest.mark.parametrize(
    "params",
    [
        {"policy.entries": 5001},
        {"policy.entries": -1},
        {"policy.entris": 1},
        {"polcy.entries": 1},
        {"offload.pods": "on"},
    ],
)
def test_wrong_conditions_are_reported_with_those_that_there_are(params: dict[str, object]) -> None:
    plan = Plan(workload=(Work(name="tcp-rr", params=params),))  # type: ignore[arg-type]
    with pytest.raises(UsageError) as caught:
        cells(plan, providers("workloads"), choose(["flannel"]))
    assert "policy.entries" in caught.value.remedy


def test_a_workload_has_its_own_windows_placement_and_blocks() -> None:
    works = (
        Work.model_validate(
            {
                "name": "tcp-rr",
                "placement": "intra",
                "windows": "cpp",
                "blocks": 2,
                "duration": "3s",
            }
        ),
        Work(name="tcp-stream"),
    )
    found, _ = cells(Plan(workload=works, blocks=4), providers("workloads"), choose(["flannel"]))
    rr = [cell for cell in found if cell.workload == "tcp-rr"]
    assert [(cell.placement, cell.window, cell.duration, cell.blocks) for cell in rr] == [
        ("intra", "cpp", 3.0, 2)
    ]
    assert len(found) == 5
    assert len(passes(found, 4)) == 2 + 4 * 4
    assert Plan(workload=works, blocks=1).number_of_blocks(1) == 2


def test_pods_that_a_sample_makes_are_part_of_the_time() -> None:
    works = (
        Work(name="pods", params={"count": 20}, placement=("intra",)),
        Work(name="tcp-rr-under-load", params={"connections": 10, "pods": 4}),
    )
    found, _ = cells(
        Plan(workload=works, placement=("inter",), windows=("speed",)),
        providers("workloads"),
        choose(["flannel"]),
    )
    assert len(found) == 2
    for each in (0.0, 0.05, 2.0):
        assert expected_seconds(found, providers("workloads"), 10.0, 2.0, each) == pytest.approx(
            12.0 + each * 20 + 2 * AROUND
        )
    assert [providers("workloads")[cell.workload].kept_pods(cell) for cell in found] == [
        0,
        2 * 4,
    ], "made once, not for each sample"


@pytest.mark.parametrize(("kind", "others"), [("lab", 8 * 0.05), ("kind", 2 * (8 * 1.0 + 75.0))])
def test_the_whole_time_has_the_pods_that_stay_and_the_profiles_that_follow_each_other(
    kind: str, others: float
) -> None:
    works = (Work(name="tcp-rr-under-load", params={"pods": 4}, sweep={"connections": [4, 8]}),)
    profiles = choose(["flannel"])
    found, _ = cells(
        Plan(workload=works, placement=("inter",), windows=("speed",)),
        providers("workloads"),
        profiles,
    )
    cluster = provider("clusters", kind)(Options())
    assert whole(
        passes(found, 2), providers("workloads"), 10.0, 2.0, cluster, profiles
    ) == pytest.approx(4 * (12.0 + AROUND) + others)
