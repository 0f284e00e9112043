"""What the background load has sent, out of counters that may be reset."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cnibench.errors import MeasureError
from cnibench.workloads import _load


def marked(folder: Path, before: int | None, after: int | None) -> tuple[Any, Any]:
    (folder / "background").mkdir()
    s = SimpleNamespace(raw=folder)
    _load.mark(s, SimpleNamespace(bytes=lambda: before))  # type: ignore[arg-type]
    return s, SimpleNamespace(bytes=lambda: after)


def test_the_rate_is_what_was_sent_since_the_mark(tmp_path: Path) -> None:
    s, load = marked(tmp_path, 1000, 51_000)
    found = _load.achieved(s, load)
    assert found is not None
    assert found > 0


def test_a_counter_that_fell_is_no_rate(tmp_path: Path) -> None:
    s, load = marked(tmp_path, 1 << 32, 17)
    with pytest.raises(MeasureError, match="reset, or has wrapped"):
        _load.achieved(s, load)


def test_pods_without_a_device_of_their_own_have_none(tmp_path: Path) -> None:
    s, load = marked(tmp_path, None, None)
    assert _load.achieved(s, load) is None
