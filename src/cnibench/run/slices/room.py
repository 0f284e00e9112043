"""Memory and descriptors for the load generators of a block, which all exist at the same time."""

from __future__ import annotations

import resource

from cnibench.errors import MissingError, UsageError
from cnibench.system import memory

_MEMORY = 16 << 20  # bytes that a cell's client, server and socket buffers take, about
_FILES = 16  # descriptors of a cell


def require(cells: int) -> None:
    """Raises UsageError when the load generators of all cells have no room in memory, MissingError
    when they need more descriptors than this process may have.
    """
    available = memory.available()
    if cells * _MEMORY > available:
        raise UsageError(
            f"{cells} cells have a load generator each, which take about"
            f" {cells * _MEMORY >> 20} MiB; {available >> 20} MiB are free",
            "measure fewer profiles or workloads at once, or use --method windows",
        )
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = cells * _FILES + 256
    if hard != resource.RLIM_INFINITY and needed > hard:
        raise MissingError(
            f"{cells} cells need {needed} open files, and the limit is {hard}",
            "raise the limit (ulimit -Hn), or measure fewer cells at once",
        )
    if soft != resource.RLIM_INFINITY and needed > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
