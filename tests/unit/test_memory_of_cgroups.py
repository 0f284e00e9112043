"""What the limits of cgroups leave, as both versions of the kernel's files say it."""

from __future__ import annotations

from pathlib import Path

import pytest

from cnibench.system.memory import left

MIB = 1 << 20
TWO = {
    "memory.max": "{limit}",
    "memory.current": "{use}",
    "memory.stat": "anon 7\ninactive_file {spare}",
}
ONE = {
    "memory.limit_in_bytes": "{limit}",
    "memory.usage_in_bytes": "{use}",
    "memory.stat": "inactive_file 7\ntotal_inactive_file {spare}",
}


def group(folder: Path, files: dict[str, str], **figures: object) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text.format(**figures) + "\n")


@pytest.mark.parametrize("version", [1, 2])
def test_the_group_above_may_leave_less(tmp_path: Path, version: int) -> None:
    files, mounted = (TWO, tmp_path) if version == 2 else (ONE, tmp_path / "memory")
    group(mounted / "a" / "b", files, limit=900 * MIB, use=100 * MIB, spare=0)
    group(mounted / "a", files, limit=400 * MIB, use=300 * MIB, spare=50 * MIB)
    groups = "0::/a/b\n" if version == 2 else "5:cpu:/z\n4:memory:/a/b\n0::/a\n"
    assert list(left(tmp_path, groups)) == [800 * MIB, 150 * MIB]


def test_no_limit_and_a_path_that_is_not_mounted_here(tmp_path: Path) -> None:
    """In a container the root is its own group, whatever its path is outside."""
    group(tmp_path, TWO, limit="max", use=MIB, spare=0)
    assert list(left(tmp_path, "0::/../other/group\n")) == []
    group(tmp_path, TWO, limit=300 * MIB, use=400 * MIB, spare=0)
    assert list(left(tmp_path, "0::/other\n")) == [0]
