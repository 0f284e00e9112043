"""Flaws of a run's data: failed, missing, outlying or unreadable samples are named, and the rest is
analysed.
"""

from __future__ import annotations

import json
import math
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cnibench.analysis import analyse
from cnibench.errors import CnibenchError, InputError
from cnibench.reports.text import PROVIDER as TEXT
from cnibench.rundir.reader import RunReader
from tests.unit._analyses import TRUTH, bent
from tests.unit._runs import edited, synthetic


def test_values_that_are_no_numbers_fail_and_are_reported(tmp_path: Path) -> None:
    none = bent(tmp_path / "none", lambda line, n: {**line, "value": None} if n == 0 else line)
    assert any(f.reason == "no value" for f in none.failures)
    nan = bent(tmp_path / "nan", lambda line, n: {**line, "value": math.nan} if n == 3 else line)
    assert any("line 4" in problem for problem in nan.problems)
    huge = bent(
        tmp_path / "huge",
        lambda line, n: json.dumps(line).replace(str(line["value"]), "1e999") if n == 0 else line,
    )
    assert any("line 1" in problem for problem in huge.problems)


def test_all_failed_is_said_and_not_a_traceback(tmp_path: Path) -> None:
    failed = bent(
        tmp_path,
        lambda line, _: {**line, "metric": "", "value": None, "status": "failed", "reason": "gone"},
    )
    assert failed.results == []
    assert failed.summary[0].startswith("Nothing was measured")


def test_one_sample_and_one_profile(tmp_path: Path) -> None:
    reader = synthetic(
        tmp_path, {"only": 1.0}, blocks=1, workloads=["tcp-rr"], placements=["intra"], cpp=False
    )
    analysis = analyse([reader])
    assert analysis.pairs == []
    assert "no other profile to compare it with" in analysis.summary[0]
    assert "only" in TEXT.render(analysis, 80)


def test_clock_jumps_outliers_and_unfinished_runs_are_reported(tmp_path: Path) -> None:
    back = bent(
        tmp_path / "back",
        lambda line, n: {**line, "start": "2020-01-01T00:00:00Z"} if n > 30 else line,
    )
    assert any("clock was set back" in note for note in back.notes)
    out = bent(
        tmp_path / "out", lambda line, n: {**line, "value": line["value"] * 50} if n == 0 else line
    )
    assert any("outlying" in note for note in out.notes)
    result = next(r for r in out.results if r.outliers)
    assert result.n == 6
    unfinished = analyse([synthetic(tmp_path, TRUTH, blocks=2, name="unfinished", finished=False)])
    assert any("not finished" in note for note in unfinished.notes)


def test_models_beside_real_cnis_are_told_apart_by_name(tmp_path: Path) -> None:
    kinds = {"a": "cni", "b": "datapath-model", "none": "baseline"}
    truth = dict.fromkeys(kinds, 1.0)
    mixed = TEXT.render(analyse([synthetic(tmp_path, truth, blocks=6, fidelity=kinds)]))
    assert "fidelity of a: cni (the real CNI)" in mixed
    assert "fidelity of b: datapath-model (a model of" in mixed
    models = synthetic(tmp_path, truth, blocks=6, name="models")
    assert "\nfidelity: datapath-model (a model of" in TEXT.render(analyse([models]))


def test_missing_metrics_and_labels_are_named(tmp_path: Path) -> None:
    reader = synthetic(tmp_path, TRUTH, blocks=6, fail=[("slow", block) for block in range(6)])
    assert any("slow" in text for text in analyse([reader]).summary)
    partly = bent(
        tmp_path / "partly",
        lambda line, _: (
            {**line, "metric": "packets"}
            if line["label"] == "b"
            and line["workload"] == "tcp-rr"
            and line["metric"] == "transaction_rate"
            else line
        ),
    )
    assert any("no transaction_rate from b" in note for note in partly.notes)


def test_drift_is_reported(tmp_path: Path) -> None:
    reader = synthetic(
        tmp_path,
        {"a": 1.0, "b": 1.0},
        blocks=20,
        noise=0.001,
        workloads=["tcp-rr"],
        placements=["intra"],
        cpp=False,
    )
    drifting = edited(
        reader, lambda line: {**line, "value": line["value"] * (1 + 0.05 * line["block"])}
    )
    assert any("drift" in note for note in analyse([drifting]).notes)


def test_cut_off_newer_and_empty_runs(tmp_path: Path) -> None:
    reader = synthetic(tmp_path, TRUTH, blocks=6)
    file = reader.path / "samples.jsonl"
    whole = file.read_bytes()
    file.write_bytes(whole[:-20])
    assert any("cut off" in note for note in analyse([RunReader(reader.path)]).notes)
    file.write_bytes(whole + whole.splitlines()[0].replace(b'"schema":1', b'"schema":99') + b"\n")
    with pytest.raises(InputError, match="newer"):
        analyse([RunReader(reader.path)])
    file.write_bytes(b"")
    assert analyse([RunReader(reader.path)]).summary == ["Nothing was measured."]
    file.unlink()
    assert analyse([RunReader(reader.path)]).results == []


@settings(max_examples=25)
@given(st.integers(0, 400), st.binary(min_size=1, max_size=40))
def test_broken_bytes_are_never_a_traceback(broken: RunReader, at: int, junk: bytes) -> None:
    file = broken.path / "samples.jsonl"
    whole = (broken.path / "whole").read_bytes()
    place = at * len(whole) // 400
    file.write_bytes(whole[:place] + junk + whole[place + len(junk) :])
    with suppress(CnibenchError):
        assert TEXT.render(analyse([RunReader(broken.path)]), 80)


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> RunReader:
    reader = synthetic(tmp_path_factory.mktemp("broken"), {"a": 1.0, "b": 0.9}, blocks=2)
    (reader.path / "whole").write_bytes((reader.path / "samples.jsonl").read_bytes())
    return reader


def test_unusable_cpp_records_are_left_out_and_reported(tmp_path: Path) -> None:
    reader = synthetic(tmp_path, {"a": 1.0}, blocks=2)
    with (reader.path / "cpp.jsonl").open("ab") as file:
        file.write(msgspec.json.encode({"schema": 1, "cell": "x", "total": None}) + b"\n")
    analysis = analyse([RunReader(reader.path)])
    assert any("no usable total" in note for note in analysis.notes)
    assert len(analysis.cpp) == 4


def test_parameters_that_are_no_object_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no object: b'\"x\"'"):
        bent(tmp_path, lambda line, n: {**line, "params": "x"} if n == 0 else line)


def test_a_count_of_samples_that_is_none_leaves_the_record_out(tmp_path: Path) -> None:
    run = synthetic(tmp_path, {"a": 1.0}, blocks=2)
    run = edited(
        run, lambda record: record | {"counted": [1]} if record["block"] else record, "cpp.jsonl"
    )
    assert {row.n for row in analyse([run]).cpp} == {1}
