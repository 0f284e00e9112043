"""The cache of the cluster's parts: one build for two builders, nothing half built after a kill, no
rebuild without a change.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from kind import cache

BUILDER = """
import sys, time
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from kind import cache
def build(where: Path) -> None:
    (where / "half").touch()
    Path(sys.argv[2], f"began.{sys.argv[3]}").touch()
    while not Path(sys.argv[2], "go").exists():
        time.sleep(0.01)
    (where / "whole").write_text(sys.argv[3])
print(cache.part("thing", cache.key("same"), build))
"""

AHEAD = """
import subprocess, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from kind import ahead
def build() -> None:
    if sys.argv[4] == "hang":
        process = subprocess.Popen(["sleep", "1000"])
    Path(sys.argv[2], "began").touch()
    if sys.argv[4] == "hang":
        process.wait()
    print("built")
ahead.attend(int(sys.argv[3]), build)
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CNIBENCH_E2E_CACHE", str(tmp_path / "cache"))


def builder(signs: Path, name: str) -> subprocess.Popen[str]:
    words = [
        sys.executable,
        "-c",
        BUILDER,
        str(Path(cache.__file__).parent.parent),
        str(signs),
        name,
    ]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


def wait_for(signs: Path, pattern: str) -> None:
    end = time.monotonic() + 60
    while not list(signs.glob(pattern)):
        assert time.monotonic() < end, f"no {pattern}"
        time.sleep(0.01)


def test_two_builders_at_once_build_once(tmp_path: Path) -> None:
    two = [builder(tmp_path, "a"), builder(tmp_path, "b")]
    wait_for(tmp_path, "began.*")
    (tmp_path / "go").touch()
    said = [process.communicate(timeout=60)[0].splitlines()[-1] for process in two]
    assert said[0] == said[1]
    (by,) = (path.suffix[1:] for path in tmp_path.glob("began.*"))
    assert (Path(said[0]) / "whole").read_text() == by


def test_a_killed_builder_leaves_no_part_and_the_next_one_clears_up(tmp_path: Path) -> None:
    first = builder(tmp_path, "first")
    wait_for(tmp_path, "began.first")
    first.send_signal(signal.SIGKILL)
    first.communicate(timeout=60)
    folder = cache.folder()
    assert not list(folder.glob("thing-*"))
    assert list(folder.glob(".building-thing.*/half"))
    (tmp_path / "go").touch()
    second = builder(tmp_path, "second")
    path = Path(second.communicate(timeout=60)[0].splitlines()[-1])
    assert (path / "whole").read_text() == "second"
    assert not list(folder.glob(".building-*"))


def test_a_failed_build_is_not_kept_and_is_tried_again() -> None:
    def fails(where: Path) -> None:
        (where / "half").touch()
        raise OSError("full")

    with pytest.raises(OSError, match="full"):
        cache.part("thing", "0123456789ab", fails)
    assert [path.name for path in cache.folder().iterdir()] == ["locks"]
    assert (
        cache.part("thing", "0123456789ab", lambda where: (where / "whole").touch()) / "whole"
    ).exists()


def test_the_key_counts_contents(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_text("x")
    other.write_text("x")
    assert cache.key(one, "v1") == cache.key(other, "v1") != cache.key(one, "v2")
    other.write_text("y")
    assert cache.key(one, "v1") != cache.key(other, "v1")


def test_parts_with_other_keys_go_when_long_unused() -> None:
    old, recent = (cache.part("thing", key, lambda where: None) for key in ("0" * 12, "1" * 12))
    long_ago = time.time() - cache.KEEP_UNUSED - 60
    os.utime(old, (long_ago, long_ago))
    new = cache.part("thing", "2" * 12, lambda where: None)
    assert [path.exists() for path in (old, recent, new)] == [False, True, True]


@pytest.mark.parametrize("course", ["hang", "end"])
def test_what_is_built_ahead_ends_with_its_owner_or_by_itself(tmp_path: Path, course: str) -> None:
    with subprocess.Popen(["sleep", "1000"]) as owner:
        try:
            words = [
                sys.executable,
                "-c",
                AHEAD,
                str(Path(cache.__file__).parent.parent),
                str(tmp_path),
                str(owner.pid),
                course,
            ]
            builder = subprocess.Popen(
                words, stdout=subprocess.PIPE, text=True, start_new_session=True
            )
            wait_for(tmp_path, "began")
            if course == "hang":
                owner.kill()
                owner.wait(60)
            said, _ = builder.communicate(
                timeout=60
            )  # the end of its output: all that had it are gone
            assert (said, builder.returncode) == (
                ("", -signal.SIGKILL) if course == "hang" else ("built\n", 0)
            )
        finally:
            owner.kill()
