"""What the user reads when something is wrong: each message is a golden file, and each exit status
that of INTERFACE.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from cnibench.cli.errors import guarded
from cnibench.cli.main import group
from cnibench.cli.measurement import packages
from cnibench.errors import InputError
from cnibench.model.cell import SCHEMA, Cell
from cnibench.run.provenance import Provenance, failure
from cnibench.rundir.writer import RunWriter
from tests._manifest import manifest

GOLDEN = Path(__file__).parent.parent / "golden" / "errors"
PROFILE = "cni-profiles/veth-baseline.yaml"


def call(*arguments: str) -> int:
    return guarded(lambda: group.main(list(arguments), prog_name="cnibench", standalone_mode=False))


def text(name: str, content: str) -> str:
    Path(name).write_text(content)
    return f"./{name}"


def plan(content: str) -> list[str]:
    return ["run", "--dry-run", "--cni", "veth-baseline", "--plan", text("plan.yaml", content)]


def a_run() -> Path:
    one = Cell(label="flannel", profile="flannel", placement="inter", workload="tcp-rr")
    plan = manifest([one])
    with RunWriter.create(Path("r"), plan) as writer:
        for block in range(2):
            writer.finish(
                one,
                block,
                failure(
                    one,
                    block,
                    Provenance("lab", "veth", "all", "baseline"),
                    "failed",
                    "gone",
                    plan.created,
                ),
            )
    return Path("r")


def newer_run() -> list[str]:
    file = a_run() / "plan.json"
    file.write_bytes(
        msgspec.json.encode({**msgspec.json.decode(file.read_bytes()), "schema": SCHEMA + 1})
    )
    return ["runs", "show", "r"]


def cut_off_run() -> list[str]:
    file = a_run() / "samples.jsonl"
    os.truncate(file, file.stat().st_size - 10)
    return ["report", "r", "--format", "csv"]


def without_netperf() -> list[str]:
    """A PATH with everything that the lab needs, except netperf."""
    Path("bin").mkdir()
    for tool in (
        "nsenter",
        "taskset",
        "iptables-restore",
        "ip6tables-restore",
        "ipset",
        "ip",
        "perf",
        "ss",
    ):
        found = shutil.which(tool, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
        if found:
            Path("bin", tool).symlink_to(found)
    os.environ["PATH"] = str(Path("bin").absolute())
    return ["run", "--cni", "veth-baseline", "--kernel", "host"]


IPERF3 = (GOLDEN.parent / "iperf3" / "tcp.json").read_text()


def imported(path: str) -> list[str]:
    return ["import", "iperf3", path, "--placement", "inter"]


CASES: dict[str, tuple[int, Callable[[], list[str]]]] = {
    "unknown-command": (2, lambda: ["rnu"]),
    "unknown-profile": (2, lambda: ["run", "--cni", "flanel"]),
    "unknown-workload": (2, lambda: ["run", "--cni", "veth-baseline", "--workload", "tcp-rrr"]),
    "unknown-parameter": (
        2,
        lambda: ["run", "--cni", "veth-baseline", "--workload", "tcp-rr:size=3"],
    ),
    "unknown-run": (2, lambda: ["run", "--resume", "nothing"]),
    "no-profile": (2, lambda: ["run"]),
    "label-twice": (2, lambda: ["run", "--cni", "a=flannel,a=veth-baseline"]),
    "label-unknown": (2, lambda: ["run", "--cni", "veth-baseline", "--set", "b:x=1"]),
    "impossible-duration": (2, lambda: ["run", "--cni", "veth-baseline", "--duration", "0s"]),
    "no-duration": (2, lambda: ["run", "--cni", "veth-baseline", "--duration", "soon"]),
    "day-long-duration": (2, lambda: ["run", "--cni", "veth-baseline", "--warmup", "1000h"]),
    "wrong-blocks": (2, lambda: ["run", "--cni", "veth-baseline", "--blocks", "many"]),
    "wrong-choice": (2, lambda: ["run", "--cni", "veth-baseline", "--ip", "5"]),
    "resume-with-options": (2, lambda: ["run", "--resume", str(a_run()), "--blocks", "3"]),
    "broken-yaml": (2, lambda: plan("cni: [flannel\nduration: 3s\n")),
    "extra-key": (2, lambda: plan("durtion: 3s\n")),
    "alias": (2, lambda: plan("a: &a [x, x]\nb: [*a, *a]\n")),
    "key-twice": (2, lambda: plan("seed: 1\nseed: 2\n")),
    "not-text": (
        2,
        lambda: (Path("p.yaml").write_bytes(b"\xff\xfe\x00"), ["run", "--plan", "p.yaml"])[1],
    ),
    "no-plan": (2, lambda: ["run", "--plan", "nowhere.yaml"]),
    "profile-extra-key": (
        2,
        lambda: [
            "run",
            "--cni",
            text("x.yaml", (Path(__file__).parents[2] / PROFILE).read_text() + "speed: 3\n"),
        ],
    ),
    "newer-run": (2, newer_run),
    "cut-off-line": (1, cut_off_run),
    "not-a-run": (2, lambda: (Path("empty").mkdir(), ["runs", "show", "empty"])[1]),
    "not-a-plain-file": (2, lambda: (os.mkfifo("x.yaml"), ["run", "--cni", "./x.yaml"])[1]),
    "no-blocks": (2, lambda: ["run", "--cni", "veth-baseline", "--blocks", "0"]),
    "too-many-pairs": (2, lambda: ["run", "--cni", "veth-baseline", "--pairs", "999"]),
    "slow-wire": (2, lambda: ["run", "--cni", "veth-baseline", "--wire-rate", "10k"]),
    "setting-unknown": (
        2,
        lambda: ["run", "--kernel", "host", "--cni", "x=flannel", "--set", "x:colour=red"],
    ),
    "setting-wrong": (
        2,
        lambda: [
            "run",
            "--kernel",
            "host",
            "--cni",
            "x=cilium,y=flannel",
            "--set",
            "x:host_routing=fast",
        ],
    ),
    "missing-tool": (3, without_netperf),
    "import-pipe": (2, lambda: (os.mkfifo("x.json"), imported("x.json"))[1]),
    "import-link": (
        2,
        lambda: (Path("d").mkdir(), Path("d/x.json").symlink_to("/etc/passwd"), imported("d"))[2],
    ),
    "import-deep": (2, lambda: imported(text("x.json", "[" * 100_000))),
    "import-not-text": (
        2,
        lambda: (Path("x.json").write_bytes(b'{"a": "\xff"}'), imported("x.json"))[1],
    ),
    "import-wrong-type": (2, lambda: imported(text("x.json", '{"start": [1], "end": "x"}'))),
    "deep-yaml": (2, lambda: plan("a: " + "[" * 5000)),
    "folder-for-a-plan": (
        2,
        lambda: (Path("p.yaml").mkdir(), ["run", "--dry-run", "--plan", "p.yaml"])[1],
    ),
    "folder-for-a-report": (2, lambda: ["report", str(a_run()), "--out", "r"]),
    "full-file": (2, lambda: ["report", str(a_run()), "--out", "/dev/full"]),
    "escape-in-a-name": (2, lambda: ["report", "\x1b]0;x\x07\u202e"]),
}


def nearest_one(said: str) -> str:
    """The first of the nearest names only: adding a profile, a workload or a command changes the
    others.
    """
    return re.sub(r"(nearest(?: keys)?: [^,\n]+).*", r"\1", said)


@pytest.mark.parametrize("name", CASES)
def test_message_and_exit_status(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", os.environ["PATH"])
    monkeypatch.setattr(packages, "_system", lambda: ("debian",))
    status, arguments = CASES[name]
    got = call(*arguments())
    said = nearest_one(capsys.readouterr().err.replace(str(tmp_path), "DIR"))
    assert said == (GOLDEN / f"{name}.txt").read_text()
    assert got == status
    assert "Traceback" not in said
    if status and name != "cut-off-line":  # a report is made of what is left
        assert said.startswith("error: ")
        assert "\n  remedy: " in said
    assert not Path("runs").exists()


def test_every_golden_message_belongs_to_a_test() -> None:
    elsewhere = {"no-root", "read-only-run"}  # tests/e2e/test_run_faults.py
    assert {file.stem for file in GOLDEN.glob("*.txt")} == set(CASES) | elsewhere


def test_debug_shows_the_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CNIBENCH_DEBUG", "1")
    assert call("run", "--cni", "flanel") == 2
    assert "Traceback" in capsys.readouterr().err


def test_a_defect_is_reported_as_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("CNIBENCH_DEBUG", raising=False)

    def slip() -> None:
        raise ZeroDivisionError("by zero")

    assert guarded(slip) == 1
    said = capsys.readouterr().err
    assert said.startswith("error: a bug in cnibench: ZeroDivisionError: by zero\n  remedy: ")


@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        (MemoryError(), 3, "there is not enough memory for this"),
        (RecursionError("x"), 2, "something in the input is nested too deeply"),
        (
            OSError(errno.ENOSPC, "No space left on device", "a/b"),
            3,
            "a/b: No space left on device",
        ),
        (PermissionError(errno.EACCES, "Permission denied", "a/b"), 2, "a/b: Permission denied"),
        (OSError(errno.EROFS, "Read-only file system", "a"), 3, "a: Read-only file system"),
        (
            OSError(errno.EMFILE, "Too many open files"),
            3,
            "Too many open files\n  remedy: raise the limit of open files (ulimit -n)",
        ),
        (
            FileNotFoundError(errno.ENOENT, "No such file or directory", "/proc/x"),
            1,
            "a bug in cnibench",
        ),
    ],
)
def test_what_the_machine_lacks_is_no_defect(
    error: Exception, status: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise error

    assert guarded(fail) == status
    said = capsys.readouterr().err
    assert said.startswith(f"error: {words}")
    assert "\n  remedy: " in said


def test_a_newline_in_a_message_is_no_line_of_ours(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        raise InputError("x\nerror: fake\n  remedy: rm -rf /", "a\nb")

    assert guarded(fail) == 2
    assert capsys.readouterr().err == "error: x error: fake remedy: rm -rf /\n  remedy: a b\n"


def test_ctrl_c_is_130(capsys: pytest.CaptureFixture[str]) -> None:
    def pressed() -> None:
        raise KeyboardInterrupt

    assert guarded(pressed) == 130
    assert capsys.readouterr().err == "error: interrupted\n"
