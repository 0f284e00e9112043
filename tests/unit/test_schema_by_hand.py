"""Names, bounds and versions of a run directory."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from cnibench.errors import InputError
from cnibench.model.cell import SCHEMA, Cell
from cnibench.rundir import schema
from cnibench.rundir.schema import Manifest
from tests._manifest import manifest

CELL = Cell(label="x", profile="p", placement="inter", workload="tcp-rr")


def _with_cell(**more: Any) -> Manifest:
    return manifest([CELL, msgspec.structs.replace(CELL, label="y", **more)])


@pytest.mark.parametrize(
    ("name", "least", "most", "step"),
    [
        ("blocks", 0, 1_000_000, 1),
        ("max_blocks", 0, 1_000_000, 1),
        ("duration", 0, 1e6, 0.5),
        ("warmup", 0, 1e6, 0.5),
        ("target_ci", 0, 1e6, 0.5),
        ("seed", -(2**63), 2**64, 1),
    ],
)
def test_a_manifest_has_bounds(name: str, least: float, most: float, step: float) -> None:
    for value in (least, most):
        schema.check(manifest([CELL], **{name: value}), "plan.json")
    for value in (least - step, most + step, *([float("nan")] if step < 1 else [])):
        with pytest.raises(InputError, match=rf"^plan\.json: {name}: expected") as error:
            schema.check(manifest([CELL], **{name: value}), "plan.json")
        assert error.value.remedy == "take the file from a complete copy of the run"


@pytest.mark.parametrize(
    ("name", "most", "step"),
    [
        ("duration", 1e6, 0.5),
        ("blocks", 1_000_000, 1),
        ("pair", 1_000_000, 1),
        ("ip", 6, 1),
        ("mtu", 2**31, 1),
    ],
)
def test_a_cell_has_bounds(name: str, most: float, step: float) -> None:
    for value in (0, most):
        schema.check(_with_cell(**{name: value}), "plan.json")
    for value in (-step, most + step):
        with pytest.raises(InputError, match=rf"{name} of 'y': expected"):
            schema.check(_with_cell(**{name: value}), "plan.json")


def test_an_error_cuts_what_it_shows() -> None:
    with pytest.raises(InputError) as error:
        schema.check(manifest([msgspec.structs.replace(CELL, label="z" * 200, ip=7)]), "p")
    assert f"ip of '{'z' * 80}': expected 0 to 6, found 7" in error.value.message
    with pytest.raises(InputError) as error:
        schema.check(manifest([CELL], seed=10**60), "p")
    assert error.value.message.endswith(f"found {str(10**60)[:40]}")


def test_the_number_of_cells_has_bounds() -> None:
    schema.check(manifest([]), "p")
    with pytest.raises(InputError, match="number of cells: expected 0 to 100000, found 100001"):
        schema.check(manifest([CELL] * 100_001), "p")


@pytest.mark.parametrize("length", [1000, 1001])
def test_names_have_a_largest_length(length: int) -> None:
    name = "n" * length
    for named in (
        manifest([CELL], id=name),
        manifest([CELL], name=name),
        manifest([CELL], cluster=name),
        manifest([CELL], profiles={"a": {}, name: {}}),
        *(manifest([msgspec.structs.replace(CELL, **{key: name})]) for key in _NAMES),
    ):
        if length == 1000:
            schema.check(named, "p")
        else:
            with pytest.raises(InputError, match=r"^p: a name has 1001 characters, at most 1000"):
                schema.check(named, "p")


_NAMES = ("label", "profile", "workload")


def test_a_cell_is_found_by_its_id() -> None:
    manifest = _with_cell()
    assert manifest.cell(manifest.cells[1].id) == manifest.cells[1]
    assert manifest.cell("none") is None


def test_where_files_are() -> None:
    assert schema.raw_folder("c", 3) == schema.raw_folder("c", 3, 1) == "c/3"
    assert schema.raw_folder("c", 3, 2) == "c/3.attempt-2"
    names = [schema.environment_file(session) for session in (0, 1, 2, 3)]
    assert names == ["env.json", "env.json", "env-2.json", "env-3.json"]
    assert schema.record_file("cpp") == "cpp.jsonl"
    for name in ("", "Cpp", "1a", "../a", "a.b", "a" * 42):
        with pytest.raises(InputError, match="is not a name of a record file"):
            schema.record_file(name)
    assert schema.record_file("a" * 41) == f"{'a' * 41}.jsonl"


def test_coordinates_say_where_a_line_belongs() -> None:
    found = schema.coordinates(CELL, 3)
    assert (found["schema"], found["attempt"], found["cell"], found["block"]) == (
        SCHEMA,
        1,
        CELL.id,
        3,
    )
    assert schema.coordinates(CELL, 3, 2) == found | {"attempt": 2}
    assert (found["label"], found["placement"], found["workload"]) == ("x", "inter", "tcp-rr")


def test_times_are_in_utc() -> None:
    before = datetime.now(UTC)
    said = schema.now()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", said)
    assert abs((datetime.fromisoformat(said) - before).total_seconds()) < 60


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("", ""),
        ("Night run/2", "Night-run-2-"),
        ("--x_y--", "x_y-"),
        ("X or X", "X-or-X-"),
        ("ä" * 3, ""),
        ("z" * 60, "z" * 40 + "-"),
    ],
)
def test_an_id_is_safe_as_the_name_of_a_folder(name: str, word: str) -> None:
    found = schema.new_id(name)
    assert re.fullmatch(rf"\d{{8}}-\d{{6}}-{word}[0-9a-f]{{4}}", found)
    moment = datetime.strptime(found[:15], "%Y%m%d-%H%M%S").replace(tzinfo=UTC)
    assert abs((moment - datetime.now(UTC)).total_seconds()) < 60


def test_ids_are_in_utc_wherever_the_run_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """They sort by time, also those of machines in other zones."""
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("TZ", "NZST-12")
        time.tzset()
        before = datetime.now(UTC)
        found = schema.new_id("")
        after = datetime.now(UTC)
    time.tzset()
    assert f"{before:%Y%m%d-%H%M%S}" <= found[:15] <= f"{after:%Y%m%d-%H%M%S}"


@pytest.mark.parametrize(
    ("name", "lines", "document"),
    [
        ("samples.jsonl", True, False),
        ("a-b_1.jsonl", True, False),
        ("events.jsonl", False, False),
        ("../a.jsonl", False, False),
        ("a.jsonl.x", False, False),
        ("xsamples jsonl", False, False),
        ("plan.json", False, True),
        ("plan-12.json", False, True),
        ("env-1.json", False, True),
        ("calibration.json", False, True),
        ("env-1234567890.json", False, False),
        ("seal.json", False, False),
        ("plan.json.x", False, False),
    ],
)
def test_which_files_an_event_may_name(name: str, lines: bool, document: bool) -> None:
    assert (schema.is_lines(name), schema.is_document(name)) == (lines, document)


@pytest.mark.parametrize(
    ("name", "below"),
    [
        ("a", True),
        ("a/b..c", True),
        ("..a", True),
        ("", False),
        ("a/", False),
        ("/a", False),
        ("a//b", False),
        ("a/./b", False),
        ("../a", False),
        ("a\0b", False),
    ],
)
def test_which_paths_stay_in_their_folder(name: str, below: bool) -> None:
    assert schema.is_below(name) == below


def test_records_are_migrated_step_by_step() -> None:
    def step(name: str) -> schema.Step:
        return lambda file, record: {**record, "steps": [*record.get("steps", []), file + name]}

    steps = {1: step("one"), 2: step("two")}
    assert schema.migrate("f", {"schema": 1, "x": 7}, steps, 3) == {
        "schema": 3,
        "x": 7,
        "steps": ["fone", "ftwo"],
    }
    assert schema.migrate("f", {"schema": 2}, steps, 3) == {"schema": 3, "steps": ["ftwo"]}
    assert schema.migrate("f", {"schema": 3}, steps, 3) == {"schema": 3}
    assert schema.migrate("f", {"schema": 1, "x": 7}) == {"schema": SCHEMA, "x": 7}
    for record, said in (
        ({"schema": 0}, "f: schema 0 is unknown"),
        ({"schema": SCHEMA + 1}, rf"newer cnibench \(schema {SCHEMA + 1}, this one reads up to"),
        ({"schema": True}, "f: expected a schema version"),
        ({"schema": "2"}, "f: expected a schema version"),
        ({}, "f: expected a schema version"),
    ):
        with pytest.raises(InputError, match=said):
            schema.migrate("f", record)
    with pytest.raises(InputError, match="schema 1 is unknown"):
        schema.migrate("f", {"schema": 1}, {})
