"""Cycles per packet of a group: means over its blocks, on records made by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from cnibench.cpp import summary, taxonomy
from cnibench.errors import InputError
from cnibench.model.context import OF_RECORD

_WHERE = {
    **dict.fromkeys(OF_RECORD),
    "placement": "inter",
    "workload": "tcp-stream",
    "params": {"size": 64, "streams": 2},
    "ip": 6,
    "mtu": 1500,
    "cpus": "split",
    "path": "pod",
}


def _line(number: int, value: float, **more: Any) -> dict[str, Any]:
    """The record of block ``number`` with ``value`` cycles per packet."""
    return {
        **_WHERE,
        "label": "x",
        "profile": "p",
        "cell": "c",
        "block": number,
        "total": value,
        "unclassified": 2.0,
        "components": {"a": value - 2.0},
        "functions": {"f": [1.0, value]},
        "cycles_source": "pmu",
        "packets": 100.0,
        "samples": 7,
        "cycles": 1000.0,
        "idle_cycles": 250.0,
        "foreign_cycles": 100.0,
        "taxonomy": 3,
        **more,
    }


def test_a_group_has_the_means_over_its_blocks() -> None:
    second = _line(
        4,
        20.0,
        components={"b": 18.0},
        functions={"g": [3.0, 16.0], "h": [1.0, 16.0]},
        unclassified=4.0,
        packets=300.0,
        idle_cycles=350.0,
        foreign_cycles=300.0,
    )
    (found,) = summary.groups([_line(1, 10.0), second])
    assert found == summary.Group(
        label="x",
        profile="p",
        where=_WHERE,
        cell="c",
        blocks=(1, 4),
        total=15.0,
        unclassified=3.0,
        components={"a": 4.0, "b": 9.0},
        functions={"g": (1.5, 8.0), "h": (0.5, 8.0), "f": (0.5, 5.0)},
        source="pmu",
        packets=400.0,
        samples=14,
        idle=0.3,
        foreign=0.2,
        taxonomy=3,
        per_block={1: 100.0, 4: 300.0},
    )
    assert list(found.functions) == ["g", "h", "f"]
    assert list(found.components) == ["a", "b"]
    assert found.document() == {
        **_WHERE,
        "profile": "p",
        "label": "x",
        "n": 2,
        "total": 15.0,
        "cycles_source": "pmu",
        "packets": 400.0,
        "components": {"a": 4.0, "b": 9.0},
        "unclassified": 3.0,
        "functions": {"g": [1.5, 8.0], "h": [0.5, 8.0], "f": [0.5, 5.0]},
        "samples": 14,
        "idle_share": 0.3,
        "foreign_share": 0.2,
        "taxonomy": 3,
    }


def test_groups_are_parted_by_label_and_place_and_one_estimate_makes_all_estimated() -> None:
    lines = [
        _line(0, 1e-100),
        _line(0, 5.0, label="y"),
        _line(0, 5.0, mtu=9000),
        _line(1, 0.0, cycles_source="estimated"),
    ]
    lines[3]["params"] = {"streams": 2, "size": 64}  # the same in another order
    lines[2] |= {"packets": 1.0, "cycles": 1.0}
    del lines[0]["foreign_cycles"]
    first, *others = summary.groups(lines)
    assert [(one.label, one.where["mtu"]) for one in others] == [("y", 1500), ("x", 9000)]
    assert (first.blocks, first.source, first.foreign) == ((0, 1), "estimated", 0.05)
    assert [one.source for one in others] == ["pmu", "pmu"]


@pytest.mark.parametrize(
    "broken",
    [
        *(
            {name: "many"}
            for name in ("total", "unclassified", "cycles", "packets", "samples", "idle_cycles")
        ),
        {"total": 1e-101},
        {"total": -1e-101},
        {"components": 3},
        {"cycles": 0.0},
        {"packets": 0},
        {"packets": -1.0},
    ],
)
def test_a_record_that_is_none_is_refused(broken: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"cpp\.jsonl"):
        summary.groups([_line(0, 5.0, **broken)])


def test_the_stacks_of_a_group_are_means_over_its_blocks() -> None:
    raw = {1: b"cell;\xff;f 1 300\nforeign;g 1 9\ncell;do_idle 1 9\n", 4: b"cell;\xff;f 1 600\n"}
    reader: Any = SimpleNamespace(raw_bytes=lambda cell, block, name: raw[block])
    (group,) = summary.groups([_line(1, 5.0), _line(4, 5.0, packets=300.0)])
    found = summary.trees(reader, group, taxonomy.load())
    assert found == {("\ufffd", "f"): pytest.approx((300 / 100 + 600 / 300) / 2)}
    raw[4] = b"cell;f 1\n"
    with pytest.raises(InputError, match=r"stacks\.folded of c, block 4, line 1"):
        summary.trees(reader, group, taxonomy.load())


def test_the_title_of_a_group_says_where() -> None:
    (found,) = summary.groups([_line(0, 5.0)])
    assert (
        found.title == "tcp-stream between nodes (size 64, streams 2, IPv6, MTU 1500, CPUs split)"
    )
    (found,) = summary.groups([_line(0, 5.0, path="service", params={})])
    assert found.title == "tcp-stream between nodes (IPv6, MTU 1500, CPUs split, path service)"
