"""In the guest: imports out of a bundle in memory, before anything is looked for in files.

The bundle (bundle.py) lies in the first stage's archive and is inherited as an open file, which
outlives the change of the root. This module is run before any other: it may import only what the
interpreter has frozen in it.
"""

from __future__ import annotations

import gc
import marshal
import sys
from importlib.machinery import ExtensionFileLoader, ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location

MYPY = False
if MYPY:
    from types import CodeType

# the bundle, open for reading, in the guest's first Python process and in the command that it runs
FD = 3
NAME = "cnibench.vm.preload"
# Asked for in vain by the standard library, which looks through every folder for them.
_OF_OTHER_SYSTEMS = frozenset(("_winapi", "msvcrt", "nt", "winreg"))
# allocations between two collections: with the usual 700 a tenth of the imports' time goes into
# them
_GARBAGE = 100_000

_START = f"""
import marshal, sys
with open({FD}, "rb", closefd=False) as file:
    file.seek(0)
    path, bundle = marshal.load(file)
preload = type(sys)("preload")
exec(marshal.loads(bundle["{NAME}"][1]), preload.__dict__)
preload.install(path, bundle)
"""


def command(program: str, *arguments: str) -> list[str]:
    """The command line that runs ``program`` (Python source) in the guest with the bundle's
    modules; ``-S``: the bundle brings sys.path.
    """
    return [sys.executable, "-S", "-c", _START + program, *arguments]


def install(path: list[str], bundle: dict[str, tuple[str, bytes]]) -> None:
    """The host's sys.path, and the bundle (module -> file, marshalled code or b"" for an extension)
    before what is found there.
    """
    gc.set_threshold(_GARBAGE)
    sys.path[:] = path
    sys.meta_path.insert(0, _Finder(bundle))


class _Finder:
    def __init__(self, bundle: dict[str, tuple[str, bytes]]) -> None:
        self._bundle = bundle

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        entry = self._bundle.get(name)
        if entry is None:
            if name in _OF_OTHER_SYSTEMS:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)
            return None
        file, code = entry
        return spec_from_file_location(
            name,
            file,
            loader=_Loader(name, file, code) if code else ExtensionFileLoader(name, file),
        )


class _Loader(SourceFileLoader):
    """As from the file, its source and its data files included, but for the code."""

    def __init__(self, name: str, file: str, code: bytes) -> None:
        super().__init__(name, file)
        self._code = code

    def get_code(self, fullname: str) -> CodeType:
        found: CodeType = marshal.loads(self._code)
        return found
