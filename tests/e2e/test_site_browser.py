"""The site in a real headless Chromium: opened from its folder, with no network, in light and dark,
on a desk and on a phone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from _site_browser import LIMIT, PHONE, Visit, faults, opened
from playwright.sync_api import Browser

from cnibench.reports.site.build import build
from tests.unit._site import HOSTILE, OFFLOAD, TRUTH, runs_of_a_site

pytestmark = pytest.mark.timeout(1500)


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
    with opened() as found:
        yield found


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
    for name in pages(site):
        one = visit(name, scheme=scheme)
        one.draw()
        assert faults(one.page) == [], name
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
    one.wait(
        "[...document.querySelectorAll('.plot svg')].every(s => !s.textContent.includes('flannel'))"
    )
    assert "4 profiles" in page.locator("#shown").inner_text()
    assert one.complaints == []


def test_an_address_shows_what_was_chosen(visit: Any) -> None:
    page = visit("index.html").page
    page.select_option("select[name=placement]", "intra")
    page.locator("#filters summary").click()
    page.locator("input[name=profile][value=flannel]").uncheck()
    address = page.url
    assert "#placement=intra&" in address
    page.goto("about:blank")
    page.goto(address)
    assert page.locator(".card:visible").count() == 2
    assert page.locator("#matrix tr[data-profile=flannel]:visible").count() == 0
    assert "4 profiles" in page.locator("#shown").inner_text()
    page.select_option("select[name=placement]", "")
    page.locator("#filters summary").click()
    page.locator("input[name=profile][value=flannel]").check()
    assert "#" not in page.url
    page.goto(address.partition("#")[0] + "#placement=nowhere&profile=")
    assert page.locator(".card:visible").count() == 4
    assert page.locator("input[name=profile]:checked").count() == 0


def test_a_table_is_copied_as_markdown_and_as_csv(visit: Any) -> None:
    """What is shown of it, and nothing that another program would take for more than text."""
    one = visit("index.html")
    one.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = one.page
    page.select_option("select[name=placement]", "intra")
    for name, begins in (
        ("CSV", '"profile","tcp-rr on one node'),
        ("Markdown", "| profile | tcp-rr"),
    ):
        button = page.get_by_role("button", name=f"Copy as {name}: All profiles by all comparisons")
        button.click()
        page.get_by_text(f"copied as {name}").wait_for()
        text = page.evaluate("navigator.clipboard.readText()")
        lines = text.strip().splitlines()
        assert lines[0].startswith(begins)
        assert "between nodes" not in text
        assert len(lines) == 6 + (name == "Markdown")
        if name == "Markdown":
            assert "<" not in text.replace("\\<", "")
            assert len({line.replace("\\|", "").count("|") for line in lines}) == 1
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
