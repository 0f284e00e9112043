"""What is sent to a machine: cnibench's own modules, and the libraries that its lab uses."""

from __future__ import annotations

import importlib.util
import io
import platform
import sys
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import cnibench
from cnibench.errors import MissingError

LIBRARIES = (
    "pydantic",
    "pydantic_core",
    "annotated_types",
    "typing_extensions",
    "typing_inspection",
    "msgspec",
    "yaml",
    "pyroute2",
)
_OLDEST = (3, 11)
_SENT = (".py", ".json", ".yaml", ".o", ".so", ".elf")
_LEFT_OUT = {"__pycache__", "reports", "cli", "tests", "testing"}


@dataclass(frozen=True)
class Interpreter:
    """One of a machine. ``folder`` has the libraries, '' where it has not all of them."""

    path: str
    version: tuple[int, int]
    machine: str
    folder: str


def interpreters(output: str) -> list[Interpreter]:
    """Out of what scripts/lab.sh prints."""
    found = []
    for line in output.splitlines():
        key, _, value = line.partition("=")
        words = value.split()
        if key == "python" and len(words) == 4:
            one, two = (int(word) for word in words[1].split(".", 1))
            folder = "" if words[3] == "-" else words[3]
            found.append(Interpreter(words[0], (one, two), words[2], folder))
    return found


def chosen(found: Sequence[Interpreter]) -> Interpreter:
    """The one that can run what is sent. Raises MissingError."""
    here = (sys.version_info[:2], platform.machine())
    for one in found:
        if one.version >= _OLDEST and one.folder:
            return one
    for one in found:
        if (one.version, one.machine) == here:
            return one
    own = ".".join(map(str, here[0]))
    there = ", ".join(sorted({".".join(map(str, one.version)) for one in found})) or "none"
    raise MissingError(
        f"the lab needs Python {own}, as on this machine, or a later one with cnibench's libraries;"
        f" there is {there}",
        f"apt-get install python{own}, or pipx install --global cnibench, on the machine",
    )


@cache
def archive(libraries: bool) -> bytes:
    """A tar archive with its size in front, as clusters/lab/remote/boot.py reads it."""
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w:gz", compresslevel=4) as file:
        for name in ("cnibench", *(LIBRARIES if libraries else ())):
            for path, inside in _files(name):
                file.add(path.resolve(), inside, recursive=False)
    return f"{whole.tell():08d}".encode() + whole.getvalue()


def _files(name: str) -> Iterator[tuple[Path, str]]:
    """Those of a module, and where they are in the archive."""
    if name == "cnibench":
        root = Path(cnibench.__file__).parent
    else:
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            raise MissingError(f"{name} is not installed", "pip install cnibench")
        root = Path(spec.origin)
        if root.name != "__init__.py":
            yield root, root.name
            return
        root = root.parent
    yield from _below(root, name)


def _below(folder: Path, inside: str) -> Iterator[tuple[Path, str]]:
    for path in sorted(folder.iterdir()):
        if path.name in _LEFT_OUT:
            continue
        if path.is_dir():
            yield from _below(path, f"{inside}/{path.name}")
        elif path.suffix in _SENT:
            yield path, f"{inside}/{path.name}"
