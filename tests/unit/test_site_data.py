"""The data of a site: what ``report --format json`` says, in tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from cnibench.analysis.model import Where
from cnibench.registry import provider
from cnibench.reports.site.build import build
from cnibench.reports.site.dataset import material
from tests.unit._runs import synthetic

LISTS = ("results", "groups", "pairs", "cpp", "attestations", "failures", "disturbed")


def rows(table: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {**table["same"], **dict(zip(table["columns"], values, strict=True))}
        for values in table["data"]
    ]


def close(one: Any, other: Any) -> bool:
    """Equal but for rounding."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(close(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(close, one, other))
    if isinstance(one, float):
        return bool(other == pytest.approx(one, rel=1e-7))
    return bool(one == other)


def test_the_tables_have_all_that_the_report_has(tmp_path: Path) -> None:
    """But for a pair's reason in words, and what its group says of it."""
    truth = {"flannel": 1.0, "cilium": 1.2, "weave": 0.9}
    run = synthetic(tmp_path, truth, blocks=8, fail=[("weave", 3)])
    build([run], tmp_path / "site")
    text = (tmp_path / "site" / "data" / "report.json").read_bytes()
    found = msgspec.json.decode(text)
    analysis = material([run], raw=False, allow_different=False, baseline="").analysis
    whole = provider("reports", "json").render(analysis)
    expected = msgspec.json.decode(whole)
    assert len(text) < 0.5 * len(msgspec.json.format(whole, indent=-1))
    tables = {name: rows(found.pop(name)) for name in LISTS}
    assert all(tables[name] for name in LISTS if name != "disturbed")
    for pair in tables["pairs"]:
        group = tables["groups"][pair.pop("group")]
        pair |= {name: group[name] for name in Where.__struct_fields__}
    for pair in expected["pairs"]:
        del pair["reason"]
    for name in LISTS:
        assert close(expected.pop(name), tables[name]), name
    assert close(expected, found)
