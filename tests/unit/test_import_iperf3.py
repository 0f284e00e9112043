"""iperf3's reports as runs."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cnibench.errors import InputError, UsageError
from cnibench.importers.batch import Given
from tests.unit._imports import GOLDEN, INTER, figures, read


def test_iperf3_reports(tmp_path: Path) -> None:
    folder = tmp_path / "flannel"
    folder.mkdir()
    for name in (
        "tcp",
        "tcp_ipv6_streams",
        "tcp_bidirectional",
        "udp_lossy",
        "busy",
        "interrupted",
    ):
        shutil.copy(GOLDEN / "iperf3" / f"{name}.json", folder)
    with pytest.raises(InputError, match=r"busy\.json: iperf3 never began"):
        read("iperf3", tmp_path)
    (folder / "busy.json").unlink()
    found = {one.file.stem: one for one in read("iperf3", tmp_path).results}
    assert {one.label for one in found.values()} == {"flannel"}
    golden = json.loads((GOLDEN / "iperf3" / "tcp.json").read_text())
    assert figures(found["tcp"]) == {
        "throughput": golden["end"]["sum_received"]["bits_per_second"],
        "retransmits": golden["end"]["sum_sent"]["retransmits"],
    }
    assert found["tcp"].params == {
        "streams": 1,
        "bidirectional": False,
        "message": 131072,
        "window": 0,
    }
    assert found["tcp"].start == golden["start"]["timestamp"]["timesecs"]
    assert (found["tcp"].ip, found["tcp_ipv6_streams"].ip) == (4, 6)
    both = json.loads((GOLDEN / "iperf3" / "tcp_bidirectional.json").read_text())["end"]
    sums = (
        both["sum_received"]["bits_per_second"],
        both["sum_received_bidir_reverse"]["bits_per_second"],
    )
    assert figures(found["tcp_bidirectional"])["throughput"] == sum(sums)
    assert found["udp_lossy"].workload == "iperf3-udp"
    assert 0 < (figures(found["udp_lossy"])["loss"] or 0) < 1
    assert not found["interrupted"].figures
    assert found["interrupted"].reason


def test_iperf3_needs_a_placement() -> None:
    with pytest.raises(UsageError):
        read("iperf3", GOLDEN / "iperf3" / "tcp.json", Given())


def stream(report: dict[str, Any], *, end: bool = True) -> str:
    """The events of --json-stream that iperf3 prints for a report of -J: one object a line (iperf
    3.21, src/iperf_api.c, JSONStream_Output); 3.12, which made the reports, has no such option.
    """
    events = [("start", report["start"]), *(("interval", one) for one in report["intervals"])]
    if "error" in report:
        events.append(("error", report["error"]))
    if end:
        events.append(("end", report["end"]))
    return "".join(
        json.dumps({"event": name, "data": data}, separators=(",", ":")) + "\n"
        for name, data in events
    )


def test_iperf3_events_are_the_report_that_they_are_parts_of(tmp_path: Path) -> None:
    for name in ("tcp", "tcp_bidirectional", "udp_lossy", "interrupted"):
        report = json.loads((GOLDEN / "iperf3" / f"{name}.json").read_text())
        (tmp_path / "whole.json").write_text(json.dumps(report))
        (tmp_path / "events.jsonl").write_text(stream(report))
        (whole,) = read("iperf3", tmp_path / "whole.json", Given("a", "inter")).results
        (events,) = read("iperf3", tmp_path / "events.jsonl", Given("a", "inter")).results
        assert replace(events, file=whole.file) == whole


def test_iperf3_several_measurements_in_one_file(tmp_path: Path) -> None:
    report = json.loads((GOLDEN / "iperf3" / "tcp.json").read_text())
    file = tmp_path / "flannel.json"
    broken = stream(report, end=False)
    # the report once more is what --json-stream-full-output adds
    file.write_text(broken + stream(report) + json.dumps(report, indent=1) + json.dumps(report))
    found = read("iperf3", file).results
    assert [bool(one.figures) for one in found] == [False, True, True]
    assert "broke off" in found[0].reason


def test_iperf3_sctp_is_a_workload_of_its_own(tmp_path: Path) -> None:
    report = json.loads((GOLDEN / "iperf3" / "tcp.json").read_text())
    report["start"]["test_start"]["protocol"] = "SCTP"
    del report["end"]["sum_sent"]["retransmits"]
    file = tmp_path / "flannel.json"
    file.write_text(json.dumps(report))
    (found,) = read("iperf3", file).results
    assert (found.workload, list(figures(found))) == ("iperf3-sctp", ["throughput"])


@pytest.mark.parametrize(
    "text", ["", '{"event":"error","data":"unable to connect"}\n{"event":"end","data":{}}\n']
)
def test_iperf3_events_of_no_measurement(tmp_path: Path, text: str) -> None:
    file = tmp_path / "flannel.json"
    file.write_text(text)
    with pytest.raises(InputError, match=r"flannel\.json"):
        read("iperf3", file, INTER)
