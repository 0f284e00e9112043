"""Parts that are rebuilt only when what they are made of changes."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

KEEP_UNUSED = 14 * 24 * 3600
"""seconds after which a part with another key (an older checkout's) is removed"""


def folder() -> Path:
    """CNIBENCH_E2E_CACHE, or ~/.cache/cnibench-e2e."""
    return Path(
        os.environ.get("CNIBENCH_E2E_CACHE") or Path.home() / ".cache" / "cnibench-e2e"
    ).absolute()


def key(*inputs: object) -> str:
    """Of values that JSON can hold, and of files (Path): their content counts, not their name."""
    digest = hashlib.sha256()
    for value in inputs:
        data = (
            value.read_bytes()
            if isinstance(value, Path)
            else json.dumps(value, sort_keys=True).encode()
        )
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()[:12]


@contextlib.contextmanager
def lock(name: str) -> Iterator[None]:
    """One builder at a time, whatever process; the kernel gives the lock back when its holder
    dies.
    """
    where = folder() / "locks"
    where.mkdir(parents=True, exist_ok=True)
    with (where / name).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def part(name: str, identity: str, build: Callable[[Path], None]) -> Path:
    """The folder of this part with this key; `build` fills an empty folder, which gets its name
    only when all of it is there.
    """
    done = folder() / f"{name}-{identity}"
    if not done.is_dir():
        with lock(name):
            if not done.is_dir():
                _build(name, done, build)
    os.utime(done)
    return done


def _build(name: str, done: Path, build: Callable[[Path], None]) -> None:
    for stale in folder().glob(
        f".building-{name}.*"
    ):  # a builder that was killed: nobody else can hold the lock
        shutil.rmtree(stale)
    aside = Path(tempfile.mkdtemp(prefix=f".building-{name}.", dir=folder()))
    aside.chmod(0o755)
    print(f"kind: {name} ...", flush=True)
    began = time.monotonic()
    try:
        build(aside)
        aside.rename(done)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise
    print(f"kind: {name} built in {time.monotonic() - began:.0f} s", flush=True)
    for old in folder().glob(f"{name}-????????????"):
        if old != done and time.time() - old.stat().st_mtime > KEEP_UNUSED:
            shutil.rmtree(old)
