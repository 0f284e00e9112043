"""What a shell completes: names that are there, and quickly."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.shell_completion import CompletionItem, ShellComplete

from cnibench.claims.model import studies
from cnibench.cli import completion
from cnibench.cli.main import group
from cnibench.model.profile import FOLDER
from cnibench.registry import providers
from tests.unit._runs import synthetic

ENTRY = "import sys; from cnibench.cli.main import main; sys.argv[0] = 'cnibench'; main()"


def items(*words: str) -> list[CompletionItem]:
    """The last word is the incomplete one."""
    shell = ShellComplete(group, {}, "cnibench", completion.VARIABLE)
    return shell.get_completions(list(words[:-1]), words[-1])


def values(*words: str) -> list[str]:
    return [one.value for one in items(*words)]


@pytest.mark.parametrize("package", ["workloads", "reports", "clusters", "importers"])
def test_names_are_those_of_the_providers(package: str) -> None:
    assert completion.named(package) == sorted(providers(package))


def test_words_of_each_kind_are_completed() -> None:
    profiles = sorted(path.stem for path in FOLDER.glob("*.yaml"))
    assert values("run", "--cni", "") == [*profiles, "all", "current"]
    weave = [name for name in profiles if name.startswith("weave")]
    assert len(weave) > 1
    assert values("profiles", "show", "weave") == weave
    assert values("run", "--workload", "iperf") == ["iperf3-tcp", "iperf3-udp"]
    assert values("run", "--plan", "q") == ["qi2021", "quick"]
    assert [one.type for one in items("run", "--plan", "./mine")] == ["file"]
    assert values("claims", "--study", "") == sorted(studies())
    assert values("reproduce", "b") == ["bruijn2017"]
    assert values("reproduce", "makowski2018", "--figure", "") == ["5", "10"]
    assert values("reproduce", "qi2021", "--figure", "8,II") == ["8,II", "8,III"]
    assert values("report", "--format", "j") == ["json"]
    assert values("import", "i") == ["infrabuilder", "iperf3"]
    assert values("run", "--ip", "") == ["4", "6", "both"]
    assert values("doctor", "--cluster", "k") == ["kind"]


def test_lists_are_completed_at_their_last_item() -> None:
    assert values("run", "--cni", "cilium,swarm-vxlan-") == ["cilium,swarm-vxlan-filter"]
    assert "cilium,cilium" not in values("run", "--cni", "cilium,cil")
    assert values("run", "--placement", "intra,") == ["intra,inter"]


def test_commands_and_options_are_completed() -> None:
    commands = group.list_commands(click.Context(group))
    assert values("") == commands
    assert all(one.help for one in items(""))
    assert values("ru") == ["rulepath", "run", "runs"]
    assert values("runs", "s") == ["show"]
    assert values("run", "--quie") == ["--quiet"]
    assert values("nothing", "--x") == []


def test_runs_are_completed_the_newest_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert [one.type for one in items("report", "")] == ["dir"]
    for name in ("one", "two", "$(reboot)"):
        synthetic(tmp_path / "runs", {"a": 1.0}, blocks=1, name=name)
    synthetic(tmp_path / "other", {"a": 1.0}, blocks=1, name="there")
    (tmp_path / "runs" / "no-run").mkdir()
    for words in (
        ["report"],
        ["report", "one"],
        ["query", "select 1"],
        ["run", "--resume"],
        ["compare"],
        ["verify"],
    ):
        assert values(*words, "") == ["last", "two", "one"], words
    assert values("cpp", "t") == ["two"]
    assert values("report", "--folder", "other", "") == ["last", "there"]
    assert values("run", "--out", "other", "--resume", "t") == ["there"]
    assert [(one.type, one.value) for one in items("report", "x/")] == [("dir", "x/")]


@pytest.fixture
def program(tmp_path: Path) -> dict[str, str]:
    """The environment of a shell that finds ``cnibench``."""
    file = tmp_path / "bin" / "cnibench"
    file.parent.mkdir()
    file.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{ENTRY}" "$@"\n')
    file.chmod(0o755)
    return {**os.environ, "PATH": f"{file.parent}:{os.environ['PATH']}"}


def test_bash_completes(program: dict[str, str]) -> None:
    expected = {
        "run --cni kindnet,flannel-h": "kindnet,flannel-host-gw",
        "run --cni = flannel-h": "flannel-host-gw",
        "ver": "verify",
    }
    script = ['eval "$(_CNIBENCH_COMPLETE=bash_source cnibench)"']
    for words in expected:
        script += [
            f"COMP_WORDS=(cnibench {words}); COMP_CWORD={len(words.split())}; COMPREPLY=()",
            '_cnibench_completion cnibench; printf "%s\\n" "${COMPREPLY[@]}"',
        ]
    done = subprocess.run(
        ["bash", "--norc", "-c", "\n".join(script)],
        env=program,
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout.splitlines(), done.stderr) == (list(expected.values()), "")


def test_completion_loads_less_than_help(program: dict[str, str]) -> None:
    def loaded(arguments: list[str], **environment: str) -> set[str]:
        code = f"import atexit, sys; atexit.register(lambda: print(*sys.modules)); {ENTRY}"
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=True,
        )
        return set(done.stdout.splitlines()[-1].split())

    helped = loaded(["--help"])
    commands = loaded(
        [], _CNIBENCH_COMPLETE="bash_complete", COMP_WORDS="cnibench r", COMP_CWORD="1"
    )
    profiles = loaded(
        [], _CNIBENCH_COMPLETE="bash_complete", COMP_WORDS="cnibench run --cni ", COMP_CWORD="3"
    )
    assert len(commands) < len(helped)
    heavy = {"pydantic", "numpy", "scipy", "yaml", "rich", "duckdb", "msgspec", "pyroute2"}
    assert not heavy & profiles
