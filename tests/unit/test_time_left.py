"""How long a run still takes, as its progress says it."""

from __future__ import annotations

import io
from types import SimpleNamespace

import pytest

from cnibench.model.cell import Cell
from cnibench.run import progress

CELL = Cell(label="a", profile="a", placement="intra", workload="tcp-rr")


def test_the_first_cells_of_a_block_that_ends_all_at_once_say_little(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: clock.now))
    said = io.StringIO()
    lines = progress.Lines(said)
    lines.begin(100, 100.0)
    lines.cell(CELL, 0, 10)
    clock.now = 12.0  # ten cells take turns for this long, and end together
    for _ in range(10):
        lines.finished(CELL, 1.0, "ok", "")
    shown = [line.rsplit("; ", 1)[1] for line in said.getvalue().splitlines()[1:]]
    assert shown[0] == "2 min 31 s left"  # 99 s, stretched by (12 + 20) / (1 + 20)
    assert shown[-1] == "1 min 36 s left"  # 90 s, stretched by (12 + 20) / (10 + 20)


def test_what_takes_longer_than_expected_goes_on_to(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: clock.now))
    said = io.StringIO()
    lines = progress.Lines(said)
    lines.begin(10, 100.0)
    lines.cell(CELL, 0, 10)
    for number in range(9):
        clock.now = 20.0 * (number + 1)
        lines.finished(CELL, 10.0, "ok", "")
    assert said.getvalue().rstrip().endswith("ok; 18 s left")  # 20 s as of late, 10 s as planned
