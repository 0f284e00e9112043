"""docs/attestation.md says of the sabotages what was recorded, and all of them were tried."""

from __future__ import annotations

import re

from tests.lab._sabotage import SABOTAGES
from tests.lab._sabotage_table import PAGE, on_page, recorded, table


def test_each_sabotage_was_tried_or_it_is_said_why_not() -> None:
    found = recorded()
    assert found.keys() == SABOTAGES.keys()
    for profile, its in SABOTAGES.items():
        one = found[profile]
        if "not_tried" in one:
            assert re.search(r"kernel|VM", one["not_tried"]), profile
            continue
        assert one["noticed"] == {item.name: item.noticed for item in its}, profile
        assert re.fullmatch(r"\d+\.\d+(\.\d+)?", one["kernel"])
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", one["date"])


def test_the_page_has_the_table_of_what_was_recorded() -> None:
    assert on_page(PAGE.read_text(encoding="utf-8")) == table(recorded())


def test_a_comparison_notices_nearly_all() -> None:
    noticed = [what for one in recorded().values() for what in one.get("noticed", {}).values()]
    assert len(noticed) >= 180
    assert noticed.count("comparison") >= 0.95 * len(noticed)
