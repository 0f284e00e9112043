"""What can be seen inside the charts, at both widths and in both colour schemes, in a real headless
Chromium.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from _site_browser import Visit, opened
from playwright.sync_api import Browser

from cnibench.reports.site.build import build
from tests.unit._sight import contrast
from tests.unit._site import runs_of_a_site

pytestmark = pytest.mark.timeout(1500)
LONG = "candidate-calico-wp-xsub"  # cut at the width of a phone, unless in lines
TEXT, MARKS = 4.5, 3.0  # WCAG 2.2, 1.4.3 and 1.4.11
# Every text, and every line and point that a reader has to see: not grids, nor bars that have an
# edge of their own.
SEEN = """
(() => {
  const found = [];
  const add = (kind, element, color) => {
    const box = element.getBoundingClientRect();
    if (!color || color === "none" || !(box.width || box.height)) return;
    found.push([kind, color, getComputedStyle(element).opacity, element.textContent]);
  };
  for (const svg of document.querySelectorAll(".plot svg")) {
    svg.querySelectorAll("text").forEach((one) => add("text", one, getComputedStyle(one).fill));
    const drawn = (marks, kind, how) =>
      svg.querySelectorAll(marks).forEach((one) => add(kind, one, getComputedStyle(one)[how]));
    drawn(".role-mark line", "line", "stroke");
    drawn(".mark-symbol.role-mark path", "point", "fill");
  }
  return found;
})()
"""
BEHIND = """
(() => {
  for (let one = document.querySelector(".plot"); one; one = one.parentElement) {
    const color = getComputedStyle(one).backgroundColor;
    if (!color.endsWith(", 0)")) return color;
  }
  return "rgb(255, 255, 255)";
})()
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pictures")
    truth = {"flannel": 1.0, LONG: 1.2}
    runs = runs_of_a_site(folder, truth, blocks=8)
    build(runs, folder / "site")
    build(runs[:1], folder / "site" / "alone")  # two runs are too few for intervals between them
    return folder / "site"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with opened() as found:
        yield found


def in_hex(color: str) -> str:
    """``rgb(1, 2, 3)`` as ``#010203``."""
    parts = color[color.index("(") + 1 : -1].split(",")[:3]
    return "#" + "".join(f"{int(part):02x}" for part in parts)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1440])
def test_everything_in_a_chart_stands_out_and_fits(
    browser: Browser, site: Path, width: int, scheme: str
) -> None:
    kinds = set()
    for file in [*sorted(site.glob("*.html")), *sorted(site.glob("alone/workload-*.html"))]:
        visit = Visit(browser, file, width=width, scheme=scheme)
        visit.draw()
        page: Any = visit.page
        assert page.evaluate("document.documentElement.scrollWidth") <= width, file.name
        if page.locator(".plot svg").count():
            behind = in_hex(page.evaluate(BEHIND))
            assert contrast(behind, "#ffffff" if scheme == "light" else "#000000") < 1.5
            for kind, color, opacity, text in page.evaluate(SEEN):
                if kind == "text" and float(opacity) == 0:
                    continue  # Vega hides numbers of an axis that would overlap
                kinds.add((kind, file.stem.partition("-")[0]))
                wanted = TEXT if kind == "text" else MARKS
                assert float(opacity) == 1, (file.name, kind, text)
                assert not (kind == "text" and text.endswith("…")), (file.name, text)
                assert contrast(in_hex(color), behind) >= wanted, (file.name, kind, color, text)
        visit.close()
    assert {("text", "index"), ("line", "versus"), ("point", "versus")} <= kinds
    assert ("line", "workload") in kinds, "the intervals on the bars"


def test_a_chart_without_a_file_is_saved_as_one(browser: Browser, site: Path) -> None:
    """On white, also from a dark page."""
    visit = Visit(browser, site / f"versus-flannel-{LONG}.html", scheme="dark")
    visit.draw()
    lines = visit.page.locator("figure.chart .picture")
    assert lines.count() == visit.page.locator("figure.chart").count() > 1
    for number in range(lines.count()):
        name = lines.nth(number).locator("..").get_attribute("id")
        for kind, begin in (("SVG", b"<svg"), ("PNG", b"\x89PNG")):
            with visit.page.expect_download() as started:
                lines.nth(number).get_by_role("button", name=kind).click()
            assert started.value.suggested_filename == f"{name}.{kind.lower()}"
            content = Path(started.value.path()).read_bytes()
            assert content.startswith(begin)
            if kind == "SVG":
                text = content.decode()
                assert 'fill="#ffffff"' in text
                assert "#e8eaee" not in text, "the text of dark pages"
                assert "flannel" in text
    assert visit.complaints == []
    visit.close()
