"""What is left of a run whose writer was killed, whose disk was full or whose files lost lines:
every finished sample, and the run can be resumed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cnibench.errors import InputError
from cnibench.rundir.reader import RunReader
from cnibench.rundir.schema import coordinates, new_id
from cnibench.rundir.verification import verify
from cnibench.rundir.writer import RunWriter
from cnibench.rundir.writing.recovery import NO_NEWLINE
from tests._manifest import manifest
from tests.unit._store import cell, sample

REPOSITORY = Path(__file__).parents[2]


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
    folder = tmp_path / new_id("run")
    cells = [cell(f"l{number}") for number in range(3)]

    def measure(writer: RunWriter, number: int) -> None:
        samples = [sample(cells[number], 0, float(number)), sample(cells[number], 0, number + 0.5)]
        writer.finish(cells[number], 0, samples, [("cpp", {"total": 1.0 * number})])

    with RunWriter.create(folder, manifest(cells)) as writer:
        writer.event("run-started")
        for number in range(3):
            measure(writer, number)
    name = data.draw(st.sampled_from(["samples.jsonl", "cpp.jsonl", "events.jsonl"]))
    size = (folder / name).stat().st_size
    at = data.draw(st.one_of(st.just(size - 1), st.integers(0, size)))
    os.truncate(folder / name, at)
    before = contents(folder)
    reader = RunReader(folder)
    found = [item.value for item in reader.samples()]
    assert found == [
        value for value in (0.0, 0.5, 1.0, 1.5, 2.0, 2.5) if value in found
    ]  # an intact part, in order
    assert len(found) % 2 == 0  # whole samples only
    done = reader.done()
    problems = verify(RunReader(folder))
    assert problems or name == "events.jsonl" or at == size  # events say where lines must end
    damaged = any(problem.detail != NO_NEWLINE for problem in problems)
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


def test_drafts_of_a_killed_writer_go_on_resume_and_nothing_else(folder: Path) -> None:
    one = cell()
    with RunWriter.create(folder, manifest([one])) as writer:
        writer.finish(one, 0, [sample(one, 0)], [])
    ours = [".env-2.json.0123abcd.new", ".report.md.89abcdef.new", ".seal.json.00000000.new"]
    others = [".notes.txt.0123abcd.new", ".env.json.new", "env.json.0123abcd.new"]
    for name in (*ours, *others):
        (folder / name).write_text("{")
    (folder / ".plan.json.0123abcd.new").symlink_to(folder / "plan.json")
    with RunWriter.resume(folder) as writer:
        writer.finish(one, 1, [sample(one, 1)], [])
    assert not [name for name in ours if (folder / name).exists()]
    assert not [name for name in others if not (folder / name).exists()]
    assert (folder / ".plan.json.0123abcd.new").is_symlink()


@pytest.mark.parametrize("name", ["samples.jsonl", "cpp.jsonl"])
def test_a_lost_last_newline_is_named_and_written_again_on_resume(folder: Path, name: str) -> None:
    one = cell()
    with RunWriter.create(folder, manifest([one])) as writer:
        writer.finish(one, 0, [sample(one, 0)], [("cpp", {"total": 1.0})])
    whole = (folder / name).read_bytes()
    (folder / name).write_bytes(whole[:-1])
    (problem,) = verify(RunReader(folder))
    assert (problem.kind, problem.file, problem.line) == ("lost", name, 1)
    assert len(list(RunReader(folder).samples())) == 1
    with RunWriter.resume(folder) as writer:
        assert (folder / name).read_bytes() == whole
        writer.finish(one, 1, [sample(one, 1)], [("cpp", {"total": 2.0})])
    assert not verify(RunReader(folder), raw=True)
    assert RunReader(folder).done() == {(one.id, 0), (one.id, 1)}


def test_a_lost_newline_is_not_written_into_a_run_that_lost_more(folder: Path) -> None:
    one = cell()
    with RunWriter.create(folder, manifest([one])) as writer:
        writer.finish(one, 0, [sample(one, 0)], [("cpp", {"total": 1.0})])
    for name in ("samples.jsonl", "cpp.jsonl"):
        data = (folder / name).read_bytes()
        (folder / name).write_bytes(data[:-1] if name == "cpp.jsonl" else data[:-2])
    before = contents(folder)
    with pytest.raises(InputError, match="damaged and cannot be resumed"):
        RunWriter.resume(folder)
    assert contents(folder) == before


def test_what_was_in_flight_is_moved_aside_on_resume(folder: Path) -> None:
    one = cell()
    with RunWriter.create(folder, manifest([one])) as writer:
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
    with RunWriter.resume(folder) as writer:
        writer.finish(one, 1, [sample(one, 1)], [])
    assert (folder / "samples.jsonl.orphan-2").exists()


def test_lost_events_are_refused_and_no_line_is_lost(folder: Path) -> None:
    one = cell()
    with RunWriter.create(folder, manifest([one], blocks=4)) as writer:
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


def test_a_broken_line_in_the_middle_costs_its_sample(folder: Path) -> None:
    one = cell()
    with RunWriter.create(folder, manifest([one])) as writer:
        for block in range(3):
            writer.finish(one, block, [sample(one, block)])
    lines = (folder / "samples.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "samples.jsonl").write_bytes(lines[0] + b"\x00\xff garbage\n" + lines[2])
    reader = RunReader(folder)
    assert [item.block for item in reader.samples()] == [0, 2]
    assert {(problem.kind, problem.block) for problem in reader.problems} >= {("lost", 1)}


def test_a_killed_writer_loses_no_finished_sample(folder: Path) -> None:
    """kill -9 at any moment: a real process writes as fast as it can and is killed."""
    program = f"""
import sys
sys.path.insert(0, {str(REPOSITORY)!r})
from pathlib import Path
from cnibench.rundir.writer import RunWriter
from tests._manifest import manifest
from tests.unit._store import cell, sample
one = cell()
with RunWriter.create(Path({str(folder)!r}), manifest([one], blocks=100000)) as writer:
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
sys.path.insert(0, {str(REPOSITORY)!r})
from pathlib import Path
from cnibench.rundir.writer import RunWriter
from tests._manifest import manifest
from tests.unit._store import cell, sample
from cnibench.rundir.files import FullError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
one = cell()
with RunWriter.create(Path({str(folder)!r}), manifest([one], blocks=1000)) as writer:
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
