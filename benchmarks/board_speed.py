"""Time to build a board of many bundles, relative to verifying the same bundles, and the time until
Chromium paints its pages first, relative to an empty page.

    python benchmarks/board_speed.py RUN [BUNDLES]

The bundles (200 by default) are RUN under other IDs, with 1% of noise on its samples, for equal
samples are refused; with its records and attestations, without raw files and so without flame
graphs. The first paint needs playwright (requirements/browser.lock) and Chromium; it is the median
of pages that are opened in turn from their files. Targets: 200 bundles in 60 s; a first paint in
less than 1 s.
"""

from __future__ import annotations

import os
import platform
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from cnibench.reports.board.build import build
from cnibench.reports.bundle.making import bundle
from cnibench.reports.bundle.verifying import verified
from cnibench.rundir.index import find
from cnibench.rundir.reader import RunReader
from cnibench.rundir.schema import coordinates
from cnibench.rundir.writer import RunWriter

_REPEATS = 7  # of each page
_EMPTY = "<!doctype html><title>empty</title><p>empty</p>"
_PAINTED = "() => performance.getEntriesByName('first-contentful-paint').map(one => one.startTime)"


def copied(reader: RunReader, name: str, folder: Path) -> None:
    """A run directory ``folder`` with what the reader's run has, and the ID ``name``."""
    plan, noise = msgspec.structs.replace(reader.plan, id=name), random.Random(name)
    with RunWriter.create(folder, plan) as writer:
        writer.environment(reader.environment)
        for block in range(plan.blocks):
            writer.attestations(one for one in reader.attestations() if one.block == block)
            for cell in plan.cells:
                samples = [
                    msgspec.structs.replace(
                        one, value=one.value and one.value * noise.gauss(1, 0.01)
                    )
                    for one in reader.samples()
                    if (one.cell, one.block) == (cell.id, block)
                ]
                if samples:
                    writer.finish(cell, block, samples, list(_records(reader, cell, block)))
            writer.event("block-finished", block=block)
        writer.event("run-finished", failed=0)


def _records(reader: RunReader, cell: Any, block: int) -> Iterator[tuple[str, dict[str, Any]]]:
    own = coordinates(cell, block)
    for name in reader.record_names():
        for one in reader.records(name):
            if (one["cell"], one["block"]) == (cell.id, block):
                yield name, {key: value for key, value in one.items() if key not in own}


def timed(what: str, of: Any) -> float:
    began = time.perf_counter()
    of()
    taken = time.perf_counter() - began
    print(f"{what}: {taken:.2f} s", flush=True)
    return taken


def verify(folder: Path) -> None:
    for path in sorted(folder.rglob("*.cnibench")):
        with verified(path) as (found, _, _):
            assert not found.problems, found.problems


def paints(pages: dict[str, Path]) -> None:
    """Prints the median time to the first paint of each page."""
    from playwright.sync_api import sync_playwright

    found: dict[str, list[float]] = {name: [] for name in pages}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox"]
        )
        for _ in range(_REPEATS):
            for name, path in pages.items():
                page = browser.new_page()
                page.goto(path.as_uri())
                page.wait_for_timeout(500)
                found[name] += page.evaluate(_PAINTED)
                page.close()
    usual = statistics.median(found["an empty page"])
    for name, each in found.items():
        median = statistics.median(each)
        print(
            f"first paint of {name}: {median:.0f} ms ({min(each):.0f} to {max(each):.0f}),"
            f" {median / usual:.1f} times that of an empty page"
        )


def main(arguments: list[str]) -> None:
    reader = RunReader(find(arguments[0], Path("runs")))
    number = int(arguments[1]) if arguments[1:] else 200
    print(
        f"kernel {platform.release()}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f},"
        f" {number} bundles of {sum(1 for _ in reader.samples())} samples"
    )
    with tempfile.TemporaryDirectory() as folder:
        results, out, empty = (Path(folder) / name for name in ("results", "board", "empty.html"))
        (results / "testbed").mkdir(parents=True)
        for count in range(number):
            run = Path(folder) / "run"
            name = f"{reader.id[:9]}{count:06d}-{count:04x}"
            copied(reader, name, run)
            (results / "testbed" / f"{name}.cnibench").write_bytes(bundle(RunReader(run)))
            run.rename(Path(folder) / f"copied-{count}")
        verifying = timed(f"{number} bundles are verified", lambda: verify(results))
        said: dict[str, Any] = {}
        made = timed("their board is built", lambda: said.update(build(results, out)))
        assert said["bundles"] == number, said["refused"][:3]
        print(f"{made / verifying:.2f} times as long as verifying them")
        empty.write_text(_EMPTY, encoding="utf-8")
        paints(
            {
                "an empty page": empty,
                f"the board of {number} bundles": out / "index.html",
                "a bundle's page": min((out / "bundles").glob("*.html")),
            }
        )


if __name__ == "__main__":
    main(sys.argv[1:])
