"""What the tests of the analysis share."""

from __future__ import annotations

import json
from pathlib import Path

from cnibench.analysis import Analysis, analyse
from cnibench.reports.json_ import PROVIDER as JSON
from cnibench.reports.text import PROVIDER as TEXT
from cnibench.rundir.reader import RunReader
from tests.unit._runs import synthetic

TRUTH = {"veth-baseline": 1.0, "same": 1.0, "slow": 0.9}


def pair_of(analysis: Analysis, a: str, b: str, metric: str, placement: str = "intra") -> object:
    return next(
        p
        for p in analysis.pairs
        if (p.a, p.b, p.metric, p.placement) == (a, b, metric, placement) and not p.reading
    )


def bent(tmp_path: Path, change: object, **more: object) -> Analysis:
    """The analysis of a run whose sample lines went through ``change`` (line, number) -> line or
    text.
    """
    reader = synthetic(tmp_path, {"a": 1.0, "b": 0.9}, blocks=6, **more)
    lines = [json.loads(line) for line in (reader.path / "samples.jsonl").read_text().splitlines()]
    out = []
    for number, line in enumerate(lines):
        new = change(line, number)
        out.append(new if isinstance(new, str) else json.dumps(new))
    (reader.path / "samples.jsonl").write_text("\n".join(out) + "\n")
    analysis = analyse([RunReader(reader.path)])
    for provider in (TEXT, JSON):
        assert provider.render(analysis)
    return analysis
