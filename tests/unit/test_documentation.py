"""The navigation of the documentation's site."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_page_is_in_the_navigation() -> None:
    text = (ROOT / "mkdocs.yml").read_text()
    listed = set(re.findall(r": (\S+\.md|\S+/)$", text[text.index("\nnav:") :], re.MULTILINE))
    pages = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    assert "adr/" in listed
    assert {page for page in pages if not page.startswith("adr/")} <= listed
