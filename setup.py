"""Compiles the programs of clusters/lab when cnibench is built (wheel, sdist, editable): bpf/*.c
with clang for eBPF, programs/*.c with cc.

What is made is shipped, so that users need no compiler, and is not in git. Each one carries the
digest of the sources that it was made from: one that is up to date needs no compiler.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sysconfig
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

_LAB = (
    Path(__file__).parent / "src" / "cnibench" / "clusters" / "lab"
)  # the same in a checkout and in an sdist
FOLDER, NATIVE = _LAB / "bpf", _LAB / "programs"
WARNINGS = ("-Wall", "-Wextra", "-Werror", "-Wno-missing-field-initializers")


def digest(source: Path) -> str:
    """Of a program's source and all headers beside it."""
    sha = hashlib.sha256()
    for path in (source, *sorted(source.parent.glob("*.h"))):
        sha.update(path.name.encode() + b"\0" + path.read_bytes())
    return sha.hexdigest()


def clang() -> str | None:
    """$CLANG, or the newest clang in the path."""
    names = [
        os.environ.get("CLANG", ""),
        "clang",
        *(f"clang-{version}" for version in range(30, 10, -1)),
    ]
    return next((found for name in names if name and (found := shutil.which(name))), None)


def compile_programs(folder: Path = FOLDER) -> list[Path]:
    """The objects of all programs in ``folder``, made where missing or old. Ends with a message
    when there is no clang for that.
    """
    objects = []
    for source in sorted(folder.glob("*.c")):
        target = source.with_suffix(".o")
        objects.append(target)
        wanted = digest(source)
        if target.exists() and wanted.encode() in target.read_bytes():
            continue
        compiler = clang()
        if compiler is None:
            raise SystemExit(
                f"cnibench: {target.name} must be compiled from {source.name}, and there is no"
                " clang: apt-get install clang linux-libc-dev"
            )
        options = ["-target", "bpf", "-mcpu=v3", "-O2", "-std=gnu11"]
        multiarch = sysconfig.get_config_var("MULTIARCH") or ""
        include = ["-idirafter", f"/usr/include/{multiarch}", "-c"]
        _compile([compiler, *options, *WARNINGS], include, source, target, "linux-libc-dev")
    return objects


def compile_native(folder: Path = NATIVE) -> list[Path]:
    """The programs of user space in ``folder``, made where missing or old, static so that any
    distribution runs them.
    """
    programs = []
    for source in sorted(folder.glob("*.c")):
        target = source.with_suffix(".elf")
        programs.append(target)
        wanted = digest(source)
        if target.exists() and wanted.encode() in target.read_bytes():
            continue
        compiler = next(
            (
                found
                for name in (os.environ.get("CC", ""), "cc", "gcc", "clang")
                if name and (found := shutil.which(name))
            ),
            None,
        )
        if compiler is None:
            raise SystemExit(
                f"cnibench: {target.name} must be compiled from {source.name}, and there is no cc:"
                " apt-get install gcc libc6-dev"
            )
        options = ["-O2", "-static", "-std=gnu11"]
        _compile([compiler, *options, *WARNINGS], [], source, target, "libc6-dev")
    return programs


def _compile(
    compiler: list[str], more: list[str], source: Path, target: Path, package: str
) -> None:
    """Makes ``target``, whole or not at all. ``package`` has the headers that it needs."""
    made = target.with_suffix(f".{os.getpid()}.tmp")
    argv = [*compiler, f'-DSOURCES="{digest(source)}"', *more, str(source), "-o", str(made)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120)
    if done.returncode:
        made.unlink(missing_ok=True)
        raise SystemExit(
            f"cnibench: {source.name} does not compile (is {package} installed?):\n{done.stderr}"
        )
    made.replace(target)


class BuildPy(build_py):
    def run(self) -> None:
        compile_programs()
        compile_native()
        super().run()


class Sdist(sdist):
    def run(self) -> None:
        compile_programs()
        compile_native()
        super().run()


if __name__ == "__main__":
    setup(cmdclass={"build_py": BuildPy, "sdist": Sdist})
