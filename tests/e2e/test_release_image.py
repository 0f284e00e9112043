"""What the container image relies on: its packages' sources, and the lab in a privileged container.

A build of the image downloads compilers and takes minutes; the release workflow builds it. Here the
root of the container is this machine's, where ./setup installed the same packages
(tests/unit/test_workflows.py compares both lists), and cnibench is that of the tests.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from kind import own

from cnibench import __version__

ROOT = Path(__file__).parents[2]
LIMIT = 240  # s: beside other tests

pytestmark = pytest.mark.timeout(2 * LIMIT)


def contained(folder: Path, *arguments: str) -> str:
    """What cnibench prints in a container that docs/installation.md starts for the lab."""
    seen = {ROOT, Path(sys.prefix), Path(sys.base_prefix), Path("/lib/modules")} - {Path("/usr")}
    volumes = [word for one in sorted(seen) for word in ("-v", f"{one}:{one}:ro")]
    argv = ["podman", "run", "--rm", "--privileged", "--network=none", *volumes]
    argv += ["-v", f"{folder}:{folder}", f"--workdir={folder}", "--rootfs", "/:O"]
    done = subprocess.run(
        [*argv, Path(sys.executable).with_name("cnibench"), *arguments],
        env={**os.environ, **own.ENGINE},
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_says_its_version_and_what_the_machine_lacks(tmp_path: Path) -> None:
    assert contained(tmp_path, "--version") == f"cnibench, version {__version__}\n"
    found = json.loads(contained(tmp_path, "doctor", "--cni", "flannel,cilium", "--json"))
    assert found["missing"] == []


def test_it_measures_in_the_lab(tmp_path: Path) -> None:
    short = ("--blocks", "1", "--duration", "200ms", "--warmup", "50ms", "--workload", "tcp-rr")
    run = contained(tmp_path, "run", "--cni", "flannel,cilium", *short, "--quiet").strip()
    assert contained(tmp_path, "verify", run)
    samples = Path(run, "samples.jsonl").read_text().splitlines()
    values = [json.loads(line) for line in samples]
    assert {(one["label"], one["placement"], one["status"]) for one in values} == {
        (label, placement, "ok")
        for label in ("flannel", "cilium")
        for placement in ("intra", "inter")
    }
    assert {"transaction_rate", "cycles_per_packet"} <= {one["metric"] for one in values}


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("sources.list.d/debian.sources", "Components: main\n", "Components: main non-free\n"),
        ("sources.list", "deb http://a bookworm main\n", "deb http://a bookworm main non-free\n"),
    ],
)
def test_netperf_has_a_source(tmp_path: Path, name: str, before: str, after: str) -> None:
    """netperf is in non-free, which neither of the forms of Debian's images has."""
    text = (ROOT / "Containerfile").read_text().replace("\\\n", "\n")
    (step,) = re.findall(r"^RUN (set -e;.*(?:\n.*non-free.*)+)", text, re.MULTILINE)
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(before)
    subprocess.run(["sh", "-c", step.replace("/etc/apt", str(tmp_path))], check=True, timeout=20)
    assert file.read_text() == after
