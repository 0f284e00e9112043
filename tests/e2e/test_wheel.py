"""A wheel, built as a user builds it, works in an empty environment without the repository."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from _wheel import PIP, ROOT, build

from cnibench import __version__


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel, and beside it the packages of the tests' environment."""
    home = tmp_path_factory.mktemp("installed") / "venv"
    subprocess.run(
        [sys.executable, "-I", "-m", "venv", "--without-pip", home], timeout=60, check=True
    )
    options = ["install", "--quiet", "--no-deps", "--no-index", "--no-compile"]
    argv = [*PIP, "--python", str(home / "bin" / "python"), *options, str(wheel)]
    subprocess.run(argv, timeout=60, check=True)
    (packages,) = (home / "lib").glob("python*/site-packages")
    (packages / "beside.pth").write_text(f"{metadata.distribution('click').locate_file('')}\n")
    return home


def run(
    home: Path, program: str, *arguments: str, folder: Path
) -> subprocess.CompletedProcess[str]:
    """In an empty folder, with nothing of the tests' environment."""
    env = {key: os.environ[key] for key in ("HOME", "LANG") if key in os.environ}
    env |= {"PATH": f"{home / 'bin'}:/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [home / "bin" / program, *arguments],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_its_tag_names_the_architecture_of_the_programs_in_it(wheel: Path) -> None:
    machine = platform.machine()
    assert wheel.name == f"cnibench-{__version__}-py3-none-manylinux_2_17_{machine}.whl"
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (about,) = (name for name in names if name.endswith(".dist-info/WHEEL"))
        assert "Root-Is-Purelib: false" in archive.read(about).decode()
    programs = [name for name in names if name.endswith((".elf", ".o"))]
    sources = [*ROOT.glob("clusters/lab/bpf/*.c"), *ROOT.glob("clusters/lab/programs/*.c")]
    assert {Path(name).stem for name in programs} == {path.stem for path in sources}
    assert not [name for name in names if name.startswith(("tests/", "release/", "setup"))]


def test_it_works_in_an_empty_folder(installed: Path, tmp_path: Path) -> None:
    where = "import cnibench; print(cnibench.__file__)"
    assert run(installed, "python", "-c", where, folder=tmp_path).stdout.startswith(str(installed))

    version = run(installed, "cnibench", "--version", folder=tmp_path)
    assert (version.stdout, version.stderr) == (f"cnibench, version {__version__}\n", "")
    profiles = run(installed, "cnibench", "profiles", folder=tmp_path)
    assert (profiles.returncode, profiles.stderr) == (0, "")
    assert {"flannel", "cilium", "calico-wp-ipip"} <= set(profiles.stdout.split())
    doctor = run(installed, "cnibench", "doctor", folder=tmp_path)
    assert (doctor.returncode in (0, 3), doctor.stderr) == (True, "")
    assert "flannel" in doctor.stdout
    plan = run(installed, "cnibench", "run", "--plan", "quick", "--dry-run", folder=tmp_path)
    assert plan.returncode == 0, plan.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_program_in_it_runs(installed: Path, tmp_path: Path) -> None:
    (program,) = installed.glob("lib/python3*/site-packages/cnibench/**/flannel_udp.elf")
    shutil.copyfile(program, tmp_path / "flannel_udp")
    (tmp_path / "flannel_udp").chmod(0o755)
    done = subprocess.run([tmp_path / "flannel_udp"], capture_output=True, text=True, timeout=20)
    assert (done.returncode, done.stderr[:7]) == (2, "usage: ")


def test_kubectl_finds_it_as_a_plugin(installed: Path, tmp_path: Path) -> None:
    usage = run(installed, "kubectl-cnibench", "compare", "--help", folder=tmp_path).stdout
    assert usage.startswith("Usage: kubectl cnibench compare ")


def test_it_brings_the_manual(installed: Path) -> None:
    pages = {path.name for path in (installed / "share" / "man" / "man1").iterdir()}
    assert {
        "cnibench.1",
        "cnibench-run.1",
        "cnibench-images-build.1",
        "kubectl-cnibench.1",
    } <= pages
