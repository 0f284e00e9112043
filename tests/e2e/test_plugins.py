"""Other packages add workloads, collectors, kinds of cluster, report formats and profiles by one
file each.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.unit._runs import synthetic

FOREIGN = Path(__file__).parents[1] / "foreign"
MAIN = "from cnibench.cli.main import main; main()"


def cnibench(*words: str, path: Path = FOREIGN, **more: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, **more, "PYTHONPATH": os.pathsep.join((str(path), *sys.path))}
    return subprocess.run(
        [sys.executable, "-c", MAIN, *words], env=env, capture_output=True, text=True, timeout=120
    )


def offers(folder: Path, group: str, value: str) -> Path:
    """An installed package with one entry point."""
    about = folder / "other-2.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 2.0\n")
    (about / "entry_points.txt").write_text(f"[cnibench.{group}]\nthing = {value}\n")
    return folder


def test_a_profile_of_another_package() -> None:
    done = cnibench("profiles", "show", "foreign-veth", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["summary"] == "A profile that another package ships."
    assert cnibench("profiles", "show", "foreign-veth", path=Path("/nonexistent")).returncode == 2


def test_a_workload_and_a_collector_of_another_package_are_planned_and_checked(
    tmp_path: Path,
) -> None:
    # Without qemu: whether KVM runs a kernel here takes doctor up to 10 s.
    (tmp_path / "python3").symlink_to(sys.executable)
    found = json.loads(cnibench("doctor", "--json", PATH=str(tmp_path)).stdout)
    lacking = {item["for"] for item in found["optional"] + found["missing"]}
    assert "tcp-rr" in lacking, "netperf is not"
    assert "udp-echo" not in lacking, "python3 is here"
    done = cnibench(
        "run",
        "--cluster",
        "nowhere",
        "--cni",
        "foreign-veth",
        "--workload",
        "udp-echo",
        "--dry-run",
    )
    assert done.returncode == 3, done.stderr
    assert "a machine" in done.stderr


def test_ports_and_packages_are_those_that_a_provider_declares() -> None:
    script = (
        "from cnibench.clusters.kubernetes import images; from cnibench.clusters.kubernetes.pods"
        " import paths; from cnibench.cli.measurement.packages import install_command;"
        " print(paths._ports());"
        " print(images.Recipe().arguments('workload'), install_command(['nginx', 'python3']))"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join((str(FOREIGN), *sys.path))}
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "7007" in done.stdout
    assert " python3" in done.stdout
    assert "nginx-light" in done.stdout


def test_a_report_format_of_another_package(tmp_path: Path) -> None:
    run = synthetic(tmp_path, {"one": 1.0, "two": 1.1}).path
    done = cnibench("report", str(run), "--format", "names")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["one", "two"]
    unknown = cnibench("report", str(run), "--format", "nothing")
    assert unknown.returncode == 2
    assert "names" in unknown.stderr


def test_what_cannot_be_imported_is_named_with_its_package(tmp_path: Path) -> None:
    done = cnibench("doctor", path=offers(tmp_path, "workloads", "no_such_module:PROVIDER"))
    assert done.returncode == 3
    assert "the package other 2.0 offers 'thing' (no_such_module:PROVIDER)" in done.stderr
    assert "update or uninstall that package" in done.stderr
    assert "Traceback" not in done.stderr


def test_two_providers_of_one_name_are_refused(tmp_path: Path) -> None:
    (tmp_path / "twice.py").write_text("from cnibench.workloads.tcp_rr import PROVIDER\n")
    done = cnibench("doctor", path=offers(tmp_path, "workloads", "twice:PROVIDER"))
    assert done.returncode == 2
    assert "two providers in workloads are called 'tcp-rr'" in done.stderr
