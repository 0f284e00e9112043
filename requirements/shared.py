"""Installs the packages of a lock file once for all of tox's environments that use that file.

tox.ini calls it in place of ``pip install`` with pip's options and ``-r requirements/NAME.lock``.
The packages get a folder beside the environments; each environment has a line that leads there.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path


def main(arguments: list[str]) -> None:
    lock = Path(arguments[arguments.index("-r") + 1])
    identity = hashlib.sha256(lock.read_bytes() + sys.version.encode()).hexdigest()[:12]
    folder = Path(sys.prefix).parent / f"packages-{lock.stem}-{identity}"
    with Path(f"{folder}.lock").open("w") as file:  # environments run in parallel
        fcntl.flock(file, fcntl.LOCK_EX)
        if not folder.is_dir():
            _install(arguments, folder)
    (Path(sysconfig.get_path("purelib")) / "shared.pth").write_text(f"{folder}\n")


def _install(arguments: list[str], folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        made = Path(scratch) / "packages"
        words = [
            sys.executable,
            "-I",
            "-m",
            "pip",
            "install",
            "--no-compile",
            "--target",
            str(made),
        ]
        # Bytecode is written by what imports it: most of it is never imported.
        # pip moves what it has unpacked: a rename if it is on the same file system.
        subprocess.run([*words, *arguments], env={**os.environ, "TMPDIR": scratch}, check=True)
        made.rename(folder)


if __name__ == "__main__":
    main(sys.argv[1:])
