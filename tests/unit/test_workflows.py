"""The workflow of a release, the action and the image: what can be checked of them without GitHub,
and the steps of the release that need nothing else.
"""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from cnibench import __version__
from cnibench.analysis.gate.noninferiority import LEVEL
from cnibench.stats import gate_power
from tests._steps import Runner, named

ROOT = Path(__file__).parents[2]
RELEASE = ROOT / ".github" / "workflows" / "release.yml"
PAGES = ROOT / ".github" / "workflows" / "pages.yml"
RESULTS = ROOT / "docs" / "results-repository" / ".github" / "workflows" / "results.yml"
ACTION = ROOT / "action.yml"
PINNED = re.compile(r"uses: [\w./-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+$")
REFERENCE = re.compile(r"\b(steps|needs|inputs|matrix)\.([\w-]+)(?:\.outputs\.([\w-]+))?")


def load(path: Path) -> dict[str, Any]:
    return dict(yaml.safe_load(path.read_text(encoding="utf-8")))


def jobs() -> Iterator[tuple[str, dict[str, Any]]]:
    """The jobs of the release, and the action as one."""
    yield from load(RELEASE)["jobs"].items()
    yield "action", {"steps": load(ACTION)["runs"]["steps"], "permissions": {}}


@pytest.mark.parametrize("path", [RELEASE, PAGES, RESULTS, ACTION], ids=lambda path: path.name)
def test_other_actions_are_pinned_by_commit(path: Path) -> None:
    uses = [line for line in path.read_text().splitlines() if re.search(r"\buses:", line)]
    assert [line for line in uses if not PINNED.search(line)] == []


@pytest.mark.parametrize("job", dict(jobs()).values(), ids=dict(jobs()).keys())
def test_scripts_are_bash_and_take_values_from_the_environment_only(job: dict[str, Any]) -> None:
    for step in job["steps"]:
        assert ("run" in step) != ("uses" in step)
        script = step.get("run", "")
        assert "${{" not in script  # text of somebody else's would be code there
        done = subprocess.run(
            ["bash", "-n"], input=script, text=True, capture_output=True, timeout=20
        )
        assert (done.returncode, done.stderr) == (0, "")


def test_expressions_name_what_is_there() -> None:
    release, inputs = load(RELEASE)["jobs"], load(ACTION)["inputs"]
    for _, job in jobs():
        rows = job.get("strategy", {}).get("matrix", {}).get("include", [])
        known = {"inputs": inputs, "matrix": {key for row in rows for key in row}}
        scripts: dict[str, str] = {}  # of the steps before
        for step in job["steps"]:
            for kind, what, output in REFERENCE.findall(json.dumps(step)):
                if kind == "steps":  # only the step that builds the image runs another action
                    made = f'echo "{output}=' in scripts[what]
                    assert made or (what, output) == ("build", "digest")
                elif kind == "needs":
                    assert what in job["needs"]
                    assert output in release[what]["outputs"]
                else:
                    assert what in known[kind]
            if "id" in step:
                scripts[step["id"]] = step.get("run", "")
    steps = {step["id"]: step["run"] for step in load(ACTION)["runs"]["steps"] if "id" in step}
    for one in load(ACTION)["outputs"].values():
        ((_, what, output),) = REFERENCE.findall(one["value"])
        assert f'echo "{output}=' in steps[what]


@pytest.mark.parametrize("path", [PAGES, RESULTS], ids=lambda path: path.name)
def test_pages_have_the_address_that_github_gives_them(path: Path) -> None:
    """Made of the repository's name it would be wrong for OWNER.github.io and for a domain."""
    steps = load(path)["jobs"]["publish"]["steps"]
    (asked,) = (n for n, one in enumerate(steps) if one.get("id") == "pages")
    assert "configure-pages" in steps[asked]["uses"]
    addresses = [
        value
        for one in steps[asked:]
        for name, value in one.get("env", {}).items()
        if name.endswith("PAGES")
    ]
    assert set(addresses) == {"${{ steps.pages.outputs.base_url }}"}
    assert "github.io" not in path.read_text()


def test_a_job_has_no_more_permissions_than_it_names() -> None:
    release = load(RELEASE)
    assert release["permissions"] == {}
    for name, job in release["jobs"].items():
        needs = job.get("needs", [])
        assert {*([needs] if isinstance(needs, str) else needs)} <= release["jobs"].keys()
        writes = {key for key, value in job["permissions"].items() if value == "write"}
        assert not writes or job["environment"] == "release", name


@pytest.fixture
def notes(tmp_path: Path) -> Runner:
    """The job that makes the notes, in a checkout with a version 9.8.7."""
    package = tmp_path / "src" / "cnibench"
    package.mkdir(parents=True)
    shutil.copy(ROOT / "src" / "cnibench" / "__init__.py", package)
    (tmp_path / "CHANGELOG.md").write_text(
        f"# Changelog\n\n## [Unreleased]\n\n- Not yet.\n\n## [{__version__}] - 2026-01-02\n\n"
        "### Added\n\n- This.\n\n## [0.0.9] - 2026-01-01\n\n- Before.\n"
    )
    return Runner(tmp_path, {}, {"GITHUB_REF_NAME": f"v{__version__}"})


def test_the_notes_of_a_release_are_its_section_of_the_changelog(
    notes: Runner, tmp_path: Path
) -> None:
    version, section = load(RELEASE)["jobs"]["notes"]["steps"][1:3]
    assert notes.run(version) == (0, "")
    assert notes.context["steps"]["version"]["outputs"] == {"version": __version__}
    assert notes.run(section) == (0, "")
    assert (tmp_path / "dist" / "notes.md").read_text().strip() == "### Added\n\n- This."


def test_a_tag_of_another_version_or_without_notes_is_no_release(
    notes: Runner, tmp_path: Path
) -> None:
    version, section = load(RELEASE)["jobs"]["notes"]["steps"][1:3]
    notes.run(version)
    (tmp_path / "CHANGELOG.md").write_text("## [Unreleased]\n\n- Not yet.\n")
    status, said = notes.run(section)
    assert (status, said) == (1, f"::error::CHANGELOG.md has no section for {__version__}\n")
    (tmp_path / "src" / "cnibench" / "__init__.py").write_text('__version__ = "9.8.7"\n')
    status, said = notes.run(version)
    assert status == 1
    assert "src/cnibench/__init__.py says 9.8.7" in said


def test_the_plugin_and_checksums_of_a_release_are_made(tmp_path: Path) -> None:
    dist, programs = tmp_path / "dist", tmp_path / ".venv" / "bin"
    dist.mkdir()
    programs.mkdir(parents=True)
    (programs / "python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (programs / "python").chmod(0o755)
    for name in ("release", "LICENSE"):
        (tmp_path / name).symlink_to(ROOT / name)
    wheel = "cnibench-9.8.7-py3-none-manylinux_2_17_aarch64.whl"
    for name in (wheel, "cnibench-9.8.7.tar.gz", "notes.md"):
        (dist / name).write_text(name)
    env = {"GITHUB_SERVER_URL": "https://git.example", "GITHUB_REPOSITORY": "me/cnibench"}
    step = named(load(RELEASE)["jobs"]["publish"]["steps"], "The krew plugin")
    assert Runner(tmp_path, {}, env).run(step) == (0, "")
    made = {"cnibench.yaml", "cnibench_linux_arm64.tar.gz", "SHA256SUMS"}
    assert {path.name for path in dist.iterdir()} == {wheel, "cnibench-9.8.7.tar.gz", *made}
    checked = ["sha256sum", "--check", "--quiet", "--strict", "SHA256SUMS"]
    assert subprocess.run(checked, cwd=dist, timeout=20, check=False).returncode == 0


def test_the_image_has_what_the_set_up_installs_but_no_compiler() -> None:
    def words(text: str) -> set[str]:
        return set(text.replace("\\\n", " ").split())

    (setup,) = re.findall(r'^packages="([^"]*)"', (ROOT / "setup").read_text(), re.MULTILINE)
    file = (ROOT / "Containerfile").read_text()
    lists = re.findall(r"--no-install-recommends ((?:.*\\\n)*.*)", file)
    build, run = (words(one.partition(";")[0]) for one in lists)
    compilers = {"gcc", "libc6-dev", "clang", "libbpf-dev", "linux-libc-dev"}
    assert compilers < build
    assert run - {"rm", "-rf"} >= words(setup) - compilers - {"llvm", "python3-venv"} | {
        "linux-perf"
    }
    assert not run & compilers


def test_the_blocks_of_the_action_can_prove_a_single_cell_worse() -> None:
    blocks = int(load(ACTION)["inputs"]["blocks"]["default"])
    assert gate_power.proves(blocks, math.inf, LEVEL / 102) == 1.0
    assert gate_power.proves(blocks, math.inf, LEVEL / 103) == 0.0
