"""Results of cilium connectivity perf as runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cnibench.errors import InputError
from cnibench.importers.batch import Batch, Given
from cnibench.importers.cilium_perf import seconds
from tests._import_samples import CILIUM_JSON, CILIUM_OLD, CILIUM_TABLES
from tests.unit._imports import figures, read


def cilium(folder: Path, name: str, text: str) -> Batch:
    file = folder / name
    file.write_text(text)
    return read("cilium-perf", file, Given())


def test_cilium_report(tmp_path: Path) -> None:
    batch = cilium(tmp_path, "cilium.json", json.dumps(CILIUM_JSON))
    rr, stream, multi, udp = batch.results
    assert (rr.label, rr.placement, rr.path, rr.workload) == ("cilium", "inter", "pod", "tcp-rr")
    assert figures(rr) == {
        "transaction_rate": 18542.5,
        "latency_p50": pytest.approx(15e-6),
        "latency_p90": pytest.approx(19e-6),
        "latency_p99": pytest.approx(440e-6),
    }
    assert (stream.placement, stream.workload, stream.params) == ("intra", "tcp-stream", {})
    assert figures(stream) == {"throughput": 9876.5e6}
    assert (multi.label, multi.path, multi.fidelity) == ("host", "host", "baseline")
    assert multi.params == {"multi": True}
    assert (udp.path, udp.workload, udp.figures) == ("pod-to-host", "udp-stream", ())
    assert {one.ip for one in batch.results} == {0}, "it is the Pod's first address, of any family"
    assert any("the last" in note for note in batch.notes)


def test_cilium_report_of_before_july_2024_has_every_sample(tmp_path: Path) -> None:
    found = cilium(tmp_path, "cilium.json", json.dumps(CILIUM_OLD)).results
    assert [one.workload for one in found] == ["tcp-rr", "tcp-rr"]
    assert [figures(one)["transaction_rate"] for one in found] == [18542.5, 18600.5]
    assert all(figures(one)["latency_p99"] == pytest.approx(440e-6) for one in found)


def test_cilium_tables(tmp_path: Path) -> None:
    batch = cilium(tmp_path, "cilium.txt", CILIUM_TABLES)
    first, second, stream, multi = batch.results
    assert (first.workload, first.placement, first.path, first.duration) == (
        "tcp-rr",
        "inter",
        "pod",
        10.0,
    )
    assert figures(first) == pytest.approx(
        {
            "transaction_rate": 18542.51,
            "latency_mean": 53.87e-6,
            "latency_p50": 15e-6,
            "latency_p90": 19e-6,
            "latency_p99": 440e-6,
        }
    )
    assert figures(second)["transaction_rate"] == 18600.5
    assert (stream.placement, figures(stream)) == ("intra", {"throughput": 9876.5e6})
    assert (multi.label, multi.duration, multi.params) == ("host", 90.0, {"multi": True})
    assert any("--streams" in note for note in batch.notes)


def test_durations_as_go_prints_them() -> None:
    for text, expected in (("1h2m3.5s", 3723.5), ("15ns", 15e-9), ("0s", 0.0)):
        assert seconds(text) == pytest.approx(expected)
    for text in ("", "10", "1s x", "s", "1d", f"{'1' * 400}s"):
        assert seconds(text) is None


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.json", "{}", "dataItems"),
        ("a.json", json.dumps(CILIUM_JSON).replace('"us"', '"s"', 1), "data item 1"),
        ("a.json", json.dumps(CILIUM_JSON).replace("TCP_STREAM_pod", "SCTP_pod"), "unknown test"),
        ("a.json", json.dumps(CILIUM_JSON).replace("Latency", "Throughput"), "is no Throughput"),
        ("a.txt", "nothing\n", "no table"),
        ("a.txt", CILIUM_TABLES.replace("TCP_RR ", "TCP_XX "), "line 5: unknown test"),
    ],
)
def test_what_is_no_result_of_cilium(tmp_path: Path, name: str, text: str, words: str) -> None:
    with pytest.raises(InputError) as error:
        cilium(tmp_path, name, text)
    assert words in error.value.message
    assert name in error.value.message
