"""Results of other tools as runs: each format, what is missing in it, and input that is none of
it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cnibench.analysis import analyse
from cnibench.errors import InputError, UsageError
from cnibench.importers.batch import Given
from cnibench.importers.writer import write
from cnibench.rundir.reader import RunReader
from tests.unit._call import call
from tests.unit._imports import CSV, DOCUMENT, GOLDEN, figures, read


@pytest.fixture(autouse=True)
def _unsynced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hundreds of small runs: whether they reach the disk is not what is tested here."""
    monkeypatch.setattr("cnibench.rundir.files.os.fsync", lambda _: None)


def all_results(change: Callable[[dict[str, str]], None] = lambda values: None) -> str:
    """A file of the format, with invented figures."""
    values: dict[str, str] = {}
    for path in "DS":
        for transport in "TU":
            for streams in "MS":
                test = f"{path}{transport}{streams}"
                for side in ("CLIENT", "SERVER"):
                    values |= {
                        f"{test}_{side}_SYSTEM": "0.50",
                        f"{test}_{side}_USER": "0.25",
                        f"{test}_{side}_MEM": "1000000",
                    }
                values[f"{test}_BW"] = "9000000000.5"
                values |= (
                    {f"{test}_RTS": "12"}
                    if transport == "T"
                    else {f"{test}_JITTER": "0.01", f"{test}_LOST": "5"}
                )
    for side in ("CLIENT", "SERVER"):
        values |= {
            f"IDLE_{side}_SYSTEM": "0.01",
            f"IDLE_{side}_USER": "0.02",
            f"IDLE_{side}_MEM": "900000",
        }
    change(values)
    return "".join(f"{key}={value}\n" for key, value in values.items())


def tree(
    folder: Path, names: tuple[str, ...] = ("flannel", "antrea"), repeats: int = 7, **broken: str
) -> Path:
    for name in names:
        for repeat in range(1, repeats + 1):
            file = folder / "bench" / name / str(repeat) / "all.results"
            file.parent.mkdir(parents=True)

            def change(values: dict[str, str], name: str = name, repeat: int = repeat) -> None:
                values["DTS_BW"] = str((9e9 if name == "flannel" else 6e9) + repeat * 1e7)
                if name == "antrea" and repeat == 2:
                    values.update(broken)

            file.write_text(all_results(change))
    return folder / "bench"


def test_infrabuilder_tree_is_one_run(tmp_path: Path) -> None:
    batch = read("infrabuilder", tree(tmp_path, repeats=2), Given())
    assert {(one.label, one.repeat) for one in batch.results} == {
        ("flannel", 0),
        ("flannel", 1),
        ("antrea", 0),
        ("antrea", 1),
    }
    assert len(batch.results) == 4 * 9
    first = next(
        one
        for one in batch.results
        if one.label == "flannel" and one.path == "pod" and one.params == {"streams": 1}
    )
    assert (first.workload, first.placement, first.fidelity) == ("iperf3-tcp", "inter", "cni")
    assert figures(first) == {
        "throughput": 9.01e9,
        "retransmits": 12,
        "cpu_system/client": 0.5,
        "cpu_user/client": 0.25,
        "memory/client": 1e6,
        "cpu_system/server": 0.5,
        "cpu_user/server": 0.25,
        "memory/server": 1e6,
    }
    udp = next(
        one
        for one in batch.results
        if one.workload == "iperf3-udp" and one.path == "clusterip" and one.params == {"streams": 8}
    )
    assert figures(udp)["loss"] == pytest.approx(0.05)
    assert {one.workload for one in batch.results if not one.params} == {"idle"}


@pytest.mark.parametrize("bad", ["null", "", "   ", "nan", "-1", "0", "inf"])
def test_infrabuilder_a_bandwidth_that_is_none_is_a_failed_cell(tmp_path: Path, bad: str) -> None:
    batch = read("infrabuilder", tree(tmp_path, STM_BW=bad), Given())
    failed = [one for one in batch.results if not one.figures]
    assert [(one.label, one.repeat, one.path, one.params) for one in failed] == [
        ("antrea", 1, "clusterip", {"streams": 8})
    ]
    run = RunReader(write(batch, tmp_path / "runs", "infrabuilder", ["cnibench", "import"]))
    lines = [line for line in run.samples() if line.status != "ok"]
    assert [(line.label, line.block, line.metric, line.value, line.status) for line in lines] == [
        ("antrea", 1, "", None, "failed")
    ]
    assert "STM_BW" in lines[0].reason
    result = next(
        one
        for one in analyse([run]).results
        if one.label == "antrea" and one.params == {"streams": 8} and one.path == "clusterip"
    )
    assert (result.n, result.failed) == (6, 1)


def test_infrabuilder_another_missing_figure_fails_alone(tmp_path: Path) -> None:
    batch = read("infrabuilder", tree(tmp_path, DTS_SERVER_MEM="", DTS_RTS="null"), Given())
    run = RunReader(write(batch, tmp_path / "runs", "infrabuilder", ["cnibench", "import"]))
    lines = [line for line in run.samples() if line.status != "ok"]
    assert {(line.metric, line.value, line.reason) for line in lines} == {
        ("memory", None, "DTS_SERVER_MEM is blank"),
        ("retransmits", None, "DTS_RTS is no figure: null"),
    }


def test_infrabuilder_a_missing_key_fails_too(tmp_path: Path) -> None:
    file = tmp_path / "flannel" / "1" / "all.results"
    file.parent.mkdir(parents=True)
    file.write_text(
        all_results(
            lambda values: [values.pop(key) for key in ("SUS_BW", "STS_SERVER_USER")] and None
        )
    )
    results = read("infrabuilder", file, Given()).results
    assert [one.reason for one in results if not one.figures] == ["SUS_BW is missing"]
    assert {one.label for one in results} == {"flannel"}
    assert [one.reason for result in results for one in result.figures if one.value is None] == [
        "STS_SERVER_USER is missing"
    ]


def test_an_imported_run_works_with_every_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    made = call(
        [
            "import",
            "infrabuilder",
            str(tree(tmp_path, repeats=10, DUS_BW="null")),
            "--name",
            "peer",
            "--fact",
            "wire=nic",
            "--json",
        ]
    )
    assert made.exit_code == 0, made.stderr
    document = json.loads(made.stdout)
    assert (document["results"], document["failed"]) == (2 * 10 * 9, 1)
    assert document["profiles"] == ["antrea", "flannel"]
    report = json.loads(call(["report", "last", "--json"]).stdout)
    wanted = {
        "metric": "throughput",
        "path": "pod",
        "workload": "iperf3-tcp",
        "params": {"streams": 1},
    }
    pair = next(
        one for one in report["pairs"] if all(one[key] == value for key, value in wanted.items())
    )
    assert pair["verdict"] == "b-better"
    assert report["environment"]["testbed"] == "cluster"
    assert report["environment"]["kernel"] == "not recorded"
    assert report["results"][0]["wire"] == "nic"
    assert {one["fidelity"] for one in report["results"]} == {"cni"}
    for form in ("text", "md", "csv", "openmetrics", "benchstat"):
        shown = call(["report", "last", "--format", form])
        assert shown.exit_code == 0, shown.stderr
        assert "antrea" in shown.stdout
    worse = call(["compare", "last:flannel", "last:antrea"])
    assert worse.exit_code == 4, worse.stdout
    claims = json.loads(call(["claims", "last", "--json"]).stdout)
    assert set(claims["counts"]) == {"not-measured", "not-testable-here"}
    asked = call(
        ["query", "select count(*) as n from samples where status = 'failed'", "last", "--json"]
    )
    assert json.loads(asked.stdout)["rows"] == [{"n": 1}]
    assert "complete" in call(["runs", "show", "last"]).stdout


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


WRONG: list[tuple[str, str, str]] = [
    ("infrabuilder", "DTS_BW=1\nwhat is this\n", "line 2: expected KEY=value"),
    ("infrabuilder", "DTS_BW=1\nDTS_BW=2\n", "line 2: DTS_BW occurs twice"),
    ("infrabuilder", "OTHER=1\n", "none of the keys"),
    ("infrabuilder", "", "none of the keys"),
    ("iperf3", '{\n"start": {},\n"end": }\n', "line 3: not JSON"),
    ("iperf3", "[]", "no report of iperf3"),
    ("iperf3", "[" * 100_000, "JSON that cannot be read"),
    (
        "iperf3",
        '{"start": {"test_start": {"protocol": "TCP"}}, "end": {"x": "\\ud800"}}',
        "cannot be read",
    ),
    ("netperf", "nothing here\n", "line 1"),
    ("k8s-netperf", "[1]", "document 1"),
    (
        "k8s-netperf",
        '[{"driver": "netperf", "profile": "SCTP", "throughput": 1}]',
        "'SCTP' is unknown",
    ),
    (
        "k8s-netperf",
        CSV.replace("false,10,1,3,1024,861.5", "10,1,3"),
        "line 2: 11 fields, expected 14",
    ),
    (
        "k8s-netperf",
        CSV.replace("TCP_STREAM,false", "TCP_STREAM,perhaps"),
        "line 2: expected true or false",
    ),
    ("k8s-netperf", "Role,Driver\n", "no column 'Driver'"),
]


@pytest.mark.parametrize(("form", "text", "words"), WRONG)
def test_wrong_input_names_the_file_and_the_line(
    tmp_path: Path, form: str, text: str, words: str
) -> None:
    file = tmp_path / "wrong.results"
    file.write_text(text)
    if words == "no column 'Driver'":
        words = "no column 'Profile'"
    with pytest.raises(InputError) as error:
        read(form, file)
    assert words in error.value.message
    assert "wrong.results" in error.value.message
    assert error.value.remedy


def test_wrong_use(tmp_path: Path) -> None:
    for arguments, words in (
        (["import", "sysbench", str(tmp_path)], "infrabuilder"),
        (["import", "infrabuilder", str(tmp_path / "none")], "No such file"),
        (["import", "infrabuilder", str(tmp_path)], "no all.results"),
        (["import", "iperf3", str(tmp_path)], "--placement"),
        (["import", "iperf3", str(tmp_path), "--placement", "inter"], "no file in it"),
        (["import", "infrabuilder", str(tmp_path), "--fact", "colour=blue"], "the keys are"),
    ):
        found = call(arguments)
        assert found.exit_code == 2, arguments
        assert words in found.stderr
    assert not (tmp_path / "runs").exists()


SEEDS = {
    "infrabuilder": all_results(),
    "iperf3": (GOLDEN / "iperf3" / "tcp.json").read_text(),
    "netperf": (GOLDEN / "import" / "netperf_rr.csv").read_text(),
    "k8s-netperf": json.dumps([DOCUMENT]),
}


@pytest.mark.parametrize("form", sorted(SEEDS))
@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_any_bytes_are_a_run_or_a_message(tmp_path: Path, form: str, data: st.DataObject) -> None:
    """Random bytes, and real files with a piece replaced."""
    seed = SEEDS[form].encode()
    at = data.draw(st.integers(0, len(seed)))
    length = data.draw(st.integers(0, 40))
    piece = data.draw(
        st.one_of(
            st.binary(max_size=40),
            st.sampled_from([b"null", b"NaN", b"1e400", b"9" * 30, b'"', b"=", b"-1", b"\n"]),
        )
    )
    content = data.draw(
        st.one_of(st.binary(max_size=200), st.just(seed[:at] + piece + seed[at + length :]))
    )
    file = tmp_path / "any.txt"
    file.write_bytes(content)
    batch, told = None, ""
    try:
        batch = read(form, file)
    except InputError as error:
        told = error.message
    if batch is None:
        assert "any.txt" in told
        return
    run = RunReader(write(batch, tmp_path / "runs", form, ["cnibench", "import"]))
    assert len(run.done()) == len(batch.results)
    assert not run.warnings
    analyse([run])
    shutil.rmtree(tmp_path / "runs")


def test_a_carriage_return_in_a_row_of_netperf_is_no_result(tmp_path: Path) -> None:
    heading = "Throughput,Throughput Units,Elapsed Time (sec)"
    test = "MIGRATED TCP STREAM TEST from 0.0.0.0 () port 0 AF_INET to 10.0.0.1 () port 0 AF_INET"
    file = tmp_path / "one.csv"
    file.write_text(f"{test}\n{heading}\n1.5,\rits/s,1.00\n", newline="")
    batch = read("netperf", file)
    (result,) = batch.results
    assert result.reason.startswith("netperf printed no result")
