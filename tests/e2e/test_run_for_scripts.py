"""A run as scripts use it: ``--quiet``, commands that take the last run, and every example of
``query --help`` on what was measured.
"""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from _commands import run

PLAN = """\
schema: 1
title: a little of everything
cni: [flannel-udp, kube-router]
placement: inter
method: windows
duration: 1s
warmup: 0s
blocks: 2
workload:
- {name: tcp-stream, windows: speed}
- {name: tcp-rr, windows: speed, params: {policy.entries: 10}}
- {name: tcp-rr, windows: speed, blocks: 1, params: {policy.layer: L7}}
- {name: tcp-rr, windows: cpp, duration: 3s, blocks: 1}
"""


def rows(sql: str, *run_: str) -> list[dict[str, Any]]:
    done = run("query", sql, *run_, "--json")
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)["rows"]
    return found


def test_a_quiet_run_and_all_that_is_asked_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("plan.yaml").write_text(PLAN)
    measured = run("run", "--plan", "plan.yaml", "--kernel", "host", "-q", limit=300.0)
    assert measured.returncode == 1, measured.stderr  # the lab has no rule of HTTP
    (line,) = measured.stdout.splitlines()
    path = Path(line)
    assert (path.parent, (path / "report.md").exists()) == (tmp_path / "runs", True)
    *said, last = measured.stderr.splitlines()
    # on a machine with other work samples may be disturbed
    assert all(one.startswith("warning: ") or "disturbed" in one for one in said), measured.stderr
    assert re.fullmatch("[0-9]+ of 12 samples failed; the report says why", last)

    reported = run("report", "--json")
    assert reported.stderr.startswith(f"run: runs/{path.name} (the last one)\n")
    report = json.loads(reported.stdout)
    assert report["run"]["id"] == path.name
    assert run("verify").returncode == 0
    assert run("site", "--out", "public").returncode == 0
    assert path.name in Path("public/index.html").read_text()

    help = run("query", "--help").stdout.partition("Examples:\n")[2]
    examples = [part.strip() for part in help.split("cnibench query")[1:]]
    assert len(examples) == 9
    for example in examples:
        words = shlex.split(example)
        if words != ["--tables"]:
            assert rows(*words), words[0]
    for table in ("results", "pairs", "attestations"):
        found = rows(f"select * from {table}", line)
        assert len(found) == len(report[table]) > 0
        for row, one in zip(found, report[table], strict=True):
            given = {name: value for name, value in row.items() if name not in ("run", "params")}
            assert given == {name: one[name] for name in given}
    assert {row["process"] for row in rows("select process from footprint", line)} > {"all"}
    assert {row["status"] for row in rows("select status from failures", line)} >= {"unsupported"}

    again = run("run", "--resume", "last", "--quiet")
    assert (again.returncode, again.stdout) == (1, measured.stdout)
    assert run("run", "--cni", "kube-router", "--dry-run", "--quiet").stdout == ""
