"""The course of one sample: what begins when, for how long, and what is stored."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from cnibench.errors import MeasureError
from cnibench.model.cell import Window
from cnibench.model.coordinates import NONE, UNREAD
from cnibench.run.checks.node_load import NodeLoad
from cnibench.run.checks.stalls import Evidence, Stall
from cnibench.run.windows import sample
from tests.unit._sample_script import Script, Workload, measure_one, scripted


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Script:
    return scripted(tmp_path, monkeypatch)


def test_the_course_of_a_sample(script: Script) -> None:
    script.opening, script.waiting, script.port = 0.25, 0.5, 5201
    found = measure_one(script)
    assert script.log == [
        ("hearts", [0]),
        ("serve", 0),
        ("warm up", 0),
        ("prepare packets", 0),
        ("ready",),
        ("start", 0, 10.0),
        ("watch", 0, 0.5),
        ("congestion", 0, 5201, 3.0),
        ("pinned", 0, 3, "its client"),
        ("observe packets", 0),
        ("watch", 0, 8.75),  # until half a second before the client ends
        ("read packets", 0),
        ("wait", 0, 25.5),  # 15 s are the longest; 20 s more, from its start
        ("evidence",),
        ("end start", 0),
        ("end prepare packets", 0),
        ("measurements", 0),
        ("end serve", 0),
    ]
    assert script.spans == [(1000.0, 1010.0, 15.0)]
    assert (found.start, found.end, found.disturbed) == ("at 0", "at 10", "")
    assert found.congestion_control == "cubic"
    assert [one.metric for one in found.measurements.readings] == ["throughput", "packets"]
    assert found.measurements.records == [
        ("sizes", {"n": 1}),
        ("packets", {"pair": 0}),
        ("stalls", Evidence(1.0, others=0.5).record("")),
    ]
    assert found.priority == "real-time"


def test_what_was_run_is_stored(script: Script) -> None:
    context = script.context()
    sample.measure(context, Workload(script), [])  # type: ignore[arg-type]
    text = (context.raw / "cmd.json").read_bytes()
    assert text.endswith(b"}\n")
    told = json.loads(text)
    assert told.pop("cell")["workload"] == "w"
    assert told == {
        "argv": ["tool", "-x"],
        "status": 0,
        "start": "at 0",
        "end": "at 9.5",
        "duration": 10.0,
        "warmup": 1.0,
        "client_cpu": 3,
        "server_cpu": None,
    }


def _watched(script: Script) -> list[float]:
    return [entry[2] for entry in script.log if entry[0] == "watch"]


@pytest.mark.parametrize(
    ("duration", "watched"), [(10.0, [0.5, 9.0]), (5.0, [0.5, 4.0]), (2.0, [0.2, 1.6])]
)
def test_the_margin_is_half_a_second_or_a_tenth(
    script: Script, duration: float, watched: list[float]
) -> None:
    measure_one(script, duration=duration)
    assert _watched(script) == watched


def test_under_emulation_clients_run_twice_as_long(
    script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sample, "inside", lambda: "tcg")
    script.opening = 3.0
    found = measure_one(script)
    assert ("start", 0, 20.0) in script.log
    assert _watched(script) == [0.5, 9.0]
    assert ("wait", 0, 37.5) in script.log  # 30 s and 20 s, of which 12.5 s are over
    assert script.spans[0][2] == 30.0
    assert found.end == "at 12.5"
    script.log.clear()
    script.opening = 15.0
    measure_one(script)
    assert _watched(script) == [0.5, 4.0]


def test_a_client_that_is_late_is_not_waited_for(script: Script) -> None:
    script.opening = 0.0
    workload = Workload(script)
    workload.longest = lambda params, duration: -30.0  # type: ignore[method-assign]
    measure_one(script, workload)
    assert ("wait", 0, 0.0) in script.log


def test_without_collectors_there_is_no_longest_time(script: Script) -> None:
    workload = Workload(script)
    workload.collected = False
    measure_one(script, workload)
    assert script.spans[0][2] == math.inf


@pytest.mark.parametrize(
    ("duration", "opening", "late"),
    [(10.0, 9.5, False), (10.0, 9.6, True), (0.5, 0.95, False), (0.5, 0.96, True)],
)
def test_collectors_that_begin_after_the_client_has_ended(
    script: Script, duration: float, opening: float, late: bool
) -> None:
    """The window began before that by the margin: half a second of 10 s, 0.05 s of half a second;
    no client runs for less than a second.
    """
    script.opening = opening
    if late:
        with pytest.raises(MeasureError, match="ended before the collectors started"):
            measure_one(script, duration=duration)
        assert script.closed == [(0, MeasureError)]
        assert ("measurements", 0) not in script.log
    else:
        measure_one(script, duration=duration)
    for change in ({"collected": False}, {"counts": ("n",)}):
        workload = Workload(script)
        vars(workload).update(change)
        measure_one(script, workload, duration=duration)


def test_without_collectors_nothing_is_late(script: Script) -> None:
    script.port, script.reading = 5000, 9.7
    with pytest.raises(MeasureError, match="ended before the collectors started"):
        measure_one(script)
    found = sample.measure(script.context(), Workload(script), [])  # type: ignore[arg-type]
    assert found.measurements.readings[0].value == 7.0


def test_conditions_hold_around_the_server(script: Script) -> None:
    found = measure_one(script, params={"size": 1, "offload.pods": "tso-off"})
    steps = [entry[0] for entry in script.log]
    assert ("conditions", 0, "client 0", "server 0") in script.log
    assert steps.index("conditions") < steps.index("serve")
    assert found.measurements.records[1] == ("conditions", {"pods": "tso-off"})


def test_a_client_that_failed_is_no_measurement(script: Script) -> None:
    script.status = 3
    with pytest.raises(MeasureError) as error:
        measure_one(script)
    assert error.value.message == "tool ended with 3"
    assert error.value.remedy == "its output is in the sample's raw folder"
    assert json.loads((script.folder / "raw0" / "cmd.json").read_text())["status"] == 3
    assert ("measurements", 0) in script.log


def test_a_disturbed_sample_marks_its_records(script: Script) -> None:
    script.evidence = Evidence(10.0, 15.0, (Stall("gap", "", "", 1.0, 5.0),), others=0.5)
    found = measure_one(script)
    assert "stalled" in found.disturbed
    *records, (name, last) = found.measurements.records
    assert records == [
        ("sizes", {"n": 1, "disturbed": found.disturbed}),
        ("packets", {"pair": 0, "disturbed": found.disturbed}),
    ]
    assert (name, last) == ("stalls", script.evidence.record(found.disturbed))


@pytest.mark.parametrize(
    ("window", "alone", "collected", "known"),
    [
        ("speed", True, True, True),
        ("cpp", True, True, False),
        ("speed", False, True, False),
        ("speed", True, False, False),
    ],
)
def test_on_a_cluster_others_are_those_of_the_nodes_where_ours_can_be_told_apart(
    script: Script, window: Window, alone: bool, collected: bool, known: bool
) -> None:
    loads = (NodeLoad("a", 0.3, 8), NodeLoad("b", 0.2, 2))
    script.evidence = Evidence(1.0).on_nodes(loads)
    s = script.context(client=SimpleNamespace(name="far", local=False, of_lab=False))
    s = replace(s, cell=msgspec.structs.replace(s.cell, window=window))
    workload = Workload(script)
    workload.alone, workload.collected = alone, collected
    found = sample.measure(s, workload, [])  # type: ignore[arg-type]
    _, record = found.measurements.records[-1]
    assert record["others"] == (0.2 if known else None)  # of two CPUs, and 0.3 are of eight
    assert [one["node"] for one in record["node_load"]] == (["a", "b"] if known else [])


@pytest.mark.parametrize(
    ("asked", "said", "ended", "fails"),
    [
        ("cubic", "", None, True),
        ("cubic", "", 0, False),
        ("cubic", "bbr", None, False),
        ("", "", None, False),
    ],
)
def test_congestion_control_that_cannot_be_read_is_an_error(
    script: Script, asked: str, said: str, ended: int | None, fails: bool
) -> None:
    script.port, script.said, script.ended = 9, said, ended
    if fails:
        with pytest.raises(MeasureError, match="within 3 s there was none on port 9"):
            measure_one(script, congestion_control=asked)
    else:
        found = measure_one(script, congestion_control=asked)
        assert found.congestion_control == (said or UNREAD)
    script.port = 0
    assert measure_one(script, congestion_control=asked).congestion_control == NONE


def test_only_a_client_that_was_pinned_here_is_checked(script: Script) -> None:
    measure_one(script, client_cpu=None)
    measure_one(script, client=SimpleNamespace(name="far", local=False, of_lab=False))
    assert "pinned" not in {entry[0] for entry in script.log}
    measure_one(script, client_cpu=0)
    assert ("pinned", 0, 0, "its client") in script.log
