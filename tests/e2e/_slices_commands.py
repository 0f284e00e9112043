"""``cnibench run --method slices`` of one profile under two labels, and its processes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from _commands import PROGRAM

MARK = "CNIBENCH_SLICES_TEST"


def command(out: Path, *more: str) -> list[str]:
    plain = ["--method", "slices", "--no-perf", "--placement", "inter", "--out", str(out)]
    return [*PROGRAM, "run", "--cni", "a=veth-baseline", "--cni", "b=veth-baseline", *plain, *more]


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def marked(mark: str) -> list[int]:
    """Processes that were started by a command with that mark in its environment."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={mark}".encode() in (path / "environ").read_bytes().split(b"\0"):
                found.append(int(path.name))
        except OSError:
            continue
    return found
