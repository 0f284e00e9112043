"""iperf3's reports as runs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from cnibench.errors import InputError, UsageError
from cnibench.importers.batch import Given
from tests.unit._imports import GOLDEN, figures, read


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
