"""docs/architecture.md names only folders, files and packages that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_CORE = ROOT / "src" / "cnibench"
PAGE = ROOT / "docs" / "architecture.md"
HEAD = re.compile(r"^\| package \| contents \|\n\|[-|]+\n((?:\|.*\n)+)", re.MULTILINE)
NAMES = re.compile(r"`([a-z_]+)`")


def names_of(text: str) -> list[str]:
    return NAMES.findall(text)


def missing(text: str) -> list[str]:
    """What a page in the form of docs/architecture.md names and the repository does not have."""
    paths = set(re.findall(r"`([a-z][\w-]*/[\w/.-]*)`", text)) - {"raw/"}  # of a run directory
    lacks = sorted(path for path in paths if not (ROOT / path).exists())
    lacks += [path for path in re.findall(r"`(\w+\.py)`", text) if not (_CORE / path).exists()]
    tables = HEAD.findall(text)
    for row in "".join(tables).splitlines():
        first, contents = row.strip("|").split("|", 1)
        packages = names_of(first)
        lacks += [name for name in packages if not _module(_CORE / name)]
        if len(packages) == 1:
            inner = names_of(contents)
            lacks += [f"{packages[0]}.{n}" for n in inner if not _module(_CORE / packages[0] / n)]
    for sentence in re.findall(r"`\w+/\w+` has [^.]*(?:\([^)]*\)[^.]*)*\.", text):
        folder, *inner = re.findall(r"`([\w/]+)`", sentence)
        lacks += [f"{folder}/{name}" for name in inner if not _module(ROOT / folder / name)]
    return lacks


def _module(path: Path) -> bool:
    return (path / "__init__.py").exists() or path.with_suffix(".py").exists()


def test_everything_that_the_page_names_exists() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert len(HEAD.findall(text)) == 1
    assert len(re.findall(r"`\w+/\w+` has ", text)) == 4
    assert missing(text) == []


@pytest.mark.parametrize(
    ("right", "wrong", "lacks"),
    [
        ("`workloads/`", "`loads/`", "loads/"),
        ("`registry.py`", "`providers.py`", "providers.py"),
        ("| `rundir` |", "| `store` |", "store"),
        ("`samples` reads run", "`series` reads run", "analysis.series"),
        ("`ownership` (Leases", "`leases` (Leases", "clusters/kubernetes/leases"),
        ("`attestation`.", "`attest`.", "clusters/lab/attest"),
        ("`publication`", "`privacy`", "reports/site/privacy"),
    ],
)
def test_a_name_that_does_not_exist_is_noticed(right: str, wrong: str, lacks: str) -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text.count(right) == 1
    assert lacks in missing(text.replace(right, wrong))
