"""The mutations of named.toml, each applied to a copy of the repository."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from staging import ROOT, copy

_LIMIT = 600  # s: of the tests of one mutation


@dataclass(frozen=True)
class Named:
    """``old`` becomes ``new`` in ``file`` (relative to src/cnibench); ``tests`` then fail."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    root: bool


def load() -> list[Named]:
    """Raises ValueError when the code that a mutation changes is not there exactly once."""
    text = (Path(__file__).parent / "named.toml").read_text(encoding="utf-8")
    core = ROOT / "src" / "cnibench"
    sources = {
        str(Path(folder, name).relative_to(core)): Path(folder, name).read_text(encoding="utf-8")
        for folder, _, names in os.walk(core, followlinks=True)
        for name in names
        if name.endswith(".py")
    }
    found = []
    for one in tomllib.loads(text)["mutation"]:
        files = [file for file, source in sources.items() if one["old"] in source]
        if len(files) != 1 or sources[files[0]].count(one["old"]) != 1:
            raise ValueError(f"{one['name']}: expected its code once, found it in {files}")
        found.append(
            Named(
                one["name"],
                files[0],
                one["old"],
                one["new"],
                tuple(one["tests"]),
                one.get("needs") == "root",
            )
        )
    return found


@contextmanager
def _copied() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="cnibench-mutation-") as name:
        copy(Path(name))
        yield Path(name)


def survivors(named: Sequence[Named]) -> list[Named]:
    """Those with which all their tests pass. Raises RuntimeError when a test fails without any."""
    with _copied() as folder:
        tests = sorted({test for one in named for test in one.tests})
        if output := _failing(folder, tests):
            raise RuntimeError(f"the tests fail without a mutation:\n{output}")
        return [one for one in named if not _killed(folder, one)]


def _killed(folder: Path, one: Named) -> bool:
    path = folder / "src" / "cnibench" / one.file
    source = path.read_text(encoding="utf-8")
    path.write_text(source.replace(one.old, one.new), encoding="utf-8")
    try:
        killed = bool(_failing(folder, one.tests))
    finally:
        path.write_text(source, encoding="utf-8")
    print(f"{'killed  ' if killed else 'SURVIVED'} {one.name}", flush=True)
    return killed


def _failing(folder: Path, tests: Sequence[str]) -> str:
    """pytest's output, '' when all passed. Raises RuntimeError when it could not run them."""
    options = ["-x", "-q", "-p", "no:cacheprovider", "--hypothesis-profile=mutation"]
    done = subprocess.run(
        [sys.executable, "-B", "-m", "pytest", *options, *tests],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder / "src")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_LIMIT,
    )
    if done.returncode not in (0, 1):
        raise RuntimeError(f"pytest ended with {done.returncode}:\n{done.stdout}")
    return done.stdout if done.returncode else ""
