"""actionlint, with shellcheck for the scripts, finds nothing in the workflows and in the action."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from kind.binaries import actionlint

ROOT = Path(__file__).parents[2]
WORKFLOWS = (
    *sorted((ROOT / ".github" / "workflows").glob("*.yml")),
    *sorted((ROOT / "docs" / "results-repository" / ".github" / "workflows").glob("*.yml")),
)


@pytest.fixture(scope="module")
def program() -> Path:
    return actionlint() / "actionlint"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """All of them in one. actionlint reads of an action only what a workflow that uses it may
    know, so that the steps of ours are a workflow as well.
    """
    folder = tmp_path / ".github" / "workflows"
    folder.mkdir(parents=True)
    (tmp_path / ".git").mkdir()  # it makes a folder a repository for actionlint
    for path in WORKFLOWS:
        shutil.copy(path, folder)
    shutil.copy(ROOT / "action.yml", tmp_path)
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    given = {name: "x" for name, one in action["inputs"].items() if one.get("required")}
    uses = {"uses": "./", "with": given}
    write(folder / "uses.yml", {"push": {}}, [uses])
    inputs = {name: {"type": "string"} for name in action["inputs"]}
    write(folder / "steps.yml", {"workflow_call": {"inputs": inputs}}, action["runs"]["steps"])
    return tmp_path


def write(path: Path, on: dict[str, Any], steps: list[dict[str, Any]]) -> None:
    job = {"runs-on": "ubuntu-24.04", "steps": steps}
    text = yaml.safe_dump({"on": on, "jobs": {"one": job}}, sort_keys=False, width=1000)
    path.write_text(text)


def found(program: Path, repository: Path) -> str:
    done = subprocess.run(
        [program, "-no-color", "-oneline"],
        cwd=repository,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stderr == ""
    assert bool(done.stdout) == bool(done.returncode)
    return done.stdout


def test_nothing_is_found(program: Path, repository: Path) -> None:
    assert {path.name for path in WORKFLOWS} == {"pages.yml", "release.yml", "results.yml"}
    assert found(program, repository) == ""


@pytest.mark.parametrize(
    ("name", "old", "new", "kind"),
    [
        ("release.yml", "steps.name.outputs.name", "steps.nome.outputs.name", "expression"),
        ("pages.yml", '"$PAGES/demo"', "$PAGES/demo", "shellcheck"),
        ("pages.yml", "ubuntu-24.04", "ubuntu-24.40", "runner-label"),
        ("steps.yml", "inputs.candidate-settings", "inputs.settings", "expression"),
        ("steps.yml", 'exit "$STATUS"', "exit $STATUS", "shellcheck"),
        ("uses.yml", "base: x", "bose: x", "action"),
    ],
)
def test_what_is_wrong_is_found(
    program: Path, repository: Path, name: str, old: str, new: str, kind: str
) -> None:
    path = repository / ".github" / "workflows" / name
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    assert f"[{kind}]" in found(program, repository)
