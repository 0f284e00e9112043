"""Runs from before cnibench chained its files: read, verified as far as possible, and resumed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cnibench.rundir.reader import RunReader
from cnibench.rundir.verification import verify
from cnibench.rundir.writer import RunWriter
from tests.unit._call import call
from tests.unit._runs import synthetic


def test_an_older_run_says_once_that_it_is_not_chained(tmp_path: Path) -> None:
    reader = synthetic(tmp_path, {"a": 1.0, "b": 0.9}, blocks=2)
    told = call(["verify", str(reader.path)])
    assert told.exit_code == 0
    assert "without hash chain" in told.stdout
    report = call(["report", str(reader.path)])
    assert report.exit_code == 0
    assert " ".join(report.stdout.split()).count("before cnibench chained its files") == 1


@pytest.mark.parametrize("file", ["samples.jsonl", "cpp.jsonl"])
@pytest.mark.parametrize(
    "command",
    [
        ["verify"],
        ["report"],
        ["claims"],
        ["cpp"],
        ["query", "select count(*) from samples"],
        ["runs", "show"],
    ],
    ids=" ".join,
)
def test_a_broken_line_of_an_older_run_is_named(
    tmp_path: Path, command: list[str], file: str
) -> None:
    reader = synthetic(tmp_path, {"a": 1.0, "b": 0.9}, blocks=2)
    lines = (reader.path / file).read_bytes().splitlines(keepends=True)
    lines[2] = b"\xff" + lines[2][1:]
    (reader.path / file).write_bytes(b"".join(lines))
    told = call([*command, str(reader.path)])
    assert told.exit_code == 1
    assert f"{file}, line 3: changed" in " ".join((told.stdout + told.stderr).split())


def test_an_older_run_is_resumed_and_chained_from_then_on(tmp_path: Path) -> None:
    old = synthetic(
        tmp_path,
        {"a": 1.0},
        blocks=2,
        cpp=False,
        finished=False,
        fail=[("a", 1)],
        workloads=("tcp-rr",),
        placements=("intra",),
    )
    before = list(old.samples())
    sizes = {
        name: (old.path / name).stat().st_size for name in ("samples.jsonl", "attestations.jsonl")
    }
    events = (
        (old.path / "events.jsonl")
        .read_text()
        .replace('"sizes":{}', f'"sizes":{json.dumps(sizes)}')
    )
    (old.path / "events.jsonl").write_text(events)
    cell = old.plan.cells[0]
    (old.path / "raw" / cell.id / "7").mkdir(parents=True)  # in flight; --target-ci is met then
    with RunWriter.resume(old.path) as writer:
        writer.event("run-resumed")
        writer.finish(cell, 1, [before[0]])
        writer.event("run-finished")
    reader = RunReader(old.path)
    assert not verify(reader, raw=True)
    assert reader.chain.chained
    assert [(item.block, item.status) for item in reader.samples()] == [
        *((0, "ok") for item in before[:-1]),
        (0, "ok"),
    ]
    assert reader.done() == {(cell.id, 0), (cell.id, 1)}
    file = old.path / "samples.jsonl"
    file.write_bytes(file.read_bytes().replace(b'"mtu":1500', b'"mtu":9000', 1))
    assert verify(RunReader(old.path))
