"""The wheel for the other architecture of a release: made by a cross compiler, installed, and run
by qemu's user-mode emulation with Debian's Python of that architecture.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from pathlib import Path

import _tunnelled
import pytest
from _wheel import PIP, ROOT, build
from kind.roots import SUITE

from cnibench import __version__

MACHINE, DEBIAN = {"x86_64": ("aarch64", "arm64"), "aarch64": ("x86_64", "amd64")}[
    platform.machine()
]
QEMU = f"qemu-{MACHINE}"
PYTHON = ("python3.11-minimal", "libpython3.11-stdlib", "libstdc++6")
GLIBC = ("2_17", "2_24", "2_27", "2_28")  # of Debian's suite, and what the lock's wheels ask for
LIMIT = 240  # s: emulated, beside other tests

pytestmark = pytest.mark.timeout(2 * LIMIT)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = f"{MACHINE.replace('_', '-')}-linux-gnu-gcc"
    return build(tmp_path_factory.mktemp("wheel"), compiler)


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Debian's Python of the architecture, unpacked."""
    folder = tmp_path_factory.mktemp("system")
    options = ["--quiet", "--mode=root", "--variant=extract", f"--architectures={DEBIAN}"]
    argv = ["mmdebstrap", *options, f"--include={','.join(PYTHON)}", SUITE, str(folder)]
    subprocess.run(argv, timeout=LIMIT, check=True)
    return folder


@pytest.fixture(scope="module")
def packages(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel and what it requires, as pip installs them there: all for the architecture."""
    folder = tmp_path_factory.mktemp("packages")
    tags = [f"--platform=manylinux_{version}_{MACHINE}" for version in (*GLIBC, "2_34")]
    tags += [f"--platform=manylinux2014_{MACHINE}", "--python-version=3.11", "--implementation=cp"]
    # pip's cache is of use here: a hundred megabytes.
    pip = [word for word in PIP if word != "--no-cache-dir"]
    argv = [*pip, "install", "--quiet", "--no-compile", "--only-binary=:all:", *tags]
    argv += ["--target", str(folder)]
    lock = ["--require-hashes", "-r", str(ROOT / "requirements" / "cnibench.lock")]
    subprocess.run([*argv, *lock], timeout=LIMIT, check=True)
    subprocess.run([*argv, "--no-deps", "--no-index", str(wheel)], timeout=60, check=True)
    return folder


def emulated(system: Path, packages: Path, *arguments: str) -> str:
    """What cnibench prints there."""
    python = system / "usr" / "bin" / "python3.11"
    start = "from cnibench.cli.main import main; main()"
    done = subprocess.run(
        [QEMU, "-L", system, python, "-B", "-c", start, *arguments],
        cwd=system,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(packages)},
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_its_tag_names_the_architecture(wheel: Path) -> None:
    assert wheel.name == f"cnibench-{__version__}-py3-none-manylinux_2_17_{MACHINE}.whl"


def test_it_starts(system: Path, packages: Path) -> None:
    assert emulated(system, packages, "--version") == f"cnibench, version {__version__}\n"


def test_it_recomputes_a_bundle(system: Path, packages: Path) -> None:
    """With numpy, scipy and msgspec of that architecture, to the last digit."""
    bundle = ROOT / "tests" / "golden" / "bundle" / "quick.cnibench"
    assert "all 135 figures follow from the samples" in emulated(
        system, packages, "verify", str(bundle)
    )


def test_its_programs_run(packages: Path, tmp_path: Path) -> None:
    programs = packages.glob("cnibench/clusters/lab/programs/*.elf")
    copies = {path.stem: shutil.copy(path, tmp_path / path.stem) for path in programs}
    assert set(copies) == {path.stem for path in ROOT.glob("clusters/lab/programs/*.c")}
    for path in copies.values():
        Path(path).chmod(0o755)
        done = subprocess.run([QEMU, path], capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stderr[:7]) == (2, "usage: ")
    argv = ["unshare", "--net", "python3", "-I", _tunnelled.__file__, QEMU, copies["flannel_udp"]]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("10.9.2.7 63 a datagram\n", "")
