"""The programs that an agent needs: where they are, and whether this machine can run them."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from cnibench.clusters.lab.daemons.processes import MACHINES
from cnibench.errors import ClusterError, InputError, LimitError, MissingError
from cnibench.system import process

_PLUGINS = ("/opt/cni/bin", "/usr/lib/cni", "/usr/libexec/cni")
_LIMIT = 30.0  # s
# <elf.h>: the size of a 64-bit file's header and program header, e_ident[EI_CLASS], p_type
_ELF_HEADER, _PROGRAM_HEADER, _64_BIT, _INTERP = 64, 56, 2, 3
_PATH_MAX = 4096  # bytes
_VERSION = re.compile(r"v?\d+\.\d+(?:\.\d+)?(?:[-+.][\w.+-]+)?")


def check(path: Path, name: str = "") -> Path:
    """The same path, absolute, when it is a program for this machine; ``name`` is what messages
    call it. Raises InputError, and MissingError when it is for another.
    """
    name = name or str(path)
    if not path.exists():
        raise InputError(f"{name}: there is no such program", "check the path")
    if path.is_dir():
        raise InputError(f"{name}: a folder, not a program", "name the program in it")
    if not os.access(path, os.X_OK):
        raise InputError(f"{name}: not executable", f"chmod +x {path}")
    with path.open("rb") as file:
        head = file.read(_ELF_HEADER)
        if head[:4] == b"\x7fELF" and len(head) == _ELF_HEADER:
            _check_elf(file, head, name)
        elif head[:2] != b"#!":
            raise InputError(f"{name}: not a program: no ELF header", "is this the right file?")
    return path.absolute()


def _check_elf(file: IO[bytes], head: bytes, name: str) -> None:
    order = "<" if head[5] == 1 else ">"
    (machine,) = struct.unpack_from(f"{order}H", head, 18)
    here = os.uname().machine
    if MACHINES.get(here, machine) != machine:
        names = {number: known for known, number in MACHINES.items()}
        raise MissingError(
            f"{name}: for another architecture ({names.get(machine, machine)}, this is {here})",
            f"get the program for {here}",
        )
    loader = _loader(file, head, order)
    if loader and not Path(loader).exists():
        raise MissingError(
            f"{name}: it needs the loader {loader}, which this machine does not have",
            "get a program that is linked statically, or made for this distribution",
        )


def _loader(file: IO[bytes], head: bytes, order: str) -> str:
    """The path of the dynamic loader that a 64-bit program names (PT_INTERP); '': none."""
    if head[4] != _64_BIT:
        return ""
    start, size, number = (
        struct.unpack_from(f"{order}{kind}", head, place)[0]
        for kind, place in (("Q", 32), ("H", 54), ("H", 56))
    )
    with contextlib.suppress(OSError, OverflowError):  # it points nowhere: the kernel will say so
        for index in range(number):
            file.seek(start + index * size)
            entry = file.read(_PROGRAM_HEADER)
            if len(entry) == _PROGRAM_HEADER and entry[:4] == struct.pack(f"{order}I", _INTERP):
                place, length = (struct.unpack_from(f"{order}Q", entry, at)[0] for at in (8, 32))
                file.seek(place)
                return file.read(min(length, _PATH_MAX)).rstrip(b"\0").decode(errors="replace")
    return ""


def found(name: str, folders: Sequence[Path], remedy: str) -> Path:
    """The program of that name in one of the folders, or where programs are. Raises MissingError,
    and as ``check``.
    """
    for folder in folders:
        if (folder / name).exists():
            return check(folder / name)
    if there := shutil.which(name):
        return check(Path(there))
    raise MissingError(f"the program {name} is not here", remedy)


def plugins(names: Sequence[str], folders: Sequence[Path]) -> Path:
    """The folder that has all of these CNI plugins. Raises MissingError."""
    places = [*folders, *(folder / "cni" for folder in folders), *map(Path, _PLUGINS)]
    for folder in places:
        if all((folder / name).exists() for name in names):
            for name in names:
                check(folder / name)
            return folder.absolute()
    raise MissingError(
        f"no folder has the CNI plugins {', '.join(names)}",
        "name one with --programs; the CNI's own image has them, or"
        " github.com/containernetworking/plugins",
    )


def sha256(path: Path) -> str:
    """Of a file, hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def version(argv: Sequence[str]) -> str:
    """As the program prints it; 'unknown' when it prints none."""
    try:
        done = process.run(argv, timeout=_LIMIT, check=False)
    except (ClusterError, LimitError):
        return "unknown"
    match = _VERSION.search(done.stdout + "\n" + done.stderr)
    return match[0] if match else "unknown"
