"""Python modules of the host for the guest, as compiled code in one piece: nothing is looked for,
opened or compiled there.

Under emulation an import costs far more for its dozens of file system calls over 9p than for its
code, and a host that keeps no bytecode (PYTHONDONTWRITEBYTECODE) would have every file of ours
compiled by the emulated processor. What is not in it is imported as usual.
"""

from __future__ import annotations

import marshal
import sys
from collections.abc import Iterator
from importlib.machinery import ExtensionFileLoader, SourceFileLoader
from pathlib import Path
from types import ModuleType


def pack(package: ModuleType) -> bytes:
    """Every module that this process has imported, and all of ``package``.

    For ``preload``: the marshalled pair (sys.path, {module: (file, marshalled code, or b"" for an
    extension module)}).
    """
    found = {
        name: entry for name, module in list(sys.modules.items()) if (entry := _imported(module))
    }
    for name, file in _below(package):
        if name not in found:
            found[name] = (str(file), _code(name, file))
    return marshal.dumps((sys.path, found))


def _imported(module: ModuleType) -> tuple[str, bytes] | None:
    """Its entry; None for what the interpreter has built in or frozen, and for what came from no
    file.
    """
    spec = getattr(module, "__spec__", None)
    if spec is None or not spec.origin:
        return None
    if type(spec.loader) is ExtensionFileLoader:
        return spec.origin, b""
    return (
        (spec.origin, _code(spec.name, Path(spec.origin)))
        if type(spec.loader) is SourceFileLoader
        else None
    )


def _code(name: str, file: Path) -> bytes:
    return marshal.dumps(SourceFileLoader(name, str(file)).get_code(name))


def _below(package: ModuleType) -> Iterator[tuple[str, Path]]:
    (root,) = package.__path__
    for name, folder in _packages(package.__name__, Path(root)):
        for file in sorted(folder.glob("*.py")):
            yield (name if file.stem == "__init__" else f"{name}.{file.stem}"), file


def _packages(name: str, folder: Path) -> Iterator[tuple[str, Path]]:
    yield name, folder
    for inner in sorted(folder.iterdir()):
        if (inner / "__init__.py").is_file():
            yield from _packages(f"{name}.{inner.name}", inner)
