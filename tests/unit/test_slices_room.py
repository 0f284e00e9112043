"""Load generators that have no room are refused before any of them starts."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

from cnibench.errors import UsageError
from cnibench.run.slices.room import require

REQUIRE = "from cnibench.run.slices.room import require; require({})"


def test_more_cells_than_memory_holds_are_refused() -> None:
    with pytest.raises(UsageError, match=r"^100000000 cells have a load generator each") as refused:
        require(100_000_000)
    assert "--method windows" in refused.value.remedy


def limited(cells: int, soft: int, hard: int) -> subprocess.CompletedProcess[str]:
    """``require`` in a process that may have so many files open; prints its limit afterwards."""
    script = f"import resource; {REQUIRE.format(cells)}; print(resource.getrlimit(7)[0])"
    return subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard)),
    )


def test_the_limit_of_open_files_is_raised_as_far_as_it_may_be() -> None:
    assert limited(20, 400, 4000).stdout == f"{20 * 16 + 256}\n"
    assert limited(2, 400, 4000).stdout == "400\n"


def test_more_cells_than_files_are_refused() -> None:
    done = limited(200, 400, 1000)
    assert done.returncode != 0
    assert "200 cells need 3456 open files, and the limit is 1000" in done.stderr
