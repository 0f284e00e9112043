"""release/man.py: a manual page for each command, made with click and msgspec alone."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import click
import pytest

from cnibench.cli.main import group
from tests.unit._call import call

SCRIPT = Path(__file__).parents[2] / "release" / "man.py"
# What the environment in which pip builds a wheel lacks: pyproject.toml, build-system.
NOT_THERE = {"duckdb", "jinja2", "numpy", "pydantic", "pyroute2", "rich", "scipy", "yaml"}


@pytest.fixture(scope="module")
def man() -> ModuleType:
    spec = importlib.util.spec_from_file_location("man", SCRIPT)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def pages(man: ModuleType) -> dict[str, str]:
    made: dict[str, str] = man.pages(group, "cnibench", "1.2.3")
    return made


def commands(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    yield name, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for inner in command.list_commands(context):
            found = command.get_command(context, inner)
            assert found
            yield from commands(found, f"{name}-{inner}")


def test_every_command_has_a_page_that_names_all_its_options(pages: dict[str, str]) -> None:
    every = dict(commands(group, "cnibench"))
    assert {"cnibench", "cnibench-run", "cnibench-import", "cnibench-images-build"} < every.keys()
    assert sorted(pages) == sorted(f"{name}.1" for name in every)
    for name, command in every.items():
        page = pages[f"{name}.1"]
        assert page.startswith(".TH ")
        assert ".SH NAME\n" in page
        for option in (one for one in command.params if isinstance(one, click.Option)):
            # the first long name: older ones are accepted and not shown
            first = next((one for one in option.opts if one.startswith("--")), option.opts[0])
            written = first.replace("-", "\\-")
            assert option.hidden or f"\\fB{written}" in page or f", {written}" in page


def test_options_are_in_the_sections_of_the_help(pages: dict[str, str]) -> None:
    page = pages["cnibench-run.1"]
    options = page[page.index(".SH OPTIONS\n") :]
    assert options.startswith(".SH OPTIONS\n.SS Common options\n.TP\n\\fB\\-\\-cni NAME")
    help = call(["run", "--help"]).stdout
    titles = re.findall(r"^(\S.*):$", help, re.MULTILINE)
    assert re.findall(r"^\.SS (.*)$", options, re.MULTILINE) == titles
    assert ".SS" not in pages["cnibench-report.1"]


def test_text_of_the_help_does_not_become_a_request(man: ModuleType) -> None:
    @click.command(
        epilog="\b\nExamples:\n  .x --a  'b'\n", params=[click.Option(["--a-b"], help=".dot")]
    )
    def command() -> None:
        """Do it.

        Now \\n or ~never.

        \b
        .kept
          as it is
        """

    page = man.pages(command, "do", "1")["do.1"]
    assert "do \\- Do it\n" in page
    assert "Now \\en or \\(tinever.\n.PP\n.nf\n\\&.kept\n  as it is\n.fi\n" in page
    assert ".TP\n\\fB\\-\\-a\\-b TEXT\\fR\n\\&.dot\n" in page
    assert ".SH EXAMPLES\n.nf\n  .x \\-\\-a  \\(aqb\\(aq\n.fi\n" in page


def test_pages_are_made_where_only_click_and_msgspec_are_installed(tmp_path: Path) -> None:
    (tmp_path / "cnibench-gone.1").write_text("of a command that was removed")
    program = f"""
import runpy, sys
sys.modules.update(dict.fromkeys({sorted(NOT_THERE)!r}))  # None: the import fails
sys.argv = ["man.py", {str(tmp_path)!r}]
runpy.run_path({str(SCRIPT)!r}, run_name="__main__")
"""
    subprocess.run([sys.executable, "-c", program], timeout=60, check=True)
    made = {path.name for path in tmp_path.iterdir()}
    assert {"cnibench.1", "cnibench-run.1", "kubectl-cnibench.1"} <= made
    assert "cnibench-gone.1" not in made


def test_builds_at_the_same_time_leave_every_page_whole(tmp_path: Path) -> None:
    """As tox's environments make them in one checkout, side by side."""
    (tmp_path / "cnibench-gone.1").write_text("of a command that is gone")
    builds = [subprocess.Popen([sys.executable, SCRIPT, tmp_path]) for _ in range(4)]
    assert [one.wait(60) for one in builds] == [0] * len(builds)
    made = {path.name for path in tmp_path.iterdir()}
    assert made == {f"{name}.1" for name, _ in commands(group, "cnibench")} | {"kubectl-cnibench.1"}
