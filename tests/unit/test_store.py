"""The store: whatever is written is read again; whatever is cut off costs the line that it cuts."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cnibench.errors import InputError, MeasureError, UsageError
from cnibench.model.cell import SCHEMA, Attestation, Cell, Sample
from cnibench.run.provenance import Provenance, failure
from cnibench.rundir.index import find, runs
from cnibench.rundir.reader import RunReader
from cnibench.rundir.schema import Manifest, coordinates, migrate, new_id, now, record_file
from cnibench.rundir.verification import verify
from cnibench.rundir.writer import RunWriter

TEXT = st.text(max_size=30)


def cell(label: str = "flannel", **more: object) -> Cell:
    return msgspec.structs.replace(
        Cell(label=label, profile="flannel", placement="inter", workload="tcp-rr"), **more
    )


def manifest(*cells: Cell, blocks: int = 2) -> Manifest:
    return Manifest(
        id="r",
        name="",
        created=now(),
        command=["cnibench"],
        tool_version="0",
        seed=1,
        blocks=blocks,
        duration=1.0,
        warmup=0.0,
        cluster="lab",
        cells=list(cells),
        profiles={},
    )


def sample(of: Cell, block: int, value: float | None = 1.5, reason: str = "") -> Sample:
    line = failure(
        of,
        block,
        Provenance("lab", "veth", "all", "baseline"),
        "failed" if reason else "ok",
        reason,
        now(),
    )[0]
    return msgspec.structs.replace(
        line, metric="throughput", unit="bit/s", better="higher", value=value
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "run"


def test_all_that_is_written_is_read_again(folder: Path) -> None:
    one = cell()
    with RunWriter.create(folder, manifest(one)) as writer:
        writer.event("run-started")
        writer.environment({"kernel": "6.1"})
        check = Attestation(
            label="flannel",
            profile="flannel",
            check="mtu",
            expected="1450",
            observed="1450",
            passed=True,
        )
        writer.attestations([check])
        writer.finish(one, 0, [sample(one, 0), sample(one, 0, 2.5)], [("cpp", {"total": 7.0})])
        writer.event("run-finished")
    reader = RunReader(folder)
    assert reader.plan == manifest(one).__class__(
        **{**msgspec.structs.asdict(manifest(one)), "created": reader.plan.created}
    )
    assert [item.value for item in reader.samples()] == [1.5, 2.5]
    assert reader.attestations() == [check]
    assert reader.environment["kernel"] == "6.1"
    (record,) = reader.records("cpp")
    assert (record["total"], record["cell"], record["block"], record["placement"]) == (
        7.0,
        one.id,
        0,
        "inter",
    )
    assert reader.record_names() == ["cpp"]
    assert reader.done() == {(one.id, 0)}
    assert reader.finished
    assert not reader.warnings


@settings(max_examples=25)
@given(
    label=TEXT,
    reason=TEXT,
    params=st.dictionaries(
        TEXT, st.one_of(TEXT, st.integers(-(2**53), 2**53), st.booleans()), max_size=3
    ),
)
def test_any_text_survives(
    tmp_path: Path, label: str, reason: str, params: dict[str, object]
) -> None:
    folder = tmp_path / new_id()
    one = cell(label, params=params)
    with RunWriter.create(folder, manifest(one)) as writer:
        written = sample(one, 0, None, reason)
        assert writer.raw(one, 0).is_relative_to(folder / "raw")
        writer.finish(one, 0, [written], [("series", {"what": reason})])
    reader = RunReader(folder)
    assert list(reader.samples()) == [written]
    assert reader.plan.cells == [one]
    assert [record["what"] for record in reader.records("series")] == [reason]
    shutil.rmtree(folder)


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in folder.rglob("*")
        if file.is_file()
    }


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_a_file_cut_anywhere_is_resumed_without_losing_a_byte_or_left_as_it_is(
    tmp_path: Path, data: st.DataObject
) -> None:
    folder = tmp_path / new_id()
    cells = [cell(f"l{number}") for number in range(3)]

    def measure(writer: RunWriter, number: int) -> None:
        samples = [sample(cells[number], 0, float(number)), sample(cells[number], 0, number + 0.5)]
        writer.finish(cells[number], 0, samples, [("cpp", {"total": 1.0 * number})])

    with RunWriter.create(folder, manifest(*cells)) as writer:
        writer.event("run-started")
        for number in range(3):
            measure(writer, number)
    name = data.draw(st.sampled_from(["samples.jsonl", "cpp.jsonl", "events.jsonl"]))
    at = data.draw(st.integers(0, (folder / name).stat().st_size))
    os.truncate(folder / name, at)
    before = contents(folder)
    reader = RunReader(folder)
    found = [item.value for item in reader.samples()]
    assert found == [
        value for value in (0.0, 0.5, 1.0, 1.5, 2.0, 2.5) if value in found
    ]  # an intact part, in order
    assert len(found) % 2 == 0  # whole samples only
    done = reader.done()
    damaged = bool(verify(RunReader(folder)))
    if damaged:
        with pytest.raises(InputError, match="damaged and cannot be resumed"):
            RunWriter.resume(folder)
        assert contents(folder) == before
    else:
        with RunWriter.resume(folder) as writer:
            for number, one in enumerate(cells):
                if (one.id, 0) not in done:
                    measure(writer, number)
        after = RunReader(folder)
        assert not verify(after)
        assert after.done() == {(one.id, 0) for one in cells}
        assert {item.value for item in after.samples()} == {0.0, 0.5, 1.0, 1.5, 2.0, 2.5}
        now_there = contents(folder)
        for (
            file,
            old,
        ) in before.items():  # all that was there is still there, in its place or beside it
            orphans = b"".join(
                now_there[other] for other in now_there if other.startswith(f"{file}.orphan-")
            )
            kept = len(old) - len(orphans)
            assert now_there[file].startswith(old[:kept])
            assert old[kept:] == orphans
    shutil.rmtree(folder)


def test_what_was_in_flight_is_moved_aside_on_resume(folder: Path) -> None:
    one = cell()
    with RunWriter.create(folder, manifest(one)) as writer:
        writer.finish(one, 0, [sample(one, 0)], [("cpp", {"total": 1.0})])
        writer._append("cpp.jsonl", [{**coordinates(one, 1), "total": 2.0}])
        writer._append("sizes.jsonl", [{**coordinates(one, 1), "packets": 2}])
        writer._append("samples.jsonl", [sample(one, 1)])
        writer.raw(one, 1).joinpath("stdout").write_text("half")
    (folder / "notes.jsonl").write_text("of somebody else\n")
    flying = {
        name: (folder / name).read_bytes().splitlines(keepends=True)[-1]
        for name in ("samples.jsonl", "cpp.jsonl", "sizes.jsonl")
    }
    assert not verify(RunReader(folder))
    assert len(list(RunReader(folder).samples())) == 1
    with RunWriter.resume(folder) as writer:
        assert RunReader(folder).done() == {(one.id, 0)}
        assert (folder / "samples.jsonl.orphan-1").read_bytes() == flying["samples.jsonl"]
        assert (folder / "cpp.jsonl.orphan-1").read_bytes() == flying["cpp.jsonl"]
        fresh = writer.raw(one, 1)
        assert not any(fresh.iterdir())
        assert fresh.with_name("1.interrupted-1").joinpath("stdout").read_text() == "half"
        writer.finish(one, 1, [sample(one, 1)], [("sizes", {"packets": 3})])
    assert (folder / "sizes.jsonl.orphan-1").read_bytes() == flying["sizes.jsonl"]
    assert [record["packets"] for record in RunReader(folder).records("sizes")] == [3]
    assert (folder / "notes.jsonl").read_text() == "of somebody else\n"
    assert not verify(RunReader(folder), raw=True)
    with RunWriter.resume(folder) as writer:
        writer._append("samples.jsonl", [sample(one, 2)])
    RunWriter.resume(folder).close()
    assert (folder / "samples.jsonl.orphan-2").exists()


def test_lost_events_are_refused_and_no_line_is_lost(folder: Path) -> None:
    one = cell()
    with RunWriter.create(folder, manifest(one, blocks=4)) as writer:
        for block in range(3):
            writer.finish(one, block, [sample(one, block)])
    lines = (folder / "samples.jsonl").read_bytes()
    events = (folder / "events.jsonl").read_bytes().splitlines(keepends=True)
    for kept in (None, 0, 1, 2):
        (folder / "events.jsonl").unlink(missing_ok=True)
        if kept is not None:
            (folder / "events.jsonl").write_bytes(b"".join(events[:kept]))
        with pytest.raises(InputError, match=r"events.jsonl") as caught:
            RunWriter.resume(folder)
        assert "restore it" in caught.value.remedy
        assert (folder / "samples.jsonl").read_bytes() == lines
        assert verify(RunReader(folder))


def test_cells_that_were_measured_together_are_committed_together(folder: Path) -> None:
    pairs = [cell(pair=number) for number in range(2)]
    with RunWriter.create(folder, manifest(*pairs)) as writer:
        writer.finish_all([(one, [sample(one, 0)], [("cpp", {"total": 1.0})]) for one in pairs], 0)
        writer.finish_all([(one, [sample(one, 1)], [("cpp", {"total": 2.0})]) for one in pairs], 1)
    assert len(RunReader(folder).done()) == 4
    events = (folder / "events.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "events.jsonl").write_bytes(b"".join(events[:-1]) + events[-1][:20])
    reader = RunReader(folder)
    assert reader.done() == {(one.id, 0) for one in pairs}
    assert not verify(reader)
    assert [item.block for item in reader.samples()] == [0, 0]
    with RunWriter.resume(folder) as writer:
        writer.finish_all([(one, [sample(one, 1, 7.0)], ()) for one in pairs], 1)
    assert (folder / "events.jsonl.orphan-1").read_bytes() == events[-2] + events[-1][:20]
    assert not verify(RunReader(folder))
    assert [item.value for item in RunReader(folder).samples()] == [1.5, 1.5, 7.0, 7.0]


def test_the_last_attempt_counts_and_earlier_ones_stay(folder: Path) -> None:
    one = cell()
    with RunWriter.create(folder, manifest(one)) as writer:
        writer.event("run-started")
        writer.raw(one, 0).joinpath("stdout").write_text("refused")
        writer.finish(one, 0, [sample(one, 0, None, "refused")], [("cpp", {"total": 1.0})])
        writer.finish(one, 1, [sample(one, 1)])
        writer.event("run-finished")
    assert RunReader(folder).done(retry_failed=True) == {(one.id, 1)}
    with RunWriter.resume(folder) as writer:
        writer.event("run-resumed")
        again = writer.raw(one, 0)
        again.joinpath("stdout").write_text("9.5")
        writer.finish(one, 0, [sample(one, 0, 9.5)], [("cpp", {"total": 2.0})])
        writer.event("run-finished")
    reader = RunReader(folder)
    assert [(item.block, item.value, item.attempt) for item in reader.samples()] == [
        (1, 1.5, 1),
        (0, 9.5, 2),
    ]
    assert [record["total"] for record in reader.records("cpp")] == [2.0]
    assert reader.raw(one, 0) == again
    assert reader.raw_bytes(one, 0, "stdout") == b"9.5"
    assert (again.parent / "0" / "stdout").read_text() == "refused"
    assert (folder / "samples.jsonl").read_bytes().count(b"\n") == 3
    assert reader.done(retry_failed=True) == reader.done()
    assert reader.chain.again == 1
    assert not verify(reader, raw=True)


def test_every_session_keeps_its_environment(folder: Path) -> None:
    with RunWriter.create(folder, manifest(cell())) as writer:
        writer.event("run-started")
        writer.environment({"kernel": "6.1"})
        writer.environment({"kernel": "6.1", "installed": 1})
    with RunWriter.resume(folder) as writer:
        writer.event("run-resumed")
        writer.environment({"kernel": "6.9"})
    reader = RunReader(folder)
    assert [facts["kernel"] for facts in reader.environments] == ["6.1", "6.9"]
    assert reader.environment["installed"] == 1
    assert not verify(reader)


def test_every_plan_that_was_narrowed_stays(folder: Path) -> None:
    plan = manifest(cell(), blocks=3)
    with RunWriter.create(folder, plan) as writer:
        for blocks in (2, 1):
            writer.narrow(msgspec.structs.replace(plan, blocks=blocks))
    kept = [msgspec.json.decode((folder / f"plan-{n}.json").read_bytes()) for n in (1, 2)]
    assert [one["blocks"] for one in kept] == [3, 2]
    assert verify(RunReader(folder)) == []


def test_a_broken_line_in_the_middle_costs_its_sample(folder: Path) -> None:
    one = cell()
    with RunWriter.create(folder, manifest(one)) as writer:
        for block in range(3):
            writer.finish(one, block, [sample(one, block)])
    lines = (folder / "samples.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "samples.jsonl").write_bytes(lines[0] + b"\x00\xff garbage\n" + lines[2])
    reader = RunReader(folder)
    assert [item.block for item in reader.samples()] == [0, 2]
    assert {(problem.kind, problem.block) for problem in reader.problems} >= {("lost", 1)}


def test_two_processes_cannot_write_one_run(folder: Path) -> None:
    with (
        RunWriter.create(folder, manifest(cell())),
        pytest.raises(UsageError, match="another cnibench"),
    ):
        RunWriter.resume(folder)
    RunWriter.resume(folder).close()


def test_a_killed_writer_loses_no_finished_sample(folder: Path) -> None:
    """kill -9 at any moment: a real process writes as fast as it can and is killed."""
    program = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from pathlib import Path
from test_store import *
one = cell()
with RunWriter.create(Path({str(folder)!r}), manifest(one, blocks=100000)) as writer:
    for block in range(100000):
        writer.finish(one, block, [sample(one, block), sample(one, block)])
        print(block, flush=True)
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        seen = [int(process.stdout.readline()) for _ in range(20)]
        process.kill()
        seen += [int(line) for line in process.stdout if line.endswith("\n")]
    reader = RunReader(folder)
    blocks = {block for _, block in reader.done()}
    assert blocks >= set(seen)
    assert len(list(reader.samples())) >= 2 * len(seen)


def test_a_full_disk_keeps_what_is_finished(tmp_path: Path) -> None:
    """A limit on the file size gives the same short write and error path as a full disk (the tmpfs
    one is in the lab's tests).
    """
    folder = tmp_path / "run"
    program = f"""
import resource, signal, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from pathlib import Path
from test_store import *
from cnibench.rundir.files import FullError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
one = cell()
with RunWriter.create(Path({str(folder)!r}), manifest(one, blocks=1000)) as writer:
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
    try:
        for block in range(1000):
            writer.finish(one, block, [sample(one, block)])
    except FullError as error:
        print(block)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    blocks = int(done.stdout)
    reader = RunReader(folder)
    assert len(list(reader.samples())) in (blocks, blocks + 1)
    assert len(reader.done()) == blocks
    assert not reader.warnings
    with RunWriter.resume(folder) as writer:
        writer.finish(cell(), blocks, [sample(cell(), blocks)])
    assert len(list(RunReader(folder).samples())) == blocks + 1


def test_a_record_may_not_claim_another_place(folder: Path) -> None:
    one = cell()
    with (
        RunWriter.create(folder, manifest(one)) as writer,
        pytest.raises(MeasureError, match="reserved"),
    ):
        writer.finish(one, 0, [sample(one, 0)], [("cpp", {"label": "other"})])
    assert not list(RunReader(folder).samples())


@pytest.mark.parametrize("name", ["", "../x", "Cpp", "a/b", "a b", "-x"])
def test_record_files_have_plain_names(name: str) -> None:
    with pytest.raises(InputError):
        record_file(name)


def test_older_schemas_are_migrated_step_by_step() -> None:
    steps = {
        1: lambda file, record: {**record, "b": 1},
        2: lambda file, record: {**record, "c": record["b"] + 1},
    }
    assert migrate("x", {"schema": 1}, steps, target=3) == {"schema": 3, "b": 1, "c": 2}
    assert migrate("x", {"schema": 3}, steps, target=3) == {"schema": 3}
    for wrong in ({}, {"schema": "1"}, {"schema": True}, {"schema": 0}):
        with pytest.raises(InputError):
            migrate("x", wrong, steps, target=3)


def test_a_newer_line_is_refused_wherever_it_is(folder: Path) -> None:
    one = cell()
    with RunWriter.create(folder, manifest(one)) as writer:
        writer.finish(
            one, 0, [sample(one, 0), msgspec.structs.replace(sample(one, 0), schema=SCHEMA + 1)]
        )
    with pytest.raises(InputError, match="newer cnibench"):
        list(RunReader(folder).samples())


def test_runs_are_found_by_the_beginning_of_their_name(tmp_path: Path) -> None:
    for name in ("20260101-a", "20260102-b"):
        RunWriter.create(tmp_path / name, manifest(cell())).close()
    (tmp_path / "other").mkdir()
    assert [reader.path.name for reader in runs(tmp_path)] == ["20260101-a", "20260102-b"]
    assert find("20260101", tmp_path).name == "20260101-a"
    assert find("last", tmp_path).name == "20260102-b"
    with pytest.raises(UsageError, match="begins the names of 2 runs"):
        find("2026", tmp_path)
    with pytest.raises(UsageError, match="there is no run"):
        find("x", tmp_path)


def test_a_hundred_thousand_samples_are_decoded_as_one_buffer(folder: Path) -> None:
    """The speed itself is measured in benchmarks/; a path that is not linear would show here."""
    one = cell()
    with RunWriter.create(folder, manifest(one)) as writer:
        for block in range(10):
            writer.finish(one, block, [sample(one, block)] * 10_000)
    began = time.process_time()
    assert sum(1 for _ in RunReader(folder).samples()) == 100_000
    assert time.process_time() - began < 30
