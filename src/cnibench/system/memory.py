"""How much memory programs can have."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_GROUPS, _OWN = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
# Limit, use, and what of it the kernel gives up before it kills (a word of memory.stat): cgroup
# version 2, version 1.
_FILES = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)


def of_machine() -> int:
    """Bytes that programs of any cgroup can have without swapping (MemAvailable, proc(5)); beyond
    all bounds where the kernel does not say.
    """
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) << 10
    return 1 << 62


def available() -> int:
    """The same of our programs: at most what the limits of our cgroups leave."""
    free = of_machine()
    with suppress(FileNotFoundError):  # a kernel without cgroups
        free = min([free, *left(_GROUPS, _OWN.read_text(encoding="utf-8"))])
    return free


def left(root: Path, groups: str) -> Iterator[int]:
    """What each limit leaves of our cgroup and of those above it, mounted at ``root``. ``groups``
    as in /proc/PID/cgroup, whose paths a container may not see: its own cgroup is the root there.
    """
    for line in groups.splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        own = root / (controllers or "unified")
        own = own if own.is_dir() else root
        steps = path.strip("/").split("/")
        for depth in range(len(steps), -1, -1):
            yield from _left(own.joinpath(*steps[:depth]))


def _left(group: Path) -> Iterator[int]:
    for limit, use, spare in _FILES:
        with suppress(OSError, ValueError):  # there is none, or its limit is the word max
            most, used = (int((group / name).read_text()) for name in (limit, use))
            words = (line.split() for line in (group / "memory.stat").read_text().splitlines())
            yield max(0, most - used + int(dict(words).get(spare, 0)))
