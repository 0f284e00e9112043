"""Input that is not in the format it is said to be in, and wrong use of the command."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cnibench.analysis import analyse
from cnibench.errors import InputError
from cnibench.importers.writer import write
from cnibench.reports.bundle.making import bundle
from cnibench.rundir.reader import RunReader
from tests._import_samples import CILIUM_TABLES, PERF_TESTS, TIGER_BENCH, flows
from tests.unit._bundles import refusal
from tests.unit._call import call
from tests.unit._imports import CSV, DOCUMENT, GOLDEN, read
from tests.unit._infrabuilder import all_results

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
    ("k8s-netperf", "Role,Driver\n", "no column 'Profile'"),
]


@pytest.mark.parametrize(("form", "text", "words"), WRONG)
def test_wrong_input_names_the_file_and_the_line(
    tmp_path: Path, form: str, text: str, words: str
) -> None:
    file = tmp_path / "wrong.results"
    file.write_text(text)
    with pytest.raises(InputError) as error:
        read(form, file)
    assert words in error.value.message
    assert "wrong.results" in error.value.message
    assert error.value.remedy


def test_a_path_that_is_not_there_is_named_before_an_option_is_asked_for(tmp_path: Path) -> None:
    done = call(["import", "iperf3", str(tmp_path / "gone.json")])
    assert (done.exit_code, "gone.json: No such file" in done.stderr) == (2, True)


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
    "knb": (GOLDEN / "import" / "knb.json").read_text(),
    "perf-tests": PERF_TESTS,
    "tiger-bench": json.dumps(TIGER_BENCH),
    "cilium-perf": CILIUM_TABLES,
    "traffic-flow-tests": flows(json.loads((GOLDEN / "iperf3" / "tcp.json").read_text())),
}


@pytest.mark.parametrize("form", sorted(SEEDS))
def test_what_was_imported_can_be_published(form: str, tmp_path: Path) -> None:
    """Its figures hold although it does not say everything of itself."""
    file = tmp_path / "any.txt"
    file.write_text(SEEDS[form])
    run = RunReader(write(read(form, file), tmp_path / "runs", form, ["cnibench", "import"]))
    assert refusal(tmp_path, bundle(run)) == ""


@pytest.mark.parametrize("form", sorted(SEEDS))
@settings(
    max_examples=30,
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
