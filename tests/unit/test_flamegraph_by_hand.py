"""Flame graphs of small trees."""

from __future__ import annotations

import re

import pytest

from cnibench.cpp import flamegraph
from cnibench.errors import MeasureError


def _frames(svg: str) -> list[tuple[str, float, int, float, str, str]]:
    """(tool tip, x, y, width, colour, label) of each frame."""
    rows = re.findall(
        r'<g><title>([^<]*)</title><rect x="([\d.]+)" y="(\d+)" width="([\d.]+)" height="15"'
        r' fill="([^"]*)"/>(?:<text x="([\d.]+)" y="(\d+)">([^<]*)</text>)?</g>\n',
        svg,
    )
    for _, x, y, *_, label_x, label_y, label in rows:
        if label:
            assert float(label_x) == pytest.approx(float(x) + 2)
            assert int(label_y) == int(y) + 12
    return [(tip, float(x), int(y), float(w), c, label) for tip, x, y, w, c, *_, label in rows]


def test_a_flame_graph_has_its_frames_where_they_belong() -> None:
    """1180 pixels for 100 cycles; the root at the bottom, 16 pixels a row."""
    tree = {("a", "b"): 50.0, ("a",): 10.0, ("c<d>",): 40.0}
    svg = flamegraph.draw(tree, 'A & "B"', lambda name: f"colour-{name}")
    assert svg.startswith(
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1200 102" width="1200" height="102"'
    )
    assert 'aria-label="A &amp; &quot;B&quot;">\n<rect' in svg
    assert 'y="24" font-size="15">A &amp; "B"</text>' in svg
    assert svg.endswith("</svg>\n")
    assert _frames(svg) == [
        ("all: 100.0 cycles per packet", 10.0, 76, 1180.0, "colour-all", "all"),
        ("a: 60.0 cycles per packet", 10.0, 60, 708.0, "colour-a", "a"),
        ("b: 50.0 cycles per packet", 10.0, 44, 590.0, "colour-b", "b"),
        ("c&lt;d&gt;: 40.0 cycles per packet", 718.0, 60, 472.0, "colour-c<d>", "c&lt;d&gt;"),
    ]


def test_narrow_frames_have_short_labels_or_none_and_the_narrowest_are_left_out() -> None:
    """6.6 pixels a letter: of 1180 pixels 0.06 are 70.8, room for 10; 0.03 are 35.4, for 4."""
    tree = {
        ("exactly-10",): 6.0,
        ("exactly-11c",): 6.0,
        ("x" * 9,): 3.0,
        ("y" * 9,): 2.5,
        ("z" * 3,): 2.5,
        ("gone",): 0.025,
        ("seen",): 0.026,
    }
    tree["rest",] = 100.0 - sum(tree.values())
    labels = {
        tip.partition(":")[0]: label
        for tip, *_, label in _frames(flamegraph.draw(tree, "t", lambda name: "c"))
    }
    assert labels == {
        "all": "all",
        "exactly-10": "exactly-10",
        "exactly-11c": "exactly-..",
        "x" * 9: "xx..",
        "y" * 9: "",
        "z" * 3: "zzz",
        "seen": "",
        "rest": "rest",
    }


def test_a_difference_is_red_where_more_and_blue_where_less() -> None:
    """The largest change, 20, has the deepest colour: 245 - 165 = 80 = 0x50."""
    base = {("a",): 40.0, ("b",): 30.0, ("c",): 5.0, ("e",): 7.0}
    tree = {("a",): 60.0, ("b",): 20.0, ("d",): 5.0, ("e",): 7.0}
    found = {
        tip: colour
        for tip, _, _, _, colour, _ in _frames(flamegraph.draw_difference(base, tree, "t"))
    }
    assert found == {
        "all: 92.0 cycles per packet, +10.0": "#f5a2a2",
        "a: 60.0 cycles per packet, +20.0": "#f55050",
        "b: 20.0 cycles per packet, -10.0": "#a2a2f5",
        "d: 5.0 cycles per packet, +5.0": "#f5cccc",
        "e: 7.0 cycles per packet, +0.0": "#f5f5f5",
    }
    same = _frames(flamegraph.draw_difference(tree, tree, "t"))
    assert {colour for *_, colour, _ in same} == {"#f5f5f5"}
    two = {("a", "b"): 10.0, ("a", "c"): 20.0}
    assert {
        tip.rpartition(" ")[2] for tip, *_ in _frames(flamegraph.draw_difference(two, two, ""))
    } == {"+0.0"}


def test_pages_get_the_frames_that_can_be_seen_and_their_cycles_in_the_base() -> None:
    base = {("a", "b"): 40.0, ("gone",): 30.0}
    tree = {("a", "b"): 50.0, ("a",): 10.0, ("c",): 40.0, ("narrow",): 0.025}
    found, largest = flamegraph.frames(base, tree)
    assert [(one.level, one.name, one.value, one.other) for one in found] == [
        (0, "all", pytest.approx(100.025), 70.0),
        (1, "a", 60.0, 40.0),
        (2, "b", 50.0, 40.0),
        (1, "c", 40.0, 0.0),
    ]
    assert largest == 40.0
    with pytest.raises(MeasureError, match="no stacks"):
        flamegraph.frames(base, {})


def test_a_tree_without_cycles_is_not_drawn() -> None:
    for tree in ({}, {("a",): 0.0}):
        with pytest.raises(MeasureError, match="no stacks"):
            flamegraph.draw(tree, "t", lambda name: "c")
    assert len(_frames(flamegraph.draw({("a",): 0.5}, "t", lambda name: "c"))) == 2
