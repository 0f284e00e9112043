"""A wheel as a user builds it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PIP = [sys.executable, "-I", "-m", "pip", "--disable-pip-version-check", "--no-cache-dir"]
LEFT_OUT = shutil.ignore_patterns(
    ".git", ".*_cache", "__pycache__", "build", "dist", "tests", "runs"
)


def build(folder: Path, compiler: str = "") -> Path:
    """Built from a copy: a build writes into the folder of its sources. ``compiler``: a cross
    compiler for C.
    """
    names = ("src", "release", "LICENSE", "README.md", "pyproject.toml", "setup.py")
    rooms = [link for link in (ROOT / "src" / "cnibench").iterdir() if link.is_symlink()]
    for name in (*names, *{Path(os.readlink(link)).name for link in rooms}):
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=LEFT_OUT)
        else:
            shutil.copy2(ROOT / name, folder / name)
    argv = [*PIP, "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    env = {**os.environ, **({"CC": compiler} if compiler else {})}
    subprocess.run(
        [*argv, "--wheel-dir", "dist", "."], cwd=folder, env=env, timeout=120, check=True
    )
    (made,) = (folder / "dist").iterdir()
    return made
