"""netperf's output as runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cnibench.errors import InputError, UsageError
from cnibench.importers.batch import Given
from cnibench.importers.writer import write
from cnibench.rundir.reader import RunReader
from tests.unit._call import call
from tests.unit._imports import GOLDEN, figures, read


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
        (0, "ok"),
        (1, "failed"),
        (2, "ok"),
    ]
    assert len(run.plan.cells) == 1


def test_netperf_that_broke_off_is_of_no_cell_where_there_are_several(tmp_path: Path) -> None:
    whole = (GOLDEN / "import" / "netperf_stream.txt").read_text()
    other = (GOLDEN / "import" / "netperf_stream_M.txt").read_text()
    file = tmp_path / "calico.txt"
    file.write_text(whole + other + "\n".join(whole.splitlines()[:5]) + "\n")
    run = RunReader(write(read("netperf", file), tmp_path / "runs", "netperf", []))
    assert sorted(str(cell.params) for cell in run.plan.cells) == [
        "{'message': 16384}",
        "{'message': 4096}",
        "{}",
    ]


@pytest.mark.parametrize(
    ("name", "workload", "expected", "params"),
    [
        ("stream_B.txt", "tcp-stream", {"throughput": 366053286.99 * 8}, {"message": 16384}),
        ("stream_K.txt", "tcp-stream", {"throughput": 348323.86 * 8 * 2**10}, {"message": 16384}),
        ("stream_M.txt", "tcp-stream", {"throughput": 688.75 * 8 * 2**20}, {"message": 4096}),
        ("stream_GB.txt", "tcp-stream", {"throughput": 0.2 * 8 * 2**30}, {"message": 16384}),
        ("stream_k.txt", "tcp-stream", {"throughput": 1723325.38e3}, {"message": 16384}),
        # netperf says bits and prints bytes: in b_keywords 182272749 bytes arrived in 1.02 s
        ("stream_b.txt", "tcp-stream", {"throughput": 665888406.32 * 8}, {"message": 16384}),
        ("b_keywords.txt", "tcp-stream", {"throughput": 179207052.19 * 8}, {}),
        ("maerts_K.txt", "tcp-maerts", {"throughput": 409118.92 * 8 * 2**10}, {"message": 16384}),
        ("demo.txt", "tcp-stream", {"throughput": 4400.65e6}, {"message": 16384}),
        ("rr_cpu.txt", "tcp-rr", {"transaction_rate": 25859.35}, {"request": 1, "response": 1}),
        (
            "rr_burst.txt",
            "tcp-rr",
            {"transaction_rate": 28029.35},
            {"request": 1, "response": 1, "burst": 4},
        ),
        (
            "rr_m_keywords.txt",
            "tcp-rr",
            {"transaction_rate": 18694.764},
            {"request": 1, "response": 1},
        ),
        ("cc.txt", "tcp-cc", {"transaction_rate": 5803.18}, {}),
        (
            "rr_columns.txt",
            "tcp-rr",
            {"transaction_rate": 32647.45, "latency_mean": 30.58e-6, "latency_p99": 50e-6},
            {"request": 1, "response": 1},
        ),
        (
            "omni_all.txt",
            "tcp-rr",
            {
                "transaction_rate": 19258.169,
                "latency_mean": 51.87e-6,
                "latency_p50": 14e-6,
                "latency_p90": 18e-6,
                "latency_p99": 257e-6,
                "retransmits": 0,
            },
            {"request": 1, "response": 1},
        ),
        (
            "omni_udp.csv",
            "udp-stream",
            {"throughput": 81.9e6, "loss": 1 - 10070 / 19538},
            {"message": 1024},
        ),
        (
            "p0_keywords.txt",
            "tcp-rr",
            {"transaction_rate": 9651.8, "latency_p99": 3125e-6},
            {"request": 1, "response": 1},
        ),
    ],
)
def test_netperf_units_and_forms(
    name: str, workload: str, expected: dict[str, float], params: dict[str, int]
) -> None:
    """Captured from netperf 2.7.0 on 127.0.0.1."""
    (found,) = read("netperf", GOLDEN / "import" / f"netperf_{name}").results
    assert (found.workload, found.params) == (workload, params)
    assert figures(found) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("name", "workload", "unit", "expected"),
    [
        ("stream_nohead.txt", "tcp-stream", "m", {"throughput": 565.9e6}),
        ("stream_nohead.txt", "tcp-stream", "K", {"throughput": 565.9 * 8 * 2**10}),
        ("p0_rr.txt", "tcp-rr", "x", {"transaction_rate": 21243.5}),
        ("p0_udp.txt", "udp-stream", "m", {"throughput": 91.67e6, "loss": 1 - 11277 / 18537}),
        ("v0.txt", "", "m", {"throughput": 4587.73e6}),
        ("omni.txt", "tcp-stream", "", {"throughput": 2987.32e6}),
        ("omni_columns.txt", "tcp-stream", "", {"throughput": 3143.88e6}),
    ],
)
def test_netperf_where_the_user_says_what_the_output_does_not(
    name: str, workload: str, unit: str, expected: dict[str, float]
) -> None:
    said = Given(placement="inter", workload=workload, unit=unit)
    (found,) = read("netperf", GOLDEN / "import" / f"netperf_{name}", said).results
    assert found.workload == (workload or "tcp-stream")
    assert figures(found) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("name", "workload", "unit", "words"),
    [
        ("stream_nohead.txt", "", "m", "no line says which test"),
        ("stream_nohead.txt", "tcp-stream", "", "the unit of the figures is not in it"),
        ("stream_nohead.txt", "tcp-stream", "x", "the unit of the throughput is 'Trans'"),
        ("p0_udp.txt", "tcp-stream", "m", "no row has the columns of tcp-stream"),
        ("p0_udp.txt", "tcp-rr", "x", "no row has the columns of tcp-rr"),
        ("p0_rr.txt", "udp-stream", "m", "no row has the columns of udp-stream"),
        ("v0.txt", "", "", "the unit of the figures is not in it"),
        ("omni.txt", "", "", "no line says which test"),
        ("omni_columns.txt", "", "", "no line says which test"),
        ("rr_m.txt", "", "", "10^6bits/s and no transaction rate"),
    ],
)
def test_netperf_that_does_not_say_its_test_or_unit(
    name: str, workload: str, unit: str, words: str
) -> None:
    said = Given(placement="inter", workload=workload, unit=unit)
    with pytest.raises(InputError) as error:
        read("netperf", GOLDEN / "import" / f"netperf_{name}", said)
    assert f"netperf_{name}, line 1: " in error.value.message
    assert words in error.value.message


@pytest.mark.parametrize(
    ("name", "metric", "expected"),
    [
        ("stream_appended.txt", "throughput", [1625.31e6, 1602.09e6, 2198.75e6]),
        ("rr_appended.csv", "transaction_rate", [16264.41, 18083.43]),
    ],
)
def test_netperf_that_went_on_with_p_0_below_one_banner(
    name: str, metric: str, expected: list[float]
) -> None:
    found = read("netperf", GOLDEN / "import" / f"netperf_{name}").results
    assert [figures(one)[metric] for one in found] == expected


def test_netperf_keywords_that_come_once_more(tmp_path: Path) -> None:
    file = tmp_path / "calico.txt"
    file.write_text((GOLDEN / "import" / "netperf_p0_keywords.txt").read_text() * 3)
    found = read("netperf", file).results
    assert [one.workload for one in found] == ["tcp-rr"] * 3
    assert all(figures(one)["transaction_rate"] == 9651.8 for one in found)


def test_netperf_that_the_user_describes_on_the_command_line(tmp_path: Path) -> None:
    file = GOLDEN / "import" / "netperf_stream_nohead.txt"
    said = ["--placement", "inter", "--workload", "tcp-stream", "--unit", "m"]
    found = call(["import", "netperf", str(file), *said, "--out", str(tmp_path), "--json"])
    assert found.exit_code == 0, found.stderr
    told = json.loads(found.stdout)
    assert (told["results"], told["failed"], told["not_run"]) == (1, 0, 0)


@pytest.mark.parametrize("said", [{"workload": "ping"}, {"unit": "q"}])
def test_netperf_what_the_user_says_is_checked(said: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="is unknown"):
        read("netperf", GOLDEN / "import" / "netperf_v0.txt", Given(placement="inter", **said))


def test_a_carriage_return_in_a_row_of_netperf_is_no_result(tmp_path: Path) -> None:
    heading = "Throughput,Throughput Units,Elapsed Time (sec)"
    test = "MIGRATED TCP STREAM TEST from 0.0.0.0 () port 0 AF_INET to 10.0.0.1 () port 0 AF_INET"
    file = tmp_path / "one.csv"
    file.write_text(f"{test}\n{heading}\n1.5,\rits/s,1.00\n", newline="")
    batch = read("netperf", file)
    (result,) = batch.results
    assert result.reason.startswith("netperf printed no result")
