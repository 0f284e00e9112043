"""What a site of many profiles weighs, with everything that a run stores."""

from __future__ import annotations

import json
import re
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np
import pytest

from cnibench.cpp import taxonomy
from cnibench.cpp.stacks import USER, Stack
from cnibench.model.profile import builtin
from cnibench.reports.site.build import build
from tests.unit._bundles import stored
from tests.unit._site import RECORDS

pytestmark = pytest.mark.timeout(1500)
HEAVIEST = 8_000_000  # bytes of all pages, scripts and data
KINDS = (".html", ".js", ".css", ".json", ".csv")
PROFILES = 16
PLACEMENTS = ("intra", "inter")
# The medians of the flame graphs of a run of these profiles in the lab, in slices with perf.
FRAMES, FUNCTIONS, LETTERS = 365, 206, 16
STACKS = 154  # of a sample there


def call_stacks(seed: int) -> list[Stack]:
    """Invented ones, as many and as long as in that run, of functions of every component."""
    rng = np.random.default_rng(seed)
    known = [
        pattern.replace("*", f"{component}_function")
        for component, one in taxonomy.load().components.items()
        if component != taxonomy.IDLE
        for pattern in one.functions
    ]
    names = [f"{rng.choice(known)}_{n}" for n in range(2 * FUNCTIONS)]
    paths: list[tuple[str, ...]] = [(USER, "do_syscall_64"), ("net_rx_action",)]
    for _ in range(STACKS):
        path = paths[rng.integers(len(paths))]
        kept = path[: max(1, len(path) - int(rng.integers(2)))]
        paths.append((*kept, *map(str, rng.choice(names, rng.integers(1, 5)))))
    cycles = rng.uniform(1e5, 1e7, len(paths))
    return [
        Stack("cell", path[::-1], float(spent), 10)
        for path, spent in zip(paths, cycles, strict=True)
    ]


def graphs(site: Path) -> list[dict[str, Any]]:
    """What the flame graphs of the site are drawn of."""
    pattern = r'<script type="application/json" id="frames">(.*?)</script>'
    files = sorted((site / "flames").iterdir())
    return [json.loads(re.findall(pattern, file.read_text())[0]) for file in files]


def test_a_site_of_many_profiles_with_flame_graphs_is_light(tmp_path: Path) -> None:
    labels = [name for name, profile in builtin().items() if profile.datapath][:PROFILES]
    assert len(labels) == PROFILES
    run = stored(
        tmp_path / "run",
        {label: 1 + 0.02 * n for n, label in enumerate(labels)},
        blocks=8,
        placements=PLACEMENTS,
        cycles={label: call_stacks(n) for n, label in enumerate(labels)},
        records=RECORDS,
    )
    written = build([run], tmp_path / "site")
    assert len(written["pages"]) > PROFILES * (PROFILES - 1) / 2
    drawn = graphs(tmp_path / "site")
    assert len(drawn) == written["flames"] == 2 * len(PLACEMENTS) * PROFILES
    assert median(len(one["frames"]) / 3 for one in drawn) > FRAMES
    assert median(len(one["names"]) for one in drawn) > FUNCTIONS
    assert mean(len(name) for one in drawn for name in one["names"]) > LETTERS
    files = [path for path in (tmp_path / "site").rglob("*") if path.suffix in KINDS]
    sizes = {kind: sum(p.stat().st_size for p in files if p.suffix == kind) for kind in KINDS}
    assert sum(sizes.values()) < HEAVIEST, sizes
