"""The named mutations fit the code that they change, so that `tox -e mutation` can try them."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MUTATIONS = tomllib.loads((ROOT / "tests/mutation/named.toml").read_text())["mutation"]
# The core and the rooms that it links to.
FOLDERS = ("src/cnibench", "cli", "clusters", "collectors", "workloads", "reports")
SOURCES = [
    path.read_text()
    for folder in FOLDERS
    for path in sorted((ROOT / folder).rglob("*.py"))
    if not any(parent.is_symlink() for parent in path.parents)
]


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda one: one["name"])
def test_a_named_mutation_fits_the_code_and_has_a_test(mutation: dict[str, object]) -> None:
    """Where it does not fit any more: change ``old`` and ``new`` in tests/mutation/named.toml."""
    assert sum(source.count(str(mutation["old"])) for source in SOURCES) == 1
    assert mutation["old"] != mutation["new"]
    tests = mutation["tests"]
    assert isinstance(tests, list)
    for test in tests:
        file, _, name = test.partition("::")
        assert f"def {name}(" in (ROOT / file).read_text() or not name
