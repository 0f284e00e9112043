"""What a cpp record says, made again from what was kept."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path
from typing import Any

from cnibench.cpp import attribution, perfdata, stacks, symbols, taxonomy


def evaluated_again(raw: Path, cpp: dict[str, Any]) -> None:
    """The same figures come from the folded stacks, and from perf.data, elsewhere and without
    perf.
    """
    again = attribution.attribute(
        stacks.unfold((raw / "stacks.folded").read_text()), taxonomy.load()
    )
    assert math.isclose(again.total / cpp["packets"], cpp["total"], rel_tol=1e-4)
    facts = json.loads((raw / "perf.a+b.json").read_text())
    data = gzip.decompress((raw / facts["recording"]).read_bytes())
    recording = perfdata.read(data).within(facts["windows"])
    symbols_file = raw / facts["recording"].replace(".data.gz", ".symbols")
    kept = [
        (int(start, 16), int(end, 16), name)
        for start, end, name in (row.split() for row in symbols_file.open())
    ]
    named = stacks.named(
        recording,
        symbols.Symbols(kept),
        facts["hertz"],
        set(facts["own"]),
        taxonomy.load().is_network,
    )
    assert math.isclose(
        attribution.attribute(named, taxonomy.load()).total / cpp["packets"],
        cpp["total"],
        rel_tol=1e-9,
    )
    assert not list(raw.glob("*.data"))
