"""Programs that build: with a limit, and with their own words in the error."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path


class Failed(RuntimeError):
    """A program that ended otherwise than well."""


def run(
    *argv: str | Path,
    limit: float = 1800,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    stdin: int | None = None,
) -> str:
    """Its standard output; `env` is added to ours. Raises Failed with the end of what it said."""
    words = [str(word) for word in argv]
    try:
        done = subprocess.run(
            words,
            env={**os.environ, **(env or {})},
            cwd=cwd,
            stdin=stdin or subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=limit,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Failed(f"{' '.join(words)}: not done after {limit:.0f} s") from None
    if done.returncode:
        said = "\n".join((done.stdout + done.stderr).splitlines()[-40:])
        raise Failed(f"{' '.join(words)}: exit status {done.returncode}\n{said}")
    return done.stdout
