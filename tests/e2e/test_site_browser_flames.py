"""The pages of flame graphs in a real headless Chromium: enlarged, searched, on a phone, in the
dark, and without scripts.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from _site_browser import DESK, PHONE, Visit, faults, opened
from playwright.sync_api import Browser, Page

from cnibench.cpp.stacks import USER, Stack
from cnibench.reports.site.build import build
from tests.unit._bundles import stored

pytestmark = pytest.mark.timeout(600)
BRIDGE = Stack("kernel", ("br_handle_frame", "net_rx_action"), 2e6, 20)
CALL = ("do_syscall_64", USER)
COMMON = (
    Stack("cell", ("nf_hook_slow", "ip_forward", *CALL), 3e6, 30),
    Stack("cell", ("tcp_sendmsg", *CALL), 3e6, 30),
    Stack("kernel", ("<img src=x onerror=alert(1)>", "net_rx_action"), 1e6, 10),
)
OWN, COMPARED = "flannel-intra-tcp-rr.html", "cilium-intra-tcp-rr.html"


@pytest.fixture(scope="module")
def flames(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("flames")
    cycles = {"flannel": (*COMMON, BRIDGE), "cilium": COMMON}
    truth = {"flannel": 1.0, "cilium": 1.1}
    run = stored(folder / "run", truth, workloads=("tcp-rr",), cycles=cycles)
    build([run], folder / "site")
    return folder / "site" / "flames"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with opened() as found:
        yield found


def widths(page: Page) -> dict[str, float]:
    """The frames that are shown, by their names, with their widths in pixels."""
    found: dict[str, float] = page.evaluate(
        """Object.fromEntries([...document.querySelectorAll("#flame g")]
        .filter((g) => g.style.display !== "none")
        .map((g) => [g.querySelector("title").textContent.split(":")[0],
          g.querySelector("rect").getBoundingClientRect().width]))"""
    )
    return found


def click(page: Page, name: str) -> None:
    """A frame, by its name."""
    page.evaluate(
        """(name) => [...document.querySelectorAll("#flame g")]
        .find((g) => g.querySelector("title").textContent.startsWith(name + ":"))
        .dispatchEvent(new Event("click"))""",
        name,
    )


@pytest.mark.parametrize("width", [PHONE, DESK])
def test_a_frame_that_is_clicked_fills_the_page_and_all_come_back(
    browser: Browser, flames: Path, width: int
) -> None:
    one = Visit(browser, flames / OWN, width=width)
    before = widths(one.page)
    whole = before["all"]
    assert whole > 0.8 * min(width, 1216)
    assert before["br_handle_frame"] == pytest.approx(whole * 2 / 9, abs=2)
    click(one.page, "net_rx_action")
    after = widths(one.page)
    assert after["net_rx_action"] == pytest.approx(whole, abs=2)
    assert after["br_handle_frame"] == pytest.approx(whole * 2 / 3, abs=2)
    assert after["all"] == pytest.approx(whole, abs=2)
    assert "nf_hook_slow" not in after
    assert "net_rx_action: 3000.0 cycles" in one.page.locator("#frame").inner_text()
    one.page.get_by_role("button", name="Show all").click()
    assert widths(one.page) == before
    one.page.get_by_role("button", name="br_handle_frame").click()
    assert widths(one.page)["br_handle_frame"] == pytest.approx(whole, abs=2)
    one.page.keyboard.press("Escape")
    assert widths(one.page) == before
    assert one.complaints == []
    one.close()


def test_the_search_marks_frames_and_says_their_share(browser: Browser, flames: Path) -> None:
    one = Visit(browser, flames / OWN)
    one.page.get_by_role("searchbox").fill("IP_FOR")
    assert one.page.locator("#found").inner_text().startswith("33.3 % of the cycles")
    assert one.page.locator("#flame rect.marked").count() == 1
    one.page.get_by_role("searchbox").fill("no such function")
    assert one.page.locator("#found").inner_text() == "no frame has this"
    assert one.page.locator("#flame rect.marked").count() == 0
    one.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", [OWN, COMPARED, f"{COMPARED}#difference"])
def test_each_page_is_sound_on_a_desk_and_on_a_phone(
    browser: Browser, flames: Path, name: str, scheme: str
) -> None:
    for width in (DESK, PHONE):
        file, _, view = name.partition("#")
        one = Visit(browser, flames / file, width=width, scheme=scheme)
        if view:
            one.page.goto(f"{one.page.url}#{view}")
        assert one.page.locator("#compared").is_visible() == bool(view)
        assert one.page.locator("#flame g").count() >= 8
        copies = one.page.get_by_role("button", name="Copy as CSV")
        assert copies.count() == one.page.locator("table").count() > 0
        assert one.page.evaluate("document.documentElement.scrollWidth") <= width
        assert faults(one.page) == []
        assert one.complaints == []
        assert one.page.locator("img").count() == 0
        assert all(url.startswith((flames.parent.as_uri(), "data:")) for url in one.requests)
        one.close()


def fills(page: Page) -> dict[str, str]:
    """The colours of the frames, by their names."""
    found: dict[str, str] = page.evaluate(
        """Object.fromEntries([...document.querySelectorAll("#flame g")]
        .map((g) => [g.querySelector("title").textContent.split(":")[0],
          g.querySelector("rect").getAttribute("fill")]))"""
    )
    return found


def test_the_colours_show_components_or_the_difference_and_the_address_says_which(
    browser: Browser, flames: Path
) -> None:
    one = Visit(browser, flames / COMPARED)
    page = one.page
    components = fills(page)
    assert page.locator("#components").is_visible()
    assert not page.locator("#compared").is_visible()
    page.select_option("#colors", "difference")
    assert page.url.endswith("#difference")
    changed = fills(page)
    assert changed["all"] == changed["net_rx_action"] == "#5050f5", "2000 less, as the bridge is"
    assert changed["ip_forward"] == "#f5f5f5"
    assert page.locator("#compared").is_visible()
    assert not page.locator("#components").is_visible()
    click(page, "net_rx_action")
    assert page.locator("#frame").inner_text() == (
        "net_rx_action: 1000.0 cycles per packet, -2000.0"
    )
    address = page.url
    page.select_option("#colors", "")
    assert "#" not in page.url
    assert fills(page) == components
    page.goto("about:blank")
    page.goto(address)
    assert fills(page) == changed
    assert one.complaints == []
    one.close()


def test_without_scripts_the_functions_are_a_table(browser: Browser, flames: Path) -> None:
    context: Any = browser.new_context(java_script_enabled=False, offline=True)
    page = context.new_page()
    page.goto((flames / COMPARED).as_uri())
    assert not page.locator("#graph").is_visible()
    assert (
        "without one, the table of functions has its figures" in page.locator("main").inner_text()
    )
    cells = page.locator("tr", has_text="nf_hook_slow").locator("td").all_inner_texts()
    assert cells == ["3000.0", "3000.0", "3000.0"]
    assert page.locator("tr", has_text="br_handle_frame").locator("td").inner_text() == "2000.0"
    context.close()
