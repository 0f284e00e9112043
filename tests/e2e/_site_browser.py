"""A page in a real headless Chromium, opened from its folder, with no network."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

LIMIT = 120_000  # ms: generous, the machine may be busy with anything
PHONE, DESK = 390, 1280
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@contextmanager
def opened() -> Iterator[Browser]:
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
        self.wait(
            "[...document.querySelectorAll('.plot')].every(p => !p.offsetParent || p.dataset.ready)"
        )

    def wait(self, condition: str) -> None:
        """Until that expression is true. wait_for_function evaluates it by eval() from the second
        time on, which the Content-Security-Policy of our pages refuses.
        """
        end = time.monotonic() + LIMIT / 1000
        while not self.page.evaluate(condition):
            assert time.monotonic() < end, condition
            self.page.wait_for_timeout(20)

    def close(self) -> None:
        self.context.close()


def faults(page: Page) -> list[tuple[str, str]]:
    """What axe calls serious or critical, and the first element with it."""
    spec = find_spec("axe_playwright_python")
    assert spec is not None
    assert spec.submodule_search_locations
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    folder = Path(spec.submodule_search_locations[0])
    page.evaluate((folder / "axe.min.js").read_text(encoding="utf-8"))
    found = page.evaluate("axe.run(document, {resultTypes: ['violations'], preload: false})")
    return [
        (fault["id"], fault["nodes"][0]["html"])
        for fault in found["violations"]
        if fault["impact"] in ("serious", "critical")
    ]
