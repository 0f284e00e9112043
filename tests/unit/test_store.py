"""The store: whatever is written is read again."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cnibench.errors import InputError, MeasureError, UsageError
from cnibench.model.cell import SCHEMA, Attestation
from cnibench.rundir.index import find, runs
from cnibench.rundir.reader import RunReader
from cnibench.rundir.schema import migrate, new_id, record_file
from cnibench.rundir.verification import verify
from cnibench.rundir.writer import RunWriter
from tests._manifest import manifest
from tests.unit._store import cell, sample

TEXT = st.text(max_size=30)


def test_all_that_is_written_is_read_again(folder: Path) -> None:
    one = cell()
    with RunWriter.create(folder, manifest([one])) as writer:
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
    assert reader.plan == manifest([one])
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
    folder = tmp_path / new_id("run")
    one = cell(label, params=params)
    with RunWriter.create(folder, manifest([one])) as writer:
        written = sample(one, 0, None, reason)
        assert writer.raw(one, 0).is_relative_to(folder / "raw")
        writer.finish(one, 0, [written], [("series", {"what": reason})])
    reader = RunReader(folder)
    assert list(reader.samples()) == [written]
    assert reader.plan.cells == [one]
    assert [record["what"] for record in reader.records("series")] == [reason]
    shutil.rmtree(folder)


def test_cells_that_were_measured_together_are_committed_together(folder: Path) -> None:
    pairs = [cell(pair=number) for number in range(2)]
    with RunWriter.create(folder, manifest(pairs)) as writer:
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
    with RunWriter.create(folder, manifest([one])) as writer:
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
    with RunWriter.create(folder, manifest([cell()])) as writer:
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
    plan = manifest([cell()], blocks=3)
    with RunWriter.create(folder, plan) as writer:
        for blocks in (2, 1):
            writer.narrow(msgspec.structs.replace(plan, blocks=blocks))
    kept = [msgspec.json.decode((folder / f"plan-{n}.json").read_bytes()) for n in (1, 2)]
    assert [one["blocks"] for one in kept] == [3, 2]
    assert verify(RunReader(folder)) == []


def test_two_processes_cannot_write_one_run(folder: Path) -> None:
    with (
        RunWriter.create(folder, manifest([cell()])),
        pytest.raises(UsageError, match="another cnibench"),
    ):
        RunWriter.resume(folder)
    RunWriter.resume(folder).close()


def test_a_record_may_not_claim_another_place(folder: Path) -> None:
    one = cell()
    with (
        RunWriter.create(folder, manifest([one])) as writer,
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
    with RunWriter.create(folder, manifest([one])) as writer:
        writer.finish(
            one, 0, [sample(one, 0), msgspec.structs.replace(sample(one, 0), schema=SCHEMA + 1)]
        )
    with pytest.raises(InputError, match="newer cnibench"):
        list(RunReader(folder).samples())


def test_runs_are_found_by_the_beginning_of_their_name(tmp_path: Path) -> None:
    for name in ("20260101-a", "20260102-b"):
        RunWriter.create(tmp_path / name, manifest([cell()])).close()
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
    with RunWriter.create(folder, manifest([one])) as writer:
        for block in range(10):
            writer.finish(one, block, [sample(one, block)] * 10_000)
    began = time.process_time()
    assert sum(1 for _ in RunReader(folder).samples()) == 100_000
    assert time.process_time() - began < 30
