"""What reaches a terminal: no control character of anybody's label, in any command's output or
error.
"""

from __future__ import annotations

import io
import json
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text

from cnibench.cli.main import group
from cnibench.cli.output import printing
from cnibench.errors import OutputError
from cnibench.run.progress import Lines, Terminal
from cnibench.rundir.schema import Unsupported, coordinates
from cnibench.system.text import HIDDEN, Screen, console, printable
from tests.unit._call import call
from tests.unit._runs import synthetic

ESCAPES = "\x1b]0;pwned\x07\x1b[31m\x9b2J\x7f\x08[bold red]x[/]"
LABELS = {
    ESCAPES: 1.0,
    "\u202egnp.exe\u2066\u200b\u200d\ufeff": 1.2,
    "two\nlines\r\u2028\u0085": 0.9,
    "L" * 900: 1.1,
    "\U000e0041\u00ad": 1.0,
}


def unfit(text: str) -> list[str]:
    return [letter for letter in HIDDEN.findall(text) if letter not in "\n\t"]


@given(st.text(st.characters(codec=None)))
def test_nothing_hidden_is_left_and_everything_else_stays(text: str) -> None:
    shown = printable(text, newlines=False)
    assert not HIDDEN.search(shown)
    assert not any(
        unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
        for letter in shown
        if ord(letter) < 0x1D7FF
    )
    visible = "".join(letter for letter in text if not HIDDEN.match(letter))
    assert "".join(letter for letter in HIDDEN.sub("", text)) == visible
    if visible == text:
        assert shown == text


@given(st.text())
def test_json_means_the_same_after_it(text: str) -> None:
    assert json.loads(printable(json.dumps([text], ensure_ascii=False))) == [text]


def test_rich_writes_its_own_sequences_and_no_others() -> None:
    out = io.StringIO()
    shown = console(out, force_terminal=True, color_system="standard", width=200)
    shown.print(Text(ESCAPES, style="red"))
    shown.print("[bold]no markup[/bold] :smile:")
    assert "\\u001b]0;pwned" in out.getvalue()
    assert "\x1b[31m" in out.getvalue()  # rich's own red
    assert "\x1b]" not in out.getvalue()
    assert "[bold]no markup[/bold] :smile:" in out.getvalue()


def test_a_screen_in_another_one_lets_rich_draw() -> None:
    """The lab guards the part of a command that it carries into its namespaces."""
    out = io.StringIO()
    within = Screen(Screen(out), comment=True)  # type: ignore[arg-type]
    console(within, force_terminal=True, color_system="standard", width=200).print(
        Text(ESCAPES, style="red")
    )
    assert "\x1b[31m" in out.getvalue()
    assert "\x1b]" not in out.getvalue()


def test_a_narrow_terminal_breaks_no_word_that_a_row_is_found_by(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Verdicts of 'cnibench claims', beside columns that need all the room that there is."""
    file = io.StringIO()
    monkeypatch.setattr(printing, "console", lambda: console(file, width=80))
    row = ("not-testable-here", *["many words in a column " * 4] * 4)
    printing.print_table(("verdict", *"abcd"), [row, ("holds", *"abcd")])
    assert "not-testable-here" in file.getvalue()
    assert max(map(len, file.getvalue().splitlines())) <= 80


def test_progress_is_clean_too(capsys: pytest.CaptureFixture[str]) -> None:
    for progress in (Lines(), Terminal(colour=False)):
        progress.begin(2, 1.0)
        progress.stage(ESCAPES)
        progress.notify(f"[bold]{ESCAPES}")
        progress.end()
    said = capsys.readouterr()
    assert "[bold]\\u001b" in said.err
    assert not unfit(said.err + said.out)


def a_run(folder: Path) -> Path:
    bad = next(iter(LABELS))
    reader = synthetic(
        folder,
        LABELS,
        blocks=6,
        fail=[(bad, 1)],
        environment={"testbed": ESCAPES, bad: bad, "kernel": ESCAPES},
        notes=[bad],
        unsupported=[Unsupported(label=bad, profile=bad, lacks=bad, remedy=bad)],
        command=["cnibench", bad],
        tool_version=ESCAPES,
    )
    plan = reader.plan
    steps = {
        "number": 0,
        "pod": bad,
        "ready": 0.1,
        "network": 0.1,
        "steps": [{"step": bad, "seconds": 0.1}],
    }
    rules = {
        "packet": bad,
        "hooks": 1,
        "chains": 1,
        "rules": 1,
        "matched": 1,
        "nodes": [
            {
                "node": bad,
                "hooks": 1,
                "chains": 1,
                "rules": 1,
                "matched": 1,
                "path": [
                    {
                        "hook": bad,
                        "chains": [
                            {
                                "family": bad,
                                "table": bad,
                                "chain": bad,
                                "evaluated": 1,
                                "matched": 1,
                            }
                        ],
                    }
                ],
            }
        ],
    }
    for name, record in (("pods", steps), ("rulepath", rules)):
        lines = [json.dumps({**coordinates(cell, 0), **record}) + "\n" for cell in plan.cells]
        (reader.path / f"{name}.jsonl").write_text("".join(lines))
    with (reader.path / "events.jsonl").open("a") as events:
        event = {
            "schema": 1,
            "time": "2026-01-01T00:00:00Z",
            "event": "profile-failed",
            "label": bad,
            "reason": bad,
        }
        events.write(json.dumps(event) + "\n")
    return reader.path


# What each command is asked; 'R' is the run. Those that say nothing of anybody's text are named for
# themselves.
ASKED: dict[str, list[list[str]]] = {
    "runs": [
        ["runs", "list", "--folder", "F"],
        ["runs", "show", "R"],
        ["runs", "--folder", "F", "--json"],
        ["runs", "show", ESCAPES],
    ],
    "report": (
        [
            ["report", "R", "--format", form]
            for form in ("text", "md", "csv", "json", "openmetrics", "benchstat")
        ]
        + [
            ["report", ESCAPES],
            ["report", "R", "--format", ESCAPES],
            ["report", "R", "--baseline", ESCAPES],
        ]
    ),
    "cpp": [
        ["cpp", "R"],
        ["cpp", "R", "--by", "function"],
        ["cpp", "R", "--cni", ESCAPES],
        ["cpp", "R", "--json"],
    ],
    "compare": [
        ["compare", f"R:{ESCAPES}", f"R:{'L' * 900}"],
        ["compare", "R:x", f"R:{ESCAPES}"],
        ["compare", ESCAPES, "R"],
    ],
    "fidelity": [["fidelity", "--cni", ESCAPES, "--agent", ESCAPES]],
    "claims": [["claims", "R", "--study", "qi2021"], ["claims", ESCAPES]],
    "reproduce": [
        ["reproduce", "qi2021", "--run", "R", "--figure", "8"],
        ["reproduce", ESCAPES],
        ["reproduce", "qi2021", "--figure", ESCAPES],
        ["reproduce", "qi2021", "--run", ESCAPES],
        ["reproduce", "qi2021", "--run", "R", "--figure", "8", "--out", ESCAPES],
    ],
    "query": [
        ["query", "SELECT DISTINCT label, profile FROM samples", "R"],
        ["query", f"SELECT '{ESCAPES}'", "R"],
        ["query", ESCAPES, "R"],
    ],
    "rbac": [
        ["rbac", "--user", ESCAPES, "--group", ESCAPES],
        ["rbac", "--pull-secret", ESCAPES],
        ["rbac", "--service-account", ESCAPES],
        ["rbac", "--level", "namespace", "-n", ESCAPES],
    ],
    "rulepath": [["rulepath", "R"], ["rulepath", ESCAPES]],
    "site": [["site", ESCAPES, "--out", "S"], ["site", "R", "--out", "R/plan.json"]],
    "import": [
        ["import", "iperf3", "I", "--placement", "inter", "--out", "O"],
        ["import", ESCAPES, "I"],
        ["import", "iperf3", ESCAPES],
    ],
    "run": [
        ["run", "--cni", f"{ESCAPES}=flannel", "--dry-run"],
        ["run", "--cni", ESCAPES],
        ["run", "--plan", ESCAPES],
        [ESCAPES],
        ["run", "--resume", ESCAPES],
        ["run", f"--{ESCAPES}"],
        ["run", "--cni", "flannel", "--workload", ESCAPES],
    ],
    "profiles": [["profiles", "show", ESCAPES]],
    "calibrate": [["calibrate", "--cni", ESCAPES]],
    "doctor": [["doctor", "--cluster", ESCAPES]],
    "offload": [["offload", "--cluster", ESCAPES]],
    "images": [["images", ESCAPES]],
    "bundle": [
        ["bundle", "R", "--out", "B"],
        ["bundle", ESCAPES],
        ["bundle", "R", "--sign", ESCAPES],
    ],
    "board": [["board", ESCAPES, "--out", "S"], ["board", ".", "--check"]],
    "clean": [["clean", "--cluster", ESCAPES]],
}


def test_every_command_is_asked() -> None:
    known = set(group.list_commands(None))  # type: ignore[arg-type]
    assert set(ASKED) <= known
    assert known - set(ASKED) <= {"verify"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("hostile")
    a_run(made / "F")
    inner = made / "I" / ESCAPES.replace("/", "-")
    inner.mkdir(parents=True)
    (inner / "x.json").write_bytes(
        (Path(__file__).parents[1] / "golden/iperf3/tcp.json").read_bytes()
    )
    return made


@pytest.mark.parametrize("command", ASKED)
def test_no_command_prints_a_control_character(
    command: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    shown = ""
    for asked in ASKED[command]:
        words = [
            {"F": "F", "R": "F/synthetic"}.get(
                word, word.replace("R:", "F/synthetic:").replace("R/", "F/synthetic/")
            )
            for word in asked
        ]
        found = call(words)
        assert not unfit(found.stdout), asked
        assert not unfit(found.stderr), asked
        assert "a bug in cnibench" not in found.stderr, (asked, found.stderr)
        shown += found.stdout + found.stderr
    assert "pwned" in shown  # it was printed


def test_json_keeps_the_labels(folder: Path) -> None:
    found = call(["runs", "show", str(folder / "F/synthetic"), "--json"])
    assert set(json.loads(found.stdout)["profiles"]) == set(LABELS)


def test_what_a_stream_does_not_take(tmp_path: Path) -> None:
    with open("/dev/full", "w") as full:
        screen = Screen(full)
        screen.write("x")
        with pytest.raises(OutputError):
            screen.flush()
        Screen(full, comment=True).write("x" * 100_000)
        full.flush()  # what was buffered goes nowhere: the interpreter's end does not fail
    narrow = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    Screen(narrow).write("né\udcff")
    narrow.flush()
    assert narrow.buffer.getvalue() == b"n\\xe9\\udcff"  # type: ignore[attr-defined]
