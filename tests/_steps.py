"""Runs the shell steps of GitHub's actions and workflows as its runner does: the expressions of
``env`` are replaced, and bash has the same options. Steps that use other actions are not run.

https://docs.github.com/actions/reference/workflows-and-actions/workflow-syntax (shell), and
.../contexts for the expressions, of which those with dots are known.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

EXPRESSION = re.compile(r"\$\{\{\s*([\w.-]+)\s*\}\}")
_BASH = ("bash", "--noprofile", "--norc", "-eo", "pipefail")


def evaluated(text: str, context: Mapping[str, Any]) -> str:
    """``text`` with its expressions replaced. Raises KeyError for what ``context`` lacks."""

    def value(match: re.Match[str]) -> str:
        found: Any = context
        for name in match[1].split("."):
            found = found[name]
        return str(found)

    return EXPRESSION.sub(value, text)


class Runner:
    """Runs steps one after the other in ``folder``; ``context`` has their outputs afterwards."""

    def __init__(self, folder: Path, context: Mapping[str, Any], env: Mapping[str, str]) -> None:
        self.folder = folder
        self.context = {**context, "steps": {}}
        files = folder / "_runner"
        files.mkdir()
        self.summary, self._output = files / "summary", files / "output"
        self._env = {
            **os.environ,
            "RUNNER_TEMP": str(files),
            "GITHUB_OUTPUT": str(self._output),
            "GITHUB_STEP_SUMMARY": str(self.summary),
            "GITHUB_PATH": str(files / "path"),
            **env,
        }

    def run(self, step: Mapping[str, Any], limit: float = 240.0) -> tuple[int, str]:
        """(exit status, what it printed)."""
        own = {
            key: evaluated(str(value), self.context) for key, value in step.get("env", {}).items()
        }
        script = self.folder / "_runner" / "script.sh"
        script.write_text(step["run"])
        self._output.write_text("")
        done = subprocess.run(
            [*_BASH, str(script)],
            cwd=self.folder,
            env={**self._env, **own},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=limit,
            check=False,
        )
        pairs = (line.split("=", 1) for line in self._output.read_text().splitlines())
        if "id" in step:
            self.context["steps"][step["id"]] = {"outputs": dict(pairs)}
        return done.returncode, done.stdout


def named(steps: Sequence[Mapping[str, Any]], name: str) -> Mapping[str, Any]:
    """The step whose name begins so."""
    (found,) = (step for step in steps if step.get("name", "").startswith(name))
    return found
