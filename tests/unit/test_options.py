"""Options: one name for one meaning, no command has what it does not need, and the help of ``run``
begins with what is common; a run that is not named is the last one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from cnibench.cli.main import group
from cnibench.cli.options.sections import Sections
from tests.unit._call import call
from tests.unit._runs import synthetic


def commands() -> Iterator[tuple[str, click.Command]]:
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        assert command is not None
        yield name, command
        for inner in getattr(command, "commands", {}).values():
            yield f"{name} {inner.name}", inner


def options(command: click.Command) -> set[str]:
    return {
        name for one in command.params if isinstance(one, click.Option) for name in one.opts
    } | {"--help"}


READERS = ("bundle", "claims", "cpp", "report", "rulepath", "runs show", "site", "verify")


def test_each_command_that_reads_runs_has_the_folder_by_one_name() -> None:
    known = dict(commands())
    for name in (*READERS, "compare", "query", "runs", "runs list"):
        assert "--folder" in options(known[name]), name
    assert "--out" not in options(known["runs"]) | options(known["runs show"])


@pytest.mark.parametrize("name", ["run", "calibrate", "fidelity", "import"])
def test_commands_that_make_runs_have_the_same_name_and_accept_the_older_one(name: str) -> None:
    command = dict(commands())[name]
    (option,) = (one for one in command.params if one.name == "folder")
    assert option.opts == ["--folder", "--out"]
    shown = [line.split()[0] for line in call([name, "--help"]).stdout.splitlines() if line.strip()]
    assert "--folder" in shown
    assert "--out" not in shown


@pytest.mark.parametrize("option", ["--folder", "--out"])
def test_a_run_is_made_in_the_folder_by_either_name(option: str, tmp_path: Path) -> None:
    result = tmp_path / "result.txt"
    golden = Path(__file__).parents[1] / "golden" / "import"
    result.write_bytes((golden / "netperf_rr.txt").read_bytes())
    folder = tmp_path / "elsewhere"
    words = ["import", "netperf", str(result), "--placement", "intra", "--json"]
    done = call([*words, option, str(folder)])
    assert (done.exit_code, done.stderr) == (0, "")
    (made,) = folder.iterdir()
    assert (made / "samples.jsonl").is_file()


def test_no_command_has_options_of_clusters_that_it_does_not_need() -> None:
    known = dict(commands())
    every = {"--kubeconfig", "--context", "--namespace", "--patience", "--registry"}
    nodes = {"--client-node", "--server-node", "--client-selector", "--toleration"}
    changes = {"--allow-install", "--allow-replace"}
    rest = {"--allow-node-changes", "--node-image", "--kind-nodes"}
    rest |= {"--max-rate", "--allow-load", "--pod-resources"}  # clean and doctor measure nothing
    for name, has in (
        ("run", every | nodes | changes | rest),
        ("calibrate", every | nodes | changes | rest),
        ("offload", every | nodes | changes | rest),
        ("doctor", every | nodes),
        ("clean", every | changes),
    ):
        assert options(known[name]) & (every | nodes | changes | rest) == has, name


@pytest.mark.parametrize("name", ["run", "calibrate", "offload", "doctor", "clean"])
def test_each_option_is_in_the_help_once(name: str) -> None:
    command = dict(commands())[name]
    assert isinstance(command, Sections)
    help = call([name, "--help"]).stdout
    shown = [line.split()[0].rstrip(",") for line in help.splitlines() if line.startswith("  -")]
    assert len(shown) == len(set(shown))
    for one in command.params:
        if isinstance(one, click.Option):
            assert sum(word in one.opts for word in shown) == 1, one.name
    titles = [line for line in help.splitlines() if line.endswith(":") and line[:1].strip()]
    expected = [f"{title}:" for title in command.sections]
    assert titles == [title for title in expected if title in titles]


def test_the_help_of_run_begins_with_the_common_options() -> None:
    command = dict(commands())["run"]
    assert isinstance(command, Sections)
    named = [name for names in command.sections.values() for name in names]
    assert len(named) == len(set(named))
    assert {one.name for one in command.params} - set(named) == {"verbose"}
    help = call(["run", "--help"]).stdout
    head, _, rest = help.partition("What is measured:")
    for option in ("--cni", "--cluster", "--workload", "--plan", "--quiet", "--json", "--help"):
        assert option in head
    for option in ("--kubeconfig", "--wire-rate", "--kind-nodes", "--congestion-control"):
        assert option in rest


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for number, name in enumerate(("20260101-one", "20260102-two")):
        synthetic(tmp_path / "runs", {"a": 1.0, "b": 0.9}, blocks=2, name=name, seed=number)
    return tmp_path


@pytest.mark.parametrize("words", [["report"], ["claims"], ["cpp"], ["verify"], ["runs", "show"]])
@pytest.mark.parametrize("folder", ["runs", "elsewhere"])
def test_without_a_run_it_is_the_last_one(runs: Path, words: list[str], folder: str) -> None:
    if folder != "runs":
        (runs / "runs").rename(runs / folder)
        words = [*words, "--folder", folder]
    named = call([*words, f"{folder}/20260102-two"])
    last = call(words)
    assert (last.exit_code, last.stdout) == (named.exit_code, named.stdout)
    assert last.stdout
    told, _, rest = last.stderr.partition("\n")
    assert told == f"run: {folder}/20260102-two (the last one)"
    assert rest == named.stderr


def test_a_site_of_the_last_run_needs_no_argument(runs: Path) -> None:
    done = call(["site"])
    assert done.exit_code == 0
    assert done.stderr.startswith("run: runs/20260102-two (the last one)\n")
    assert "20260102-two" in (runs / "site" / "method.html").read_text()


def test_stdout_stays_one_document(runs: Path) -> None:
    assert json.loads(call(["report", "--json"]).stdout)["run"]["id"] == "20260102-two-1"


@pytest.mark.parametrize("name", READERS)
def test_where_there_is_no_run_a_command_says_so(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = call(name.split())
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("error: there is no run in runs\n  remedy: name one, ")


def test_options_of_a_group_hold_for_its_commands(runs: Path) -> None:
    (runs / "runs").rename(runs / "elsewhere")
    found = call(["runs", "--folder", "elsewhere", "--json", "list"])
    assert found == call(["runs", "list", "--json", "--folder", "elsewhere"])
    assert [one["name"] for one in json.loads(found.stdout)["runs"]] == [
        "20260101-one",
        "20260102-two",
    ]
    shown = json.loads(call(["runs", "--folder", "elsewhere", "--json", "show"]).stdout)
    assert shown["name"] == "20260102-two"
    assert json.loads(call(["profiles", "--json", "show", "host"]).stdout)["name"] == "host"


def test_a_newer_run_that_cannot_be_read_is_named(runs: Path) -> None:
    (runs / "runs" / "20260103-three").mkdir()
    (runs / "runs" / "20260103-three" / "plan.json").write_text("{")
    done = call(["verify"])
    assert done.stderr.startswith("warning: runs/20260103-three/plan.json: ")
    assert "run: runs/20260102-two (the last one)" in done.stderr
