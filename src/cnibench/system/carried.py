"""Modules of cnibench that run on other machines: sent as an archive, imported from memory.

They may import nothing but the standard library and each other.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

_ROOT = Path(__file__).parents[1]
# The beginning of a program that reads the rest of itself from standard input: r(n), n bytes.
READ = """\
import os
def r(n):
 b = b""
 while len(b) < n:
  c = os.read(0, n - len(b))
  if not c: raise SystemExit(1)
  b += c
 return b
"""
# Reads so many bytes (8 digits, then the program) and runs them.
RUN = f'{READ}exec(compile(r(int(r(8))), "cnibench", "exec"))\n'
# Reads so many bytes (8 digits, then the archive) and runs the module that its argument names.
BOOT = f"""{READ}\
import runpy, sys
f = os.memfd_create("cnibench")
a = r(int(r(8)))
while a: a = a[os.write(f, a):]
sys.path.insert(0, "/proc/%d/fd/%d" % (os.getpid(), f))
runpy.run_module(sys.argv[1], run_name="__main__")
"""


def command(python: str, main: str) -> list[str]:
    """Runs the module ``main`` of an archive that comes first on standard input."""
    return [python, "-I", "-S", "-u", "-c", BOOT, main]


@cache
def archive(modules: Sequence[str]) -> bytes:
    """These modules (``run.slices.engine``) with the packages that they are in, and their size in
    front.
    """
    paths = {_ROOT / "__init__.py"}
    for module in modules:
        path = _ROOT.joinpath(*module.split("."))
        paths.add(path / "__init__.py" if path.is_dir() else path.with_suffix(".py"))
        paths |= {folder / "__init__.py" for folder in path.parents if folder.is_relative_to(_ROOT)}
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as file:
        for path in sorted(paths):
            file.writestr(f"cnibench/{path.relative_to(_ROOT)}", path.read_bytes())
    return f"{whole.tell():08d}".encode() + whole.getvalue()
