"""perf-tests' netperf CSV as a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from cnibench.errors import InputError
from cnibench.importers.batch import Given
from tests._import_samples import PERF_TESTS, QPERF
from tests.unit._imports import figures, read


def test_perf_tests_rows(tmp_path: Path) -> None:
    file = tmp_path / "kindnet.csv"
    file.write_text(PERF_TESTS)
    batch = read("perf-tests", file, Given())
    found = {
        (one.workload, one.placement, one.path, one.params.get("mss")): one for one in batch.results
    }
    assert len(found) == len(batch.results) == 15
    assert {one.label for one in batch.results} == {"kindnet"}
    assert {one.duration for one in batch.results} == {10.0}
    tcp = found["iperf3-tcp", "intra", "pod", 96]
    assert tcp.params == {"streams": 8, "mss": 96}
    assert figures(tcp) == {"throughput": 33835e6}
    assert ("iperf3-tcp", "intra", "hairpin", 224) in found
    assert ("iperf3-sctp", "inter", "pod", 160) in found
    failed = found["iperf3-tcp", "inter", "clusterip", 160]
    assert (failed.figures, "could not read" in failed.reason) == ((), True)
    udp = found["iperf3-udp", "inter", "pod", None]
    assert (udp.params, figures(udp)) == ({"counted": "sent"}, {"throughput": 11143e6})
    assert figures(found["tcp-stream", "inter", "pod", None]) == {"throughput": 6646.82e6}
    assert not found["tcp-stream", "inter", "clusterip", None].figures
    notes = " ".join(batch.notes)
    assert "3 qperf TCP. Remote VM using Pod IP: the file has the sizes of other tests" in notes
    assert "sent, not what arrived" in notes


def test_perf_tests_qperf(tmp_path: Path) -> None:
    file = tmp_path / "kindnet.csv"
    file.write_text(QPERF)
    rate, latency, faster, slower = read("perf-tests", file, Given()).results
    assert (rate.workload, rate.params, figures(rate)) == (
        "qperf-tcp-bw",
        {"message": 1},
        {"throughput": 2.5e6 * 8},
    )
    assert latency.workload == "qperf-tcp-lat"
    assert latency.params == {"message": 1, "latency": "one-way"}
    assert figures(latency) == {"latency_mean": pytest.approx(30.5e-6)}
    assert figures(faster) == {"throughput": 1.25e9 * 8}
    assert figures(slower) == {"latency_mean": pytest.approx(1.5e-3)}


def test_perf_tests_qperf_whose_output_nptest_could_not_read(tmp_path: Path) -> None:
    file = tmp_path / "kindnet.csv"
    file.write_text(QPERF.replace("(bw = 2.5 MB/sec; latency = 30.5 us)", "(; )"))
    found = read("perf-tests", file, Given()).results
    assert [bool(one.figures) for one in found] == [False, False, True, True]
    assert "(; )" in found[0].reason


@pytest.mark.parametrize("text", ["", "MSS, Maximum, 1,\n", "1 ping. Same VM, 1, 2,\n"])
def test_what_is_no_result_of_perf_tests(tmp_path: Path, text: str) -> None:
    file = tmp_path / "kindnet.csv"
    file.write_text(text)
    with pytest.raises(InputError, match=r"kindnet\.csv"):
        read("perf-tests", file, Given())
