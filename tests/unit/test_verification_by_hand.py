"""What ``verify`` says of a real run directory that was damaged by hand: all of it, and nothing
more.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import msgspec
import pytest

from cnibench.errors import InputError
from cnibench.model.cell import Attestation, Cell, Sample
from cnibench.run.provenance import Provenance, failure
from cnibench.rundir import verification
from cnibench.rundir.chain import Problem
from cnibench.rundir.reader import RunReader
from cnibench.rundir.schema import SEAL, now
from cnibench.rundir.verification import verify
from cnibench.rundir.writer import RunWriter
from tests._manifest import manifest
from tests.unit.test_schema_by_hand import CELL

CELLS = [CELL, msgspec.structs.replace(CELL, label="y")]
NAMES = [cell.id for cell in CELLS]


def _sample(cell: Cell, block: int) -> Sample:
    line = failure(cell, block, Provenance("lab", "veth", "all", "baseline"), "ok", "", now())[0]
    return msgspec.structs.replace(line, metric="throughput", value=1.5)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Two cells in two blocks with raw output; finished."""
    with RunWriter.create(tmp_path / "run", manifest(CELLS)) as writer:
        writer.event("run-started")
        writer.environment({"kernel": "6.1"})
        check = Attestation(
            label="x", profile="p", check="mtu", expected="1", observed="1", passed=True
        )
        writer.attestations([check])
        for block in range(2):
            for cell in CELLS:
                (writer.raw(cell, block) / "stdout").write_bytes(b"42\n")
                writer.finish(cell, block, [_sample(cell, block)], [("cpp", {"total": 1.0})])
        writer.event("run-finished")
    return tmp_path / "run"


def _verify(run: Path) -> list[Problem]:
    return verify(RunReader(run), raw=True)


def _problem(kind: str, file: str, detail: str, **more: object) -> Problem:
    return Problem(kind=kind, file=file, detail=detail, **more)  # type: ignore[arg-type]


def test_a_sound_run_has_no_problems(run: Path) -> None:
    assert _verify(run) == []
    reader = RunReader(run)
    verify(reader)
    assert reader.lines.complete == {"samples.jsonl", "attestations.jsonl", "cpp.jsonl"}
    assert reader.warnings == []


def test_documents_are_those_that_the_events_name(run: Path) -> None:
    (run / "env.json").write_bytes((run / "env.json").read_bytes() + b" ")
    plan = json.loads((run / "plan.json").read_bytes())
    (run / "plan.json").write_text(json.dumps({**plan, "seed": 2}))
    assert _verify(run) == [
        _problem("changed", "plan.json", "it is not what was written"),
        _problem("changed", "env.json", "it is not what was written"),
    ]
    (run / "env.json").unlink()
    assert _verify(run)[1] == _problem("lost", "env.json", "the file is missing")


def test_a_document_that_is_no_file_is_refused(run: Path) -> None:
    (run / "env.json").unlink()
    (run / "env.json").mkdir()
    with pytest.raises(InputError, match=r"env\.json: "):
        verify(RunReader(run))


def test_a_run_without_events_had_not_started(run: Path) -> None:
    (run / SEAL).unlink()
    (run / "events.jsonl").write_bytes(b"")
    empty = _problem("lost", "events.jsonl", "it is empty, but the run had started")
    assert empty in verify(RunReader(run))
    (run / "env.json").unlink()
    assert empty not in verify(RunReader(run))


def _events(run: Path, keep: slice) -> None:
    path = run / "events.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[keep]))


def test_the_seal_names_the_last_line(run: Path) -> None:
    last = len((run / "events.jsonl").read_bytes().splitlines())
    seal = json.loads((run / SEAL).read_bytes())
    assert seal["lines"] == last
    _events(run, slice(-1))
    detail = f"the run had finished with line {last}, which is missing or was changed"
    assert _verify(run) == [_problem("lost", "events.jsonl", detail, line=last)]
    (run / SEAL).write_text(json.dumps({**seal, "lines": 2}))
    assert _verify(run) == [
        _problem("changed", "events.jsonl", detail.replace(f"line {last}", "line 2"), line=2)
    ]
    for text in (b"{}", b"", b"[", b'{"lines": 1}', b'{"lines": "x", "sha256": ""}', b"\xff"):
        (run / SEAL).write_bytes(text)
        assert _verify(run) == [_problem("changed", SEAL, "it cannot be read")]
    (run / SEAL).unlink()
    assert _verify(run) == []
    (run / SEAL).mkdir()
    with pytest.raises(InputError, match=r"seal\.json: "):
        verify(RunReader(run))


def test_lines_of_every_file_are_verified(run: Path) -> None:
    for name in ("samples.jsonl", "attestations.jsonl", "cpp.jsonl"):
        text = (run / name).read_bytes()
        (run / name).write_bytes(text.replace(b'"label":"x"', b'"label":"z"', 1))
        assert {one.file for one in _verify(run)} == {name}
        (run / name).write_bytes(text)
    assert _verify(run) == []


def test_an_older_run_is_verified_by_decoding_it(tmp_path: Path) -> None:
    run = tmp_path / "old"
    run.mkdir()
    plan = msgspec.to_builtins(manifest([CELL]))
    (run / "plan.json").write_text(json.dumps({**plan, "schema": 1}))
    sample = msgspec.to_builtins(_sample(CELL, 0)) | {"schema": 1}
    (run / "samples.jsonl").write_text(json.dumps(sample) + "\n{\n")
    (run / "cpp.jsonl").write_text('{"schema": 1}\n[]\n')
    found = verify(RunReader(run))
    assert [(one.kind, one.file, one.line) for one in found] == [
        ("changed", "cpp.jsonl", 2),
        ("changed", "samples.jsonl", 2),
    ]


@pytest.mark.parametrize("few", [True, False])
def test_every_reader_verifies_raw_files_unless_they_are_many(
    run: Path, monkeypatch: pytest.MonkeyPatch, few: bool
) -> None:
    files = sum(len(event.raw) for event in RunReader(run).chain.events)
    monkeypatch.setattr(verification, "MOST_RAW", files if few else files - 1)
    changed, gone = (run / "raw" / name / "1" / "stdout" for name in NAMES)
    changed.write_bytes(b"43\n")
    gone.unlink()
    problems = [
        _problem(
            "changed",
            f"raw/{NAMES[0]}/1/stdout",
            "it is not what was recorded",
            cell=NAMES[0],
            block=1,
        ),
        _problem(
            "lost", f"raw/{NAMES[1]}/1/stdout", "the raw file is missing", cell=NAMES[1], block=1
        ),
    ]
    assert _verify(run) == problems
    assert len(verify(RunReader(run))) == (2 if few else 0)


def test_a_reader_passes_over_raw_files_without_end_and_says_so(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (run / "raw" / name / "1" / "stdout" for name in NAMES)
    os.truncate(first, 3 << 20)
    second.unlink()
    monkeypatch.setattr(verification, "MOST_RAW_BYTES", 2 << 20)
    reader = RunReader(run)
    assert [(one.kind, one.file) for one in verify(reader)] == [
        ("lost", str(second.relative_to(run)))
    ]
    assert reader.warnings == [
        "1 raw file beyond 2 MiB not verified: 'cnibench verify' reads all of them"
    ]
    assert len(_verify(run)) == 2


def test_a_reader_reads_no_more_of_all_raw_files_than_that(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in NAMES:
        os.truncate(run / "raw" / name / "1" / "stdout", 1 << 20)
    monkeypatch.setattr(verification, "MOST_RAW_BYTES", (1 << 20) + 100)
    assert len(verify(RunReader(run))) == 1  # the second is more than it reads
    assert len(_verify(run)) == 2


def test_raw_files_of_each_attempt_are_verified(run: Path) -> None:
    with RunWriter.resume(run) as writer:
        writer.event("run-resumed")
        folder = writer.raw(CELL, 0)
        (folder / "stdout").write_bytes(b"44\n")
        writer.finish(CELL, 0, [_sample(CELL, 0)])
    assert _verify(run) == []
    (folder / "stdout").write_bytes(b"45\n")
    (problem,) = _verify(run)
    assert problem.file == f"raw/{NAMES[0]}/0.attempt-2/stdout"


def test_a_raw_file_that_is_too_large_or_no_file_is_changed(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verification, "LONGEST_LINES", 3)
    assert _verify(run) == []
    monkeypatch.setattr(verification, "LONGEST_LINES", 2)
    found = _verify(run)
    assert {(one.kind, one.detail) for one in found} == {("changed", "it is not what was recorded")}
    assert len(found) == 4
    monkeypatch.undo()
    path = run / "raw" / NAMES[0] / "0" / "stdout"
    path.unlink()
    os.mkfifo(path)
    (problem,) = _verify(run)
    assert (problem.kind, problem.file) == ("changed", f"raw/{NAMES[0]}/0/stdout")


def test_a_large_raw_file_is_read_in_pieces(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification, "_CHUNK", 1)
    assert _verify(run) == []


def test_raw_output_of_several_samples_without_events_is_a_loss(run: Path) -> None:
    """One sample may have been in flight, or pairs that were measured at the same time."""
    raw = run / "raw"
    finished = (run / "events.jsonl").read_bytes()
    _events(run, slice(-1))
    (run / SEAL).unlink()
    for name in ("2", "0.attempt-1", "2.interrupted-1", "x", "²", "1234567890"):
        (raw / NAMES[0] / name).mkdir()
    (raw / NAMES[0] / "4").write_bytes(b"")  # no folder
    assert _verify(run) == []
    (raw / NAMES[1] / "2").mkdir()
    lines = len((run / "events.jsonl").read_bytes().splitlines())
    (problem,) = _verify(run)
    first = f"{NAMES[0]}, block 2"
    assert problem == _problem(
        "lost",
        "events.jsonl",
        f"raw output of 2 samples is there that no event commits, the first of {first}",
        line=lines + 1,
    )
    (run / "events.jsonl").write_bytes(finished)  # nothing is in flight any more
    assert _verify(run) == [
        _problem("not chained", f"raw/{name}/2", "no event commits this folder", cell=name, block=2)
        for name in NAMES
    ]
    (raw / NAMES[0] / "2").rmdir()
    os.rename(raw / NAMES[1], raw / "elsewhere")
    os.symlink("elsewhere", raw / NAMES[1])
    assert [one.kind for one in _verify(run)] == ["lost", "lost"]  # a link is not followed


@pytest.mark.parametrize(
    ("change", "together"),
    [
        ({"pair": 1}, True),
        ({"label": "z"}, False),
        ({"placement": "intra"}, False),
        ({"path": "clusterip"}, False),
        ({"workload": "udp-rr"}, False),
        ({"params": {"size": 1}}, False),
        ({"ip": 6}, False),
        ({"window": "cpp"}, False),
    ],
)
def test_pairs_of_one_place_are_one_sample_in_flight(
    tmp_path: Path, change: dict[str, object], together: bool
) -> None:
    cells = [CELL, msgspec.structs.replace(CELL, **change)]
    run = tmp_path / "run"
    with RunWriter.create(run, manifest(cells)) as writer:
        writer.event("run-started")
        for cell in cells:
            writer.raw(cell, 0)
    assert bool(_verify(run)) != together
    os.rename(run / "raw" / cells[1].id / "0", run / "raw" / cells[1].id / "1")
    assert _verify(run)


def test_a_live_run_that_grows_has_lost_nothing(run: Path) -> None:
    reader = RunReader(run)
    assert reader.chain.count
    with (run / "events.jsonl").open("ab") as file:
        file.write(b"{}\n")
    (run / "env.json").unlink()
    (run / SEAL).write_text('{"lines": 99, "sha256": ""}')
    for name in NAMES:
        (run / "raw" / name / "2").mkdir()
    assert verify(reader, raw=True) == []
