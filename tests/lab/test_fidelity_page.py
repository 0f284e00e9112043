"""The table of docs/fidelity.md is what deployments of this kernel show."""

from __future__ import annotations

from pathlib import Path

import pytest

from cnibench.model.profile import builtin
from tests.lab import _fidelity_table as fidelity
from tests.lab._profiles import buildable

PAGE = (Path(__file__).parents[2] / "docs" / "fidelity.md").read_text(encoding="utf-8")


def test_each_model_has_a_row() -> None:
    models = {name for name, profile in builtin().items() if profile.datapath is not None}
    assert set(fidelity.table(PAGE)) == models


@pytest.mark.parametrize("name", sorted(buildable()))
def test_a_row_is_what_the_kernel_shows(name: str) -> None:
    (found,) = fidelity.rows([name])
    assert fidelity.line(found) == fidelity.table(PAGE)[name]


def test_rows_replace_those_of_the_same_profiles_alone() -> None:
    page = (
        f"before\n{fidelity.BEGIN}\n| old |\n| --- |\n| a | 1 |\n| b | 2 |\n{fidelity.END}\nafter"
    )
    changed = fidelity.with_rows(page, ["| b | 3 |", "| c | 4 |"])
    assert fidelity.table(changed) == {"a": "| a | 1 |", "b": "| b | 3 |", "c": "| c | 4 |"}
    assert changed.startswith("before\n")
    assert changed.endswith("\nafter")
