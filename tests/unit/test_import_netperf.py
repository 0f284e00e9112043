"""netperf's output as runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from cnibench.errors import InputError
from cnibench.importers.writer import write
from cnibench.rundir.reader import RunReader
from tests.unit._imports import GOLDEN, figures, read

pytestmark = pytest.mark.usefixtures("unsynced")


@pytest.mark.parametrize(
    ("file", "workload", "expected", "params"),
    [
        ("import/netperf_stream.txt", "tcp-stream", {"throughput": 3340.25e6}, {"message": 16384}),
        ("import/netperf_stream_g.txt", "tcp-stream", {"throughput": 2.93e9}, {"message": 16384}),
        (
            "import/netperf_stream_cpu.txt",
            "tcp-stream",
            {"throughput": 4673.05e6},
            {"message": 16384},
        ),
        ("import/netperf_stream.csv", "tcp-stream", {"throughput": 3992.76e6}, {"message": 16384}),
        (
            "import/netperf_rr.txt",
            "tcp-rr",
            {"transaction_rate": 19689.05},
            {"request": 1, "response": 1},
        ),
        (
            "import/netperf_crr.txt",
            "tcp-crr",
            {"transaction_rate": 4711.39},
            {"request": 1, "response": 1},
        ),
        (
            "import/netperf_udprr.txt",
            "udp-rr",
            {"transaction_rate": 21086.59},
            {"request": 1, "response": 1},
        ),
        (
            "import/netperf_udp.txt",
            "udp-stream",
            {"throughput": 302.54e6, "loss": 1 - 36984 / 55014},
            {"message": 1024},
        ),
        (
            "import/netperf_rr.csv",
            "tcp-rr",
            {
                "transaction_rate": 18542.514,
                "latency_mean": 53.87e-6,
                "latency_p50": 15e-6,
                "latency_p90": 19e-6,
                "latency_p99": 440e-6,
                "retransmits": 0,
            },
            {"request": 1, "response": 1},
        ),
        (
            "netperf/tcp_rr.stdout",
            "tcp-rr",
            {
                "transaction_rate": 37907.684,
                "latency_mean": 26.33e-6,
                "latency_p50": 14e-6,
                "latency_p90": 16e-6,
                "latency_p99": 204e-6,
                "retransmits": 0,
            },
            {},
        ),
        (
            "netperf/tcp_stream.stdout",
            "tcp-stream",
            {"throughput": 7088.84e6, "retransmits": 407},
            {"message": 4194304},
        ),
    ],
)
def test_netperf_output(
    file: str, workload: str, expected: dict[str, float], params: dict[str, int]
) -> None:
    (found,) = read("netperf", GOLDEN / file).results
    assert (found.workload, found.params, found.ip) == (workload, params, 4)
    assert figures(found) == pytest.approx(expected)


def test_netperf_several_in_one_file_and_one_that_broke_off(tmp_path: Path) -> None:
    whole = (GOLDEN / "import" / "netperf_stream.txt").read_text()
    file = tmp_path / "calico.txt"
    file.write_text(whole + "\n".join(whole.splitlines()[:5]) + "\n" + whole)
    batch = read("netperf", file)
    assert [bool(one.figures) for one in batch.results] == [True, False, True]
    assert "line 8" in batch.results[1].reason
    run = RunReader(write(batch, tmp_path / "runs", "netperf", ["cnibench", "import"]))
    assert sorted((line.block, line.status) for line in run.samples()) == [
        (0, "failed"),
        (0, "ok"),
        (1, "ok"),
    ]


@pytest.mark.parametrize("name", ["netperf_stream_nohead.txt", "netperf_omni.txt"])
def test_netperf_that_does_not_say_its_test(name: str) -> None:
    with pytest.raises(InputError, match=rf"{name}, line 1"):
        read("netperf", GOLDEN / "import" / name)


def test_a_carriage_return_in_a_row_of_netperf_is_no_result(tmp_path: Path) -> None:
    heading = "Throughput,Throughput Units,Elapsed Time (sec)"
    test = "MIGRATED TCP STREAM TEST from 0.0.0.0 () port 0 AF_INET to 10.0.0.1 () port 0 AF_INET"
    file = tmp_path / "one.csv"
    file.write_text(f"{test}\n{heading}\n1.5,\rits/s,1.00\n", newline="")
    batch = read("netperf", file)
    (result,) = batch.results
    assert result.reason.startswith("netperf printed no result")
