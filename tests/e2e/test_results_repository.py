"""The hook of a repository of bundles: what a push may bring and what it may not."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cnibench.reports.bundle.making import bundle
from tests.unit._bundles import stored

HOOK = Path(__file__).parents[2] / "docs" / "results-repository" / "pre-receive"


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Two bundles of one testbed."""
    folder = tmp_path / "results" / "one"
    folder.mkdir(parents=True)
    for name, seed in (("a1", 1), ("a2", 2)):
        run = stored(tmp_path / "runs" / name, {"flannel": 1.0, "cilium": 1.2}, seed=seed)
        (folder / f"{name}.cnibench").write_bytes(bundle(run))
    return folder.parent


def test_the_hook_of_a_repository(results: Path, tmp_path: Path) -> None:
    """Real pushes into a real repository."""
    program = tmp_path / "bin" / "cnibench"
    program.parent.mkdir()
    program.write_text(
        f"#!/bin/sh\nexec {sys.executable} -c 'from cnibench.cli.main import main; main()' \"$@\"\n"
    )
    program.chmod(0o755)
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "GIT_CONFIG_GLOBAL": "/dev/null",
    }
    for who in ("AUTHOR", "COMMITTER"):
        environment |= {f"GIT_{who}_NAME": "t", f"GIT_{who}_EMAIL": "t@example.org"}

    def git(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["git", "-C", str(work), *arguments],
            env=environment, check=check, capture_output=True, text=True, timeout=120,
        )  # fmt: skip

    bare, work = tmp_path / "bare.git", tmp_path / "work"
    subprocess.run(["git", "init", "-q", "--bare", str(bare)], check=True, env=environment)
    shutil.copy(HOOK, bare / "hooks" / "pre-receive")
    subprocess.run(["git", "init", "-q", "-b", "main", str(work)], check=True, env=environment)

    def push(*more: str) -> str:
        git("add", "-A")
        git("commit", "-q", "-m", "results")
        done = git("push", "-q", *more, str(bare), "main", check=False)
        if done.returncode:
            git("reset", "-q", "--hard", "HEAD~1")
        return "accepted" if not done.returncode else done.stderr

    (work / "one").mkdir()
    shutil.copy(results / "one" / "a1.cnibench", work / "one")
    assert push() == "accepted"
    shutil.copy(results / "one" / "a2.cnibench", work / "one" / "a1.cnibench")
    assert "may not change or go: M" in push()
    (work / "one" / "a1.cnibench").unlink()
    assert "may not change or go: D" in push("--force")
    (work / "one" / "b.cnibench").symlink_to("a1.cnibench")
    assert "is no ordinary file" in push()
    (work / "one" / "b.cnibench").write_bytes(b"PK")
    assert "refused: one/b.cnibench: " in push()
    shutil.copy(results / "one" / "a2.cnibench", work / "one")
    (work / "one" / "allowed_signers").write_text("")
    assert "change together" in push()
    shutil.copy(results / "one" / "a2.cnibench", work / "one" / "a b.cnibench")
    assert "expected TESTBED/FILE" in push()
    # what would hide it from ``git archive`` and a checkout does not hide it from the hook
    (work / ".gitattributes").write_text("*.cnibench export-ignore -text\n")
    (work / "one" / "b.cnibench").write_bytes(b"PK")
    assert "refused: one/b.cnibench: " in push()
    shutil.copy(results / "one" / "a2.cnibench", work / "one")
    assert push() == "accepted"
