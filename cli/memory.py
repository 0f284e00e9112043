"""Refuses to load a compiled library where a limit of memory leaves it too little: such a library
ends the process or waits for ever, and no error of Python's is raised.
"""

from __future__ import annotations

import re
import resource
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

from cnibench.errors import MissingError

# MB of address space and of data that the import and the first use of a library took, rounded up:
# VmPeak and VmData in /proc/self/status on x86-64 with numpy 2.4 (one BLAS thread), scipy 1.17,
# DuckDB 2.0 and vl-convert 1.9. That of numpy includes scipy.special and a report of a small run:
# 'ulimit -v 210000' is the least with which 'cnibench report' made one.
_NEEDS = {
    "numpy": (190, 110),
    "scipy.stats": (80, 40),
    "duckdb": (1_000, 200),
    "vl_convert": (70_000, 750),  # address space that V8 reserves; it uses hardly any
}
_LIMITS = (
    (resource.RLIMIT_AS, "VmSize", "ulimit -v"),
    (resource.RLIMIT_DATA, "VmData", "ulimit -d"),
)
_NO_MEMORY = ("failed to map segment", "Cannot allocate memory", "cannot allocate memory")


class MemoryCheck(MetaPathFinder):
    """Finds no module; raises MissingError when there is no room for the one that is imported."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname in _NEEDS:
            check(fullname)
        return None


def install() -> None:
    """Before anything that uses one of the libraries is imported."""
    if not any(isinstance(finder, MemoryCheck) for finder in sys.meta_path):
        sys.meta_path.insert(0, MemoryCheck())


def check(library: str) -> None:
    """Raises MissingError when a limit of this process leaves less than ``library`` needs."""
    for needed, (limit, used, option) in zip(_NEEDS[library], _LIMITS, strict=True):
        most, _ = resource.getrlimit(limit)
        if most == resource.RLIM_INFINITY:
            continue
        left = max(0, most // 1_000_000 - _megabytes(used))
        if left < needed:
            raise MissingError(
                f"'{option}' leaves {left:,} MB of memory, and {library} needs {needed:,} MB",
                f"'{option} unlimited', or run this where memory is not limited",
            )


def is_lack_of_memory(error: BaseException) -> bool:
    """Was it raised because there was no memory, or because of an error that was?"""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, MemoryError) or type(seen).__name__ == "OutOfMemoryException":
            return True
        if isinstance(seen, ImportError) and any(words in str(seen) for words in _NO_MEMORY):
            return True
        seen = seen.__cause__ or seen.__context__
    return False


def _megabytes(name: str) -> int:
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    found = re.search(rf"^{name}:\s+(\d+) kB", status, re.MULTILINE)
    return int(found[1]) * 1024 // 1_000_000 if found else 0
