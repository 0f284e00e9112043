"""Plans: what a file may say, which cells it makes, in which order, and how many blocks it
takes.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cnibench.clusters.lab.builders.base import builder_of
from cnibench.errors import InputError, UsageError
from cnibench.model.cell import Cell
from cnibench.model.profile import Profile, Strict, builtin
from cnibench.planning.cells import cells
from cnibench.planning.forecast import AROUND, expected_seconds, passes
from cnibench.planning.plan import Plan, Work, build_plan, read_plan
from cnibench.planning.schedule import ALONE, blocks_needed, floor, order, pairs, warning
from cnibench.registry import provider, providers


class _Params(Strict):
    request_size: int = 1


class _Work:
    """As much of a workload as planning asks for."""

    Params: ClassVar[type[Strict]] = _Params

    def __init__(self, cpp: bool = True) -> None:
        self.cpp = cpp

    def params(self, given: dict[str, Any]) -> dict[str, Any]:
        return self.Params.model_validate(dict(given)).model_dump(mode="json")

    def runs_concurrently(self, cell: Any) -> bool:
        return False

    def seconds(self, params: dict[str, Any], duration: float, warmup: float) -> float:
        return duration + warmup

    def pods(self, cell: Any) -> int:
        return 0


WORKLOADS: Any = {"tcp-rr": _Work(), "tcp-stream": _Work(), "udp-stream": _Work(cpp=False)}


def profile(name: str, ip: tuple[int, ...] = (4,)) -> Profile:
    features = {
        "network_model": "L3",
        "mode": "overlay",
        "policy": {"kubernetes": False, "ingress": False, "egress": False},
    }
    text = {"schema": 1, "name": name, "title": name, "cni": name, "summary": ""}
    return Profile.model_validate(
        {**text, "features": {**features, "default_mtu": 1500, "ip": list(ip)}}
    )


PROFILES = {name: profile(name) for name in ("a", "b", "c")}


def test_a_plan_file_is_read_with_units_and_single_values(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(
        "schema: 1\ncni: flannel\nplacement: intra\nduration: 2m\nwarmup: 500ms\ntarget_ci:"
        " 2%\nwire_rate: 1G\nworkload:\n- tcp-rr\n- name: tcp-stream\n  sweep: {request_size: [1,"
        " 64]}\n"
    )
    plan = read_plan(file)
    assert (plan.cni, plan.placement, plan.duration, plan.warmup) == (
        ("flannel",),
        ("intra",),
        120.0,
        0.5,
    )
    assert (plan.target_ci, plan.wire_rate) == (0.02, 1e9)
    assert [work.name for work in plan.workload] == ["tcp-rr", "tcp-stream"]


def test_a_plan_survives_its_own_json() -> None:
    plan = build_plan(
        {"cni": ["a"], "duration": "3s", "blocks": 7, "settings": {"": {"mtu": "1400"}}}
    ).seeded()
    assert Plan.model_validate(plan.model_dump(mode="json", by_alias=True)) == plan


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("durtion: 3s", "durtion"),
        ("duration: 0s", "duration"),
        ("duration: -3", "duration"),
        ("duration: 1000h", "duration"),
        ("duration: soon", "not a duration"),
        ("duration: .nan", "duration"),
        ("blocks: 0", "blocks"),
        ("blocks: many", "blocks"),
        ("placement: []", "placement"),
        ("placement: [intra, intra]", "twice"),
        ("mtu: 100000", "mtu"),
        ("schema: 2", "schema"),
        ("workload: [{name: tcp-rr, sweep: {request_size: []}}]", "sweep"),
        ("a: &a [x]\ncni: *a", "aliases"),
        ("cni: [\n", "line 2"),
        ("- flannel", "mapping"),
    ],
)
def test_wrong_plan_files_are_refused_by_name_and_key(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(text)
    with pytest.raises(InputError) as caught:
        read_plan(file)
    assert str(file) in caught.value.message
    assert said in caught.value.message
    assert caught.value.remedy


def test_cells_are_all_combinations_once() -> None:
    plan = Plan(
        workload=(Work(name="tcp-rr", sweep={"request_size": [1, 64]}), Work(name="udp-stream")),
        ip=(4,),
    )
    found, notes = cells(plan, WORKLOADS, PROFILES)
    assert not notes
    speed = [cell for cell in found if cell.window == "speed"]
    assert len(speed) == 3 * 2 * 3
    assert {cell.workload for cell in found if cell.window == "cpp"} == {"tcp-rr"}
    assert len({cell.id for cell in found}) == len(found)
    assert expected_seconds(found, WORKLOADS, 10, 2) == pytest.approx((12 + AROUND) * len(found))


def test_a_workload_may_have_ip_families_of_its_own() -> None:
    """Its profiles are deployed with all families of the plan."""
    plan = build_plan(
        {
            "workload": [
                {"name": "tcp-rr"},
                {"name": "tcp-stream", "ip": [4, 6]},
                {"name": "http", "ip": 6},
            ],
            "windows": ["speed"],
            "placement": ["inter"],
        }
    )
    assert plan.families == (4, 6)
    made, notes = cells(plan, providers("workloads"), {"flannel": builtin()["flannel"]})
    assert sorted((one.workload, one.ip) for one in made) == [
        ("http", 6),
        ("tcp-rr", 4),
        ("tcp-stream", 4),
        ("tcp-stream", 6),
    ]
    assert notes == []
    assert build_plan({"workload": ["tcp-rr"]}).families == (4,)


def test_an_unsupported_address_family_is_left_out_and_reported() -> None:
    found, notes = cells(Plan(ip=(4, 6)), WORKLOADS, {"a": profile("a"), "b": profile("b", (4, 6))})
    assert {(cell.label, cell.ip) for cell in found} == {("a", 4), ("b", 4), ("b", 6)}
    assert notes == ["a: no IPv6, the profile does not support it"]


def test_unknown_workloads_and_parameters_are_reported() -> None:
    with pytest.raises(UsageError) as caught:
        cells(Plan(workload=(Work(name="tcp-r"),)), WORKLOADS, PROFILES)
    assert "tcp-rr" in caught.value.remedy
    with pytest.raises(UsageError) as caught:
        cells(Plan(workload=(Work(name="tcp-rr", params={"size": 1}),)), WORKLOADS, PROFILES)
    assert "size" in caught.value.message
    assert "request_size" in caught.value.remedy


def test_a_sweep_that_explodes_is_refused_before_it_is_expanded() -> None:
    values: Any = {f"k{number}": [1] * 1000 for number in range(10)}
    with pytest.raises(UsageError, match="combinations"):
        cells(
            Plan(
                workload=(
                    Work(name="tcp-rr", sweep={**values, "request_size": list(range(1, 1001))}),
                )
            ),
            WORKLOADS,
            PROFILES,
        )
    with pytest.raises(UsageError, match="cells"):
        cells(
            Plan(pairs=1000, workload=(Work(name="tcp-rr", sweep={"request_size": [1] * 100}),)),
            WORKLOADS,
            PROFILES,
        )


def repeats(plan: Plan) -> dict[str, set[int]]:
    """Workload to how often each of its cells is measured."""
    found, _ = cells(plan, WORKLOADS, PROFILES)
    made = passes(found, plan.number_of_blocks(len(PROFILES)))
    times: dict[str, set[int]] = {}
    for cell in found:
        times.setdefault(cell.workload, set()).add(sum(other.id == cell.id for other, _ in made))
    return times


def test_a_workload_that_asks_for_more_blocks_makes_the_others_no_longer() -> None:
    several = (
        Work(name="tcp-rr"),
        Work(name="tcp-stream", blocks=20),
        Work(name="udp-stream", blocks=2),
    )
    assert repeats(Plan(workload=several, blocks=3)) == {
        "tcp-rr": {3},
        "tcp-stream": {20},
        "udp-stream": {2},
    }
    auto = (Work(name="tcp-rr"), Work(name="tcp-stream", blocks="auto"))
    assert repeats(Plan(workload=auto, blocks=2)) == {
        "tcp-rr": {2},
        "tcp-stream": {blocks_needed(3)},
    }
    least = blocks_needed(3)
    assert repeats(Plan(workload=several)) == {
        "tcp-rr": {least},
        "tcp-stream": {20},
        "udp-stream": {2},
    }


def test_where_no_workload_asks_for_more_a_cell_is_in_every_block() -> None:
    found, _ = cells(
        Plan(workload=(Work(name="tcp-rr"), Work(name="tcp-stream", blocks=2)), blocks=5),
        WORKLOADS,
        PROFILES,
    )
    assert {(cell.workload, cell.blocks) for cell in found} == {("tcp-rr", None), ("tcp-stream", 2)}


def test_with_a_target_only_a_number_of_its_own_keeps_a_cell_out_of_later_blocks() -> None:
    works = (
        Work(name="tcp-rr"),
        Work(name="tcp-stream", blocks="auto"),
        Work(name="udp-stream", blocks=20),
    )
    for blocks in (3, "auto"):
        found, _ = cells(Plan(workload=works, blocks=blocks, target_ci=0.02), WORKLOADS, PROFILES)
        assert {(cell.workload, cell.blocks) for cell in found} == {
            ("tcp-rr", None),
            ("tcp-stream", None),
            ("udp-stream", 20),
        }


def test_the_number_of_blocks_can_decide_and_one_less_cannot() -> None:
    assert blocks_needed(1) == ALONE
    assert blocks_needed(2) == 6
    for profiles in range(2, 40):
        enough = blocks_needed(profiles)
        assert floor(enough) * pairs(profiles) <= 0.05
        assert floor(enough - 1) * pairs(profiles) > 0.05
        assert warning(enough, profiles) == ""
        assert str(enough) in warning(enough - 1, profiles)
    assert warning(1, 1) == ""


def some(count: int) -> list[Cell]:
    return [
        Cell(
            label=f"l{number % 3}",
            profile="p",
            placement="intra",
            workload="w",
            params={"n": number},
        )
        for number in range(count)
    ]


@given(st.integers(0, 40), st.integers(0, 100), st.integers(0, 2**63), st.booleans(), st.randoms())
def test_the_order_is_a_permutation_that_the_seed_alone_gives(
    count: int, block: int, seed: int, together: bool, random: Any
) -> None:
    given_cells = some(count)
    shuffled = list(given_cells)
    random.shuffle(shuffled)
    found = order(given_cells, block, seed, together=together)
    assert found == order(shuffled, block, seed, together=together)
    assert sorted(cell.id for cell in found) == sorted(cell.id for cell in given_cells)
    if together:
        changes = sum(one.label != other.label for one, other in pairwise(found))
        assert changes == max(0, len({cell.label for cell in found}) - 1)


def test_the_order_changes_from_block_to_block_and_never_from_version_to_version() -> None:
    cells_of = some(6)
    orders = [[cell.params["n"] for cell in order(cells_of, block, 7)] for block in range(4)]
    assert len({tuple(one) for one in orders}) == 4
    missing = [cell for cell in cells_of if cell.params["n"] != orders[0][2]]
    assert [cell.params["n"] for cell in order(missing, 0, 7)] == [
        n for n in orders[0] if n != orders[0][2]
    ]


def test_a_plan_with_one_workload_at_two_durations_or_blocks_is_refused() -> None:
    works = providers("workloads")
    profiles = {"host": builtin()["host"]}
    for key, values, said in (
        ("duration", ("1s", "60s"), "1 s and 60 s"),
        ("blocks", (6, 9), "6 and 9 blocks"),
    ):
        plan = build_plan(
            {
                "cni": ["host"],
                "blocks": 6,
                "workload": [{"name": "tcp-stream", key: value} for value in values],
            }
        )
        with pytest.raises(UsageError, match=said) as error:
            cells(plan, works, profiles)
        assert "tcp-stream" in error.value.message
    twice = build_plan(
        {
            "cni": ["host"],
            "blocks": 6,
            "workload": ["tcp-stream", "tcp-stream"],
            "placement": ["intra"],
            "windows": ["speed"],
        }
    )
    assert len(cells(twice, works, profiles)[0]) == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"placement": ["same"]}, "--placement: expected 'intra' or 'inter', got 'same'"),
        ({"wire_offload": "foo"}, "--wire-offload: expected '"),
        ({"budget": "2x"}, "--budget: '2x' is not a duration"),
        ({"resolution": "2"}, "--resolution: expected less than 100 %, got '2'; write 2%"),
    ],
)
def test_a_wrong_option_is_named_as_it_was_written(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        build_plan(options)
    assert caught.value.message.startswith(said)
    assert "after validation" not in caught.value.message


def test_an_empty_list_is_still_too_short() -> None:
    with pytest.raises(UsageError, match="--placement: "):
        build_plan({"placement": []})


def test_an_unknown_cluster_is_called_a_kind_of_cluster() -> None:
    with pytest.raises(UsageError, match="there is no kind of cluster 'kint'"):
        provider("clusters", "kint")


def test_a_wrong_key_of_set_gets_the_options_of_the_model() -> None:
    with pytest.raises(InputError) as caught:
        builder_of(builtin()["flannel"], {"nosuch": "1"})
    assert "nosuch" in caught.value.message
    assert caught.value.remedy.startswith("its options are: ")
    assert "schema.json" not in caught.value.remedy
