"""The modules beside this file, for the tests; and the bytecode of cnibench, which each of hundreds
of commands would compile again where Python is told to write none.
"""

from __future__ import annotations

import compileall
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))


def pytest_configure() -> None:
    package = Path(__file__).parents[2] / "src" / "cnibench"
    for folder in (package, *(path for path in package.iterdir() if path.is_symlink())):
        compileall.compile_dir(folder.resolve(), quiet=1)
