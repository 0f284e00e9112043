"""How much memory programs can have."""

from __future__ import annotations

from pathlib import Path


def available() -> int:
    """Bytes that they can have without swapping (MemAvailable, proc(5)); beyond all bounds where
    the kernel does not say.
    """
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) << 10
    return 1 << 62
