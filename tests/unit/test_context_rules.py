"""The rules of the context: which circumstances decide what, and how values are read and said."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from cnibench.model import context
from cnibench.model.cell import Cell
from cnibench.model.coordinates import MACHINE, Coordinate
from cnibench.model.coordinates import PLACE as COORDINATES

PLACE: dict[str, Any] = {
    "workload": "tcp-rr",
    "placement": "intra",
    "path": "pod",
    "params": {"size": 1},
    "ip": 4,
    "mtu": 1500,
    "cpus": "shared",
    "pair": 0,
    "pairs": 1,
    "testbed": "lab",
    "wire": "veth",
    "wire_offload": "plain",
    "wire_rate": 0.0,
    "duration": 10.0,
    "warmup_time": 0.0,
    "method": "windows",
    "slice_length": 0.0,
    "lead_in": 0.0,
    "priority": "normal",
    "congestion_control": "cubic",
}


def test_the_roles_of_the_circumstances() -> None:
    """Written down once more, so that none changes its role unnoticed."""
    assert {one.name for one in COORDINATES if one.role == "identity"} == {
        "workload",
        "placement",
        "path",
        "params",
        "ip",
        "pair",
    }
    assert {one.name for one in context.MUST_AGREE} >= {
        "mtu",
        "cpus",
        "pairs",
        "testbed",
        "wire",
        "wire_offload",
        "wire_rate",
        "duration",
        "warmup_time",
        "method",
        "slice_length",
        "lead_in",
        "priority",
        "congestion_control",
    }
    assert {one.role for one in MACHINE} == {"must agree"}
    assert {one.role for one in COORDINATES} == {"identity", "must agree"}


def _where(**change: Any) -> Any:
    return SimpleNamespace(**{**PLACE, **change})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, []),
        ({"ip": 0, "mtu": 0}, []),
        ({"path": "clusterip"}, ["path clusterip"]),
        ({"ip": 6, "mtu": 9000, "pair": 3}, ["IPv6", "MTU 9000", "pair 3"]),
    ],
)
def test_what_of_a_place_does_not_go_without_saying(
    change: dict[str, Any], said: list[str]
) -> None:
    assert context.unusual(_where(**change)) == said


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("wire_rate", 0.0, "unlimited"),
        ("wire_rate", 2e8, "200 Mbit/s"),
        ("mtu", 9000, "9000 B"),
        ("mtu", 0, "not recorded"),
        ("duration", 2.50, "2.5 s"),
        ("duration", "long", "long"),
        ("wire", "", "not recorded"),
        ("wire", None, "not recorded"),
        ("settings", "", "none"),
        ("placement", "inter", "between nodes"),
        ("params", {"b": 1, "a": [2]}, '{"a":[2],"b":1}'),
        ("pairs", 2, "2"),
        ("pairs", False, "false"),
    ],
)
def test_values_in_words(name: str, value: Any, said: str) -> None:
    assert context.coordinate(name).words(value) == said


def test_a_value_that_has_words_is_not_mistaken_for_false() -> None:
    assert Coordinate("x", "free", "x", named=((0, "none"),)).words(False) == "false"
    assert Coordinate("x", "free", "x", unit="B").words(True) == "True B"


@pytest.mark.parametrize(
    ("at", "environment", "value"),
    [
        ((), {"kernel": "6.1"}, "6.1"),
        ((), {"kernel": {"not": "a value"}}, None),
        ((), {}, None),
        (("a.b", "c"), {"a": {"b": 7}, "c": 8}, 7),
        (("a.b", "c"), {"a": {"b": None}, "c": 8}, 8),
        (("a.b", "c"), {"a": 5, "c": 8}, 5),  # an older file: one value for all
        (
            ("nodes.*.x.y",),
            {"nodes": {"n1": {"x": {"y": "b"}}, "n2": {"x": {"y": "a"}}}},
            ["a", "b"],
        ),
        (("nodes.*.x",), {"nodes": {"n1": {"x": "a"}, "n2": {"x": "a"}, "n3": {}}}, ["a"]),
        (("nodes.*.x",), {"nodes": {"n1": {"x": ""}}}, None),
        (("nodes.*.x", "x"), {"nodes": {}, "x": "y"}, "y"),
    ],
)
def test_where_a_value_is_in_the_environment(
    at: tuple[str, ...], environment: dict[str, Any], value: Any
) -> None:
    assert Coordinate("kernel", "must agree", "kernel", at=at).of(environment) == value


def test_the_order_of_places() -> None:
    intra, inter = context.order(PLACE), context.order(PLACE | {"placement": "inter"})
    other = context.order(PLACE | {"placement": "another"})
    assert intra < inter < other
    assert len(intra) == len(COORDINATES) - 1
    assert context.order(PLACE | {"params": {"size": 2}}) == intra
    placement = context.coordinate("placement")
    assert [placement.rank(value) for value in ("intra", "inter", "x")] == [
        (0, 0),
        (1, 0),
        (2, "x"),
    ]


def test_keys_are_equal_where_their_coordinates_are() -> None:
    whole = context.key(PLACE)
    assert context.key(dict(reversed(PLACE.items()))) == whole
    assert context.key(PLACE | {"params": {"size": 2}}) != whole
    assert context.key(PLACE | {"params": {"b": 1, "a": 2}}) == context.key(
        PLACE | {"params": {"a": 2, "b": 1}}
    )
    identity = context.key(PLACE, context.IDENTITY)
    assert context.key(PLACE | {"mtu": 9000}, context.IDENTITY) == identity
    assert context.key(PLACE | {"ip": 6}, context.IDENTITY) != identity
    assert context.place(_where(more=1)) == PLACE


def test_the_wires_offloads_are_those_of_the_condition() -> None:
    assert context.wire_offload({}, "all") == "all"
    assert context.wire_offload({"offload.wire": "default"}, "all") == "all"
    assert context.wire_offload({"offload.wire": "none"}, "all") == "none"


def test_congestion_control_is_that_of_all_nodes() -> None:
    def at(name: str, value: str) -> dict[str, Any]:
        return {name: value, "net.core.x": "1"}

    dots, slashes = "net.ipv4.tcp_congestion_control", "net/ipv4/tcp_congestion_control"
    assert context.congestion_control({}) == ""
    assert context.congestion_control({"sysctls": at(slashes, "bbr")}) == "bbr"
    nodes = {"a": {"sysctls": at(dots, "reno")}, "b": {"sysctls": at(dots, "cubic")}}
    assert context.congestion_control({"nodes": nodes}) == "cubic,reno"
    assert context.congestion_control({"nodes": nodes, "sysctls": at(dots, "bbr")}) == (
        "bbr,cubic,reno"
    )
    assert context.congestion_control({"elsewhere": at(dots, "bbr")}) == ""
    deep: dict[str, Any] = at(dots, "bbr")
    for _ in range(2):
        deep = {"more": deep}
    assert context.congestion_control({"nodes": deep}) == "bbr"
    assert context.congestion_control({"nodes": {"more": deep}}) == ""


def test_disagreements_are_named_with_both_values() -> None:
    ours = {"kernel": "6.1", "cpus": 2, "tool_version": "1", "tools": {"perf": "6"}}
    assert context.disagreements(ours, dict(ours)) == []
    theirs = {"kernel": "5.4", "cpus": 2, "tool_version": "2"}
    both = [str(one) for one in context.disagreements(ours, theirs)]
    assert both == ["kernel: 6.1 against 5.4", "tool version: 1 against 2"]
    complete = [str(one) for one in context.disagreements(ours, theirs, partial=False)]
    assert complete == [*both, "perf: 6 against not recorded"]
    programs = context.disagreements(ours, theirs, machine=False)
    assert [str(one) for one in programs] == ["tool version: 1 against 2"]
    assert context.disagreements({"kernel": ""}, {"kernel": "6"}) == []
    assert context.disagreements({"kernel": "6"}, {"kernel": ""}) == []
    ours = {"a": {"chart x": "1", "image y": "2"}, "b": {"chart x": "1"}}
    theirs = {"a": {"chart x": "1", "image y": "3", "image z": "4"}}
    installed = context.coordinate("installed")
    assert [str(one) for one in context.differing(installed, ours, theirs)] == [
        "installed, a, image y: 2 against 3"
    ], "what only one of them has is no difference"
    assert len(context.differing(installed, {"a": {"x": "1"}}, {"a": "none"})) == 1
    coordinate = context.coordinate("mtu")
    assert context.differing(coordinate, 1500, 1500) == []
    assert [str(one) for one in context.differing(coordinate, 1500, 9000, "their MTU")] == [
        "their MTU: 1500 B against 9000 B"
    ]


def test_without_versions_only_what_may_not_change_along_a_trend_is_compared() -> None:
    ours = {"kernel": "6.1", "cpus": 2, "tool_version": "1", "cpu_model": "A"}
    theirs = {"kernel": "5.4", "cpus": 4, "tool_version": "2", "cpu_model": "B"}
    named = [str(one) for one in context.disagreements(ours, theirs)]
    kept = [str(one) for one in context.disagreements(ours, theirs, versions=False)]
    assert kept == [one for one in named if not one.startswith(("kernel", "tool version"))]
    assert len(kept) == 2


def _cell(label: str, **change: Any) -> Any:
    return SimpleNamespace(**{**PLACE, **change}, label=label, profile=label, window="speed")


def test_cells_that_differ_by_their_label_alone_are_together() -> None:
    a, b, other, twice = _cell("a"), _cell("b"), _cell("a", ip=6), _cell("c", pairs=2)
    assert context.alike([a, other, b, twice]) == [[a, b, twice], [other]]


def test_a_cell_has_its_own_coordinates() -> None:
    cell = Cell(
        label="a", profile="p", placement="intra", workload="tcp-rr", params={"size": 1}, mtu=9000
    )
    found = context.of_cell(cell)
    assert set(found) == set(context.OF_CELL)
    assert (found["placement"], found["workload"], found["mtu"]) == ("intra", "tcp-rr", 9000)
    assert found["params"] == {"size": 1}


def test_the_types_of_columns() -> None:
    assert [context.sql(name) for name in ("mtu", "wire_rate", "params", "block", "reason")] == [
        "INTEGER",
        "DOUBLE",
        "JSON",
        "INTEGER",
        "VARCHAR",
    ]
    assert context.fact({"kernel": "6.1"}, "kernel") == "6.1"
