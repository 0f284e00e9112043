"""Makes the krew plugin of a release: an archive for each wheel, and the plugin's manifest.

usage: python release/krew.py FOLDER REPOSITORY

FOLDER contains the wheels and gets cnibench_linux_<arch>.tar.gz and cnibench.yaml. REPOSITORY is
the URL of the repository, whose release has the archives.

An archive has the wheel and a script that runs it with uv or pipx: krew unpacks a plugin and
installs no Python packages.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import re
import sys
import tarfile
from pathlib import Path
from typing import Any

import yaml

_ROOT = Path(__file__).parents[1]
_SCRIPT = _ROOT / "release" / "kubectl-cnibench"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}  # of wheels, and as Go names them
_WHEEL = re.compile(r"cnibench-(\d[\w.]*)-py3-none-manylinux_\d+_\d+_(\w+)\.whl")
_DESCRIPTION = """\
Measures the CNI of a cluster with netperf, iperf3 and HTTP, compares CNIs with paired statistical
tests, and shows where the CPU cycles of a packet go.
"""
_CAVEATS = """\
Needs Linux, and uv (https://docs.astral.sh/uv/) or pipx, which install the packages that it needs
at the first call. To measure a cluster as it is:
  kubectl cnibench run --cluster existing --cni current
"""


def archive(wheel: Path) -> bytes:
    """The plugin's archive; the same bytes for the same wheel."""
    data = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=data, mode="wb", mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar,
    ):
        for path, mode in ((_SCRIPT, 0o755), (wheel, 0o644), (_ROOT / "LICENSE", 0o644)):
            entry = tarfile.TarInfo(path.name)
            entry.size, entry.mode = path.stat().st_size, mode
            with path.open("rb") as file:
                tar.addfile(entry, file)
    return data.getvalue()


def manifest(version: str, repository: str, archives: dict[str, bytes]) -> dict[str, Any]:
    """The manifest of a plugin with ``{architecture: archive}``."""
    return {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "cnibench"},
        "spec": {
            "version": f"v{version}",
            "homepage": repository,
            "shortDescription": "Measure and compare CNIs",
            "description": _DESCRIPTION,
            "caveats": _CAVEATS,
            "platforms": [
                {
                    "selector": {"matchLabels": {"os": "linux", "arch": architecture}},
                    "uri": f"{repository}/releases/download/v{version}/{_name(architecture)}",
                    "sha256": hashlib.sha256(content).hexdigest(),
                    "bin": _SCRIPT.name,
                }
                for architecture, content in sorted(archives.items())
            ],
        },
    }


def _name(architecture: str) -> str:
    return f"cnibench_linux_{architecture}.tar.gz"


def main(folder: Path, repository: str) -> None:
    found = [
        (match[1], _ARCHITECTURES[match[2]], wheel)
        for wheel in sorted(folder.glob("*.whl"))
        if (match := _WHEEL.fullmatch(wheel.name)) and match[2] in _ARCHITECTURES
    ]
    versions = {version for version, _, _ in found}
    if len(versions) != 1:
        sys.exit(f"{folder} must have wheels of one version, it has {sorted(versions) or 'none'}")
    archives = {architecture: archive(wheel) for _, architecture, wheel in found}
    for architecture, content in archives.items():
        (folder / _name(architecture)).write_bytes(content)
    made = manifest(versions.pop(), repository.rstrip("/"), archives)
    (folder / "cnibench.yaml").write_text(yaml.safe_dump(made, sort_keys=False), encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__.split("\n\n")[1])
    main(Path(sys.argv[1]), sys.argv[2])
