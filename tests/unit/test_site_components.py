"""The tables of cycles per packet, of one profile and of two: their order and what they pair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from msgspec import structs

from cnibench.analysis.model import Cpp
from cnibench.reports.site.dataset import Material, material
from cnibench.reports.site.pages.profile_page import profile_page
from cnibench.reports.site.pages.versus import versus
from tests.unit._runs import synthetic

EQUAL = dict.fromkeys(("veth", "skb", "driver", "bridge", "tcp-ip", "fib", "copy", "irq"), 5.0)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Material:
    run = synthetic(tmp_path_factory.mktemp("runs"), {"one": 1.0, "two": 1.1}, blocks=2)
    return material([run], raw=False, allow_different=False, baseline="")


def with_cycles(found: Material, rows: Sequence[Cpp]) -> Material:
    return replace(found, analysis=structs.replace(found.analysis, cpp=list(rows)))


def test_equal_components_are_in_the_order_of_their_names(found: Material) -> None:
    """A set has another order in each process, and the same run gives the same pages."""
    parts = {**EQUAL, "sched": 9.0}
    rows = [structs.replace(row, components=parts, unclassified=0.0) for row in found.analysis.cpp]
    shown = with_cycles(found, rows)
    expected = ["sched", *sorted(EQUAL)]
    page = profile_page(shown, "one", [], set())
    assert page.cycles is not None
    assert [row[0] for row in page.cycles.rows][: len(expected)] == expected
    table = versus(shown, [], "one", "two", []).cycles
    assert table is not None
    assert [row[1] for row in table.rows][1 : len(expected) + 1] == expected


def test_cycles_of_several_pairs_are_not_mixed(found: Material) -> None:
    first = [row for row in found.analysis.cpp if row.workload == "tcp-rr"][:1]
    place = structs.replace(first[0], label="one", total=100.0)
    other = structs.replace(place, label="two", total=200.0)
    rows = [place, other, structs.replace(place, pair=1, total=300.0)]
    table = versus(with_cycles(found, rows), [], "one", "two", []).cycles
    assert table is not None
    totals = [row[2:4] for row in table.rows if row[1] == "total"]
    assert totals == [["100.0", "200.0"]]
