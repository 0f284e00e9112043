"""The programs that an agent needs: where they are, and whether this machine can run them."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import struct
from collections.abc import Sequence
from pathlib import Path

from cnibench.clusters.lab.daemons.processes import MACHINES
from cnibench.errors import ClusterError, InputError, LimitError, MissingError
from cnibench.system import process

_PLUGINS = ("/opt/cni/bin", "/usr/lib/cni", "/usr/libexec/cni")
_LIMIT = 30.0  # s
_VERSION = re.compile(r"v?\d+\.\d+(?:\.\d+)?(?:[-+.][\w.+-]+)?")


def check(path: Path) -> Path:
    """The same path, absolute, when it is a program for this machine. Raises InputError, and
    MissingError when it is for another.
    """
    if not path.exists():
        raise InputError(f"{path}: there is no such program", "check the path")
    if path.is_dir():
        raise InputError(f"{path}: a folder, not a program", "name the program in it")
    if not os.access(path, os.X_OK):
        raise InputError(f"{path}: not executable", f"chmod +x {path}")
    with path.open("rb") as file:
        head = file.read(20)
    if head[:4] == b"\x7fELF" and len(head) == 20:
        order = "<" if head[5] == 1 else ">"
        machine = struct.unpack_from(f"{order}H", head, 18)[0]
        here = os.uname().machine
        if MACHINES.get(here, machine) != machine:
            names = {number: name for name, number in MACHINES.items()}
            raise MissingError(
                f"{path}: for another architecture ({names.get(machine, machine)}, this is {here})",
                f"get the program for {here}",
            )
    elif head[:2] != b"#!":
        raise InputError(f"{path}: not a program: no ELF header", "is this the right file?")
    return path.absolute()


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
