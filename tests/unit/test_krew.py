"""release/krew.py: archives of the plugin and a manifest that krew takes."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

SCRIPT = Path(__file__).parents[2] / "release" / "krew.py"
HOME = "https://git.example/me/cnibench"
_TEXT = {"type": "string", "minLength": 1}
# What internal/index/validation/validate.go and pkg/index/types.go of krew 0.4 require of the keys
# that are used here.
SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["apiVersion", "kind", "metadata", "spec"],
    "additionalProperties": False,
    "properties": {
        "apiVersion": {"const": "krew.googlecontainertools.github.com/v1alpha2"},
        "kind": {"const": "Plugin"},
        "metadata": {"properties": {"name": {"pattern": r"^[\w-]+$"}}, "required": ["name"]},
        "spec": {
            "required": ["version", "shortDescription", "platforms"],
            "additionalProperties": False,
            "properties": {
                "version": {"pattern": r"^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[\w.-]+)?$"},
                "shortDescription": {"type": "string", "pattern": "^[^\r\n]+$"},
                "description": _TEXT,
                "caveats": _TEXT,
                "homepage": _TEXT,
                "platforms": {
                    "type": "array",
                    "minItems": 1,
                    "items": {
                        "required": ["uri", "sha256", "bin", "selector"],
                        "additionalProperties": False,
                        "properties": {
                            "uri": _TEXT,
                            "sha256": {"pattern": "^[a-f0-9]{64}$"},
                            "bin": _TEXT,
                            "selector": {
                                "required": ["matchLabels"],
                                "additionalProperties": False,
                                "properties": {
                                    "matchLabels": {
                                        "minProperties": 1,
                                        "additionalProperties": False,
                                        "properties": {"os": _TEXT, "arch": _TEXT},
                                    }
                                },
                            },
                        },
                    },
                },
            },
        },
    },
}


def make(folder: Path) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, str(SCRIPT), str(folder), f"{HOME}/"]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def made(tmp_path: Path) -> Path:
    for machine in ("x86_64", "aarch64"):
        name = f"cnibench-1.2.3-py3-none-manylinux_2_17_{machine}.whl"
        (tmp_path / name).write_bytes(machine.encode())
    (tmp_path / "cnibench-1.2.3.tar.gz").write_bytes(b"the sdist")
    done = make(tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    return tmp_path


def test_the_manifest_is_one_that_krew_takes(made: Path) -> None:
    manifest = yaml.safe_load((made / "cnibench.yaml").read_text())
    jsonschema.validate(manifest, SCHEMA)
    assert manifest["metadata"]["name"] == "cnibench"
    assert manifest["spec"]["version"] == "v1.2.3"
    platforms = {
        one["selector"]["matchLabels"]["arch"]: one for one in manifest["spec"]["platforms"]
    }
    assert set(platforms) == {"amd64", "arm64"}
    for architecture, one in platforms.items():
        name = f"cnibench_linux_{architecture}.tar.gz"
        assert one["uri"] == f"{HOME}/releases/download/v1.2.3/{name}"
        assert one["sha256"] == hashlib.sha256((made / name).read_bytes()).hexdigest()


def test_an_archive_has_one_wheel_and_the_script_that_runs_it(made: Path, tmp_path: Path) -> None:
    before = (made / "cnibench_linux_arm64.tar.gz").read_bytes()
    archive = made / "cnibench_linux_arm64.tar.gz"
    with tarfile.open(archive) as tar:
        names = tar.getnames()
    (tmp_path / "plugin").mkdir()
    subprocess.run(["tar", "-xzf", archive, "-C", tmp_path / "plugin"], check=True)
    wheel = "cnibench-1.2.3-py3-none-manylinux_2_17_aarch64.whl"
    assert names == ["kubectl-cnibench", wheel, "LICENSE"]
    assert make(made).returncode == 0
    assert (made / "cnibench_linux_arm64.tar.gz").read_bytes() == before

    # krew links the script into a folder of its own; a stand-in for uvx and pipx prints its words
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "kubectl-cnibench").symlink_to(tmp_path / "plugin" / "kubectl-cnibench")
    for name in ("sh", "dirname", "readlink"):
        (programs / name).symlink_to(Path("/bin") / name)
    run = [str(programs / "kubectl-cnibench"), "run", "--cni", "two words"]
    env = {**os.environ, "PATH": str(programs)}
    done = subprocess.run(run, env=env, capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 3
    assert "remedy: install uv" in done.stderr
    for program, words in (("pipx", "run --spec"), ("uvx", "--quiet --from")):
        (programs / program).write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
        (programs / program).chmod(0o755)
        done = subprocess.run(run, env=env, capture_output=True, text=True, timeout=20, check=True)
        expected = [*words.split(), str(tmp_path / "plugin" / wheel)]
        assert done.stdout.splitlines() == [*expected, "kubectl-cnibench", *run[1:]]


def test_wheels_that_are_not_one_release_are_refused(made: Path) -> None:
    (made / "cnibench-1.2.4-py3-none-manylinux_2_17_x86_64.whl").write_bytes(b"another")
    done = make(made)
    assert done.returncode == 1
    assert "['1.2.3', '1.2.4']" in done.stderr
