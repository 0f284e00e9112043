"""The site in a real headless Chromium: opened from its folder, with no network, in light and dark,
on a desk and on a phone.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from cnibench.reports.site.build import build
from tests.unit._site import HOSTILE, OFFLOAD, TRUTH, runs_of_a_site

LIMIT = 120_000  # ms: generous, the machine may be busy with anything
PHONE, DESK = 390, 1280
pytestmark = pytest.mark.timeout(1500)
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs with everything that has a chart, a profile that failed, and one whose name is
    hostile.
    """
    folder = tmp_path_factory.mktemp("browser")
    truth = {"veth-baseline": 1.3, **TRUTH, HOSTILE: 0.8}
    runs = runs_of_a_site(folder, truth, blocks=10, environment={"offload": OFFLOAD})
    build(runs, folder / "site")
    return folder / "site"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    # None: the one that 'playwright install chromium' brings, for systems that have no package of
    # it.
    program = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(
            executable_path=program, args=["--no-sandbox", "--disable-dev-shm-usage"], timeout=LIMIT
        )
        yield found
        found.close()


class Visit:
    """A page with everything that it complained of or asked for."""

    def __init__(
        self, browser: Browser, file: Path, *, width: int = DESK, scheme: str = "light"
    ) -> None:
        self.context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True
        )  # type: ignore[arg-type]
        self.page: Page = self.context.new_page()
        self.page.set_default_timeout(LIMIT)
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on(
            "console",
            lambda message: (
                self.complaints.append(message.text)
                if message.type in ("error", "warning")
                else None
            ),
        )
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on(
            "dialog", lambda dialog: (self.complaints.append("a dialog"), dialog.dismiss())
        )
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(file.as_uri())

    def draw(self) -> None:
        """Scrolls to each chart, and waits until it is drawn."""
        plots = self.page.locator(".plot:visible")
        for number in range(plots.count()):
            plots.nth(number).scroll_into_view_if_needed()
        self.page.wait_for_function(
            "[...document.querySelectorAll('.plot')].every(p => !p.offsetParent || p.dataset.ready)"
        )

    def close(self) -> None:
        self.context.close()


@pytest.fixture
def visit(browser: Browser, site: Path) -> Iterator[Any]:
    visits: list[Visit] = []

    def go(name: str, **options: Any) -> Visit:
        visits.append(Visit(browser, site / name, **options))
        return visits[-1]

    yield go
    for one in visits:
        one.close()


def pages(site: Path) -> list[str]:
    """Every kind of page, and of the profiles and of the pairs some that are tame and some with the
    name that is not.
    """
    found = sorted(file.name for file in site.glob("*.html"))
    pairs = [
        name
        for name in found
        if name.startswith("versus-") and not re.search("cilium|calico", name)
    ]
    return [
        name for name in found if not re.match(r"profile-(flannel|calico|veth)|versus-", name)
    ] + pairs


def test_no_page_complains_asks_the_network_or_runs_a_run_s_script(site: Path, visit: Any) -> None:
    for name in pages(site):
        one = visit(name)
        one.draw()
        assert one.complaints == [], name
        assert all(url.startswith((site.as_uri(), "data:", "blob:")) for url in one.requests), (
            name,
            one.requests,
        )
        assert one.page.locator("img[src=x]").count() == 0, name
        one.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_fault(site: Path, visit: Any, scheme: str) -> None:
    spec = find_spec("axe_playwright_python")
    assert spec is not None
    assert spec.submodule_search_locations
    axe = (Path(spec.submodule_search_locations[0]) / "axe.min.js").read_text(encoding="utf-8")
    for name in pages(site):
        one = visit(name, scheme=scheme)
        one.draw()
        one.page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
        one.page.evaluate(axe)
        found = one.page.evaluate(
            "axe.run(document, {resultTypes: ['violations'], preload: false})"
        )
        faults = [
            (fault["id"], fault["nodes"][0]["html"])
            for fault in found["violations"]
            if fault["impact"] in ("serious", "critical")
        ]
        assert faults == [], name
        one.close()


def test_a_phone_shows_every_page_without_scrolling_sideways(site: Path, visit: Any) -> None:
    for name in pages(site):
        one = visit(name, width=PHONE)
        one.draw()
        assert one.page.evaluate("document.documentElement.scrollWidth") <= PHONE, name
        one.close()


def test_filters_and_scale_work(visit: Any) -> None:
    page = (one := visit("index.html")).page
    cards = page.locator(".card:visible")
    every = cards.count()
    assert every == 4
    page.select_option("select[name=placement]", "intra")
    assert cards.count() == 2
    page.select_option("select[name=workload]", "tcp-rr")
    assert cards.count() == 1
    assert page.locator("#matrix thead th:visible").count() == 2
    page.select_option("select[name=placement]", "")
    page.select_option("select[name=workload]", "")
    assert cards.count() == every
    assert page.locator("#matrix .relative:visible").count() > 0
    page.select_option("select[name=scale]", "absolute")
    assert page.locator("#matrix .relative:visible").count() == 0
    assert "Gbit/s" in page.locator("#matrix").inner_text()
    one.draw()
    page.locator("#filters summary").click()
    page.locator("input[name=profile][value=flannel]").uncheck()
    one.draw()
    assert page.locator("#matrix tr[data-profile=flannel]:visible").count() == 0
    page.wait_for_function(
        "[...document.querySelectorAll('.plot svg')].every(s => !s.textContent.includes('flannel'))"
    )
    assert "4 profiles" in page.locator("#shown").inner_text()
    assert one.complaints == []


def test_it_can_be_used_by_keyboard(visit: Any) -> None:
    page = visit("index.html").page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.locator("#matrix button.sort").first.focus()
    page.keyboard.press("Enter")
    assert page.locator("#matrix th[aria-sort=descending]").count() == 1
    page.keyboard.press("Enter")
    assert page.locator("#matrix th[aria-sort=ascending]").count() == 1
    summary = page.locator("figure.chart summary").first
    summary.focus()
    page.keyboard.press("Enter")
    assert page.locator("figure.chart details[open] table").count() == 1


def test_without_scripts_the_pictures_stand_in(browser: Browser, site: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((site / "index.html").as_uri(), timeout=LIMIT)
    pictures = page.locator("noscript img")
    assert pictures.count() == page.locator("figure.chart").count() > 0
    context.close()
