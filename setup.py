"""Compiles the programs of clusters/lab when cnibench is built (wheel, sdist, editable): bpf/*.c
with clang for eBPF, programs/*.c with cc. Makes the manual pages (release/man.py).

What is made is shipped, so that users need no compiler, and is not in git. Each one carries the
digest of the sources that it was made from: one that is up to date needs no compiler. The programs
of cc are for one architecture: a wheel has them and its tag names the architecture, an sdist
does not have them (MANIFEST.in).
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

_ROOT = Path(__file__).parent
_LAB = _ROOT / "src" / "cnibench" / "clusters" / "lab"  # the same in a checkout and in an sdist
FOLDER, NATIVE = _LAB / "bpf", _LAB / "programs"
_MANUAL = Path("build", "man")
_MACHINES = {62: "x86_64", 183: "aarch64"}  # e_machine in elf.h
# Of the programs: they are static, and any Linux runs them.
_MANYLINUX = "manylinux_2_17"
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


def architecture(program: Path) -> str:
    """That a program is for, as platform.machine() names it; empty if it is none of ours."""
    return _MACHINES.get(int.from_bytes(program.read_bytes()[18:20], "little"), "")


def _target(compiler: str | None) -> str:
    """The architecture that a compiler makes programs for; without one, that of this machine."""
    if compiler is None:
        return platform.machine()
    argv = [compiler, "-dumpmachine"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=20, check=True)
    return done.stdout.partition("-")[0]


def compile_native(folder: Path = NATIVE) -> list[Path]:
    """The programs of user space in ``folder``, made where missing, old or for another
    architecture, static so that any distribution runs them. $CC names a cross compiler.
    """
    names = (os.environ.get("CC", ""), "cc", "gcc", "clang")
    compiler = next((found for name in names if name and (found := shutil.which(name))), None)
    machine = _target(compiler)
    programs = []
    for source in sorted(folder.glob("*.c")):
        target = source.with_suffix(".elf")
        programs.append(target)
        wanted = digest(source)
        if (
            target.exists()
            and wanted.encode() in target.read_bytes()
            and architecture(target) in ("", machine)
        ):
            continue
        if compiler is None:
            raise SystemExit(
                f"cnibench: {target.name} must be compiled from {source.name}, and there is no cc:"
                " apt-get install gcc libc6-dev"
            )
        options = ["-O2", "-static", "-std=gnu11", "-pthread"]
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


def make_manual() -> list[str]:
    """The manual pages, relative to the folder of this file."""
    argv = [sys.executable, str(_ROOT / "release" / "man.py"), str(_ROOT / _MANUAL)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise SystemExit(f"cnibench: no manual pages:\n{done.stderr}")
    return sorted(str(_MANUAL / path.name) for path in (_ROOT / _MANUAL).glob("*.1"))


class BuildPy(build_py):
    def run(self) -> None:
        compile_programs()
        compile_native()
        self.distribution.data_files = [("share/man/man1", make_manual())]
        super().run()


class Sdist(sdist):
    def run(self) -> None:
        compile_programs()
        super().run()


class BdistWheel(bdist_wheel):
    def get_tag(self) -> tuple[str, str, str]:
        """Any Python 3, and the architecture that the programs in the wheel are for."""
        found = {architecture(program) for program in compile_native()}
        if len(found) != 1 or "" in found:
            return "py3", "none", super().get_tag()[2]
        return "py3", "none", f"{_MANYLINUX}_{found.pop()}"


class WithPrograms(Distribution):
    def has_ext_modules(self) -> bool:
        """So that setuptools takes the wheel for one of a platform."""
        return True


if __name__ == "__main__":
    setup(
        distclass=WithPrograms,
        cmdclass={"build_py": BuildPy, "sdist": Sdist, "bdist_wheel": BdistWheel},
    )
