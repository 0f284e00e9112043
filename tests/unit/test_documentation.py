"""The documentation as a site: its navigation, and the sources that release/documentation.py
writes for it.
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_every_page_is_in_the_navigation() -> None:
    text = (ROOT / "mkdocs.yml").read_text()
    listed = set(re.findall(r": (\S+\.md|\S+/)$", text[text.index("\nnav:") :], re.MULTILINE))
    pages = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    assert "adr/" in listed
    assert {page for page in pages if not page.startswith("adr/")} <= listed


def test_links_lead_to_pages_and_to_files_that_can_be_downloaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "release"))
    importlib.import_module("documentation").write(tmp_path)
    found = set()
    for page in sorted((tmp_path / "docs").rglob("*.md")):
        text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
        for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", text):
            assert (page.parent / target).exists(), (page.name, target)
            found.add(target)
    assert "dashboards/cnibench-history.json" in found
