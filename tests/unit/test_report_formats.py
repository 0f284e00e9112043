"""Each format of a report: legible, parsable, and safe against what a run's strings may hold."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
from collections import defaultdict
from datetime import datetime
from pathlib import Path

import duckdb
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cnibench.analysis import Analysis, analyse
from cnibench.registry import providers
from cnibench.reports import _escape
from cnibench.reports._numbers import Scale, p_value
from cnibench.reports.text import PROVIDER as TEXT
from cnibench.rundir.schema import Unsupported
from tests.unit._call import call
from tests.unit._runs import synthetic

HOSTILE = '\x1b[31m<script>alert(1)</script>[bold]|`x`_\u202eevil\u202c\x00\x07😀=HYPERLINK("http://x")\n# h'  # noqa: E501
FORMATS = ("text", "brief", "md", "json", "csv", "parquet", "openmetrics", "benchstat")


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    """14 profiles, some of which tie, one of which fails now and then."""
    names = [
        "host",
        "veth-baseline",
        "bridge-static",
        "flannel",
        "flannel-off",
        "flannel-host-gw",
        "calico-wp-xsub",
        "calico-np-xsub",
        "calico-bare-xsub",
        "calico-wp-vxlan",
        "kube-router-ipip",
        "cilium",
        "cilium-native",
        "weave",
    ]
    truth = {name: 1.0 - 0.02 * (i // 2) for i, name in enumerate(names)}
    unsupported = [
        Unsupported(
            label="calico-wp-ipip",
            profile="calico-wp-ipip",
            lacks="CONFIG_NET_IPIP",
            remedy="use --kernel vm",
        )
    ]
    fidelity = {"host": "baseline", "veth-baseline": "baseline"}
    folder = tmp_path_factory.mktemp("many")
    return analyse(
        [
            synthetic(
                folder,
                truth,
                blocks=13,
                unsupported=unsupported,
                fidelity=fidelity,
                fail=[("weave", 3)],
            )
        ]
    )


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    folder = tmp_path_factory.mktemp("hostile")
    run = synthetic(
        folder,
        {HOSTILE: 1.0, "=cmd()": 0.9},
        blocks=6,
        environment={"os": HOSTILE, HOSTILE: 1},
        name="hostile",
        notes=[HOSTILE],
        unsupported=[Unsupported(label=HOSTILE, profile=HOSTILE, lacks=HOSTILE, remedy=HOSTILE)],
    )
    return analyse([run])


def test_every_format_is_there() -> None:
    assert set(FORMATS) <= set(providers("reports"))


@pytest.mark.parametrize("width", [80, 100, 200])
def test_fourteen_profiles_fit_the_terminal(many: Analysis, width: int) -> None:
    text = TEXT.render(many, width)
    assert max(len(line) for line in text.splitlines()) <= width
    for label in many.labels:
        assert re.search(rf"^{label} ", text, re.MULTILINE), label
    for words in (
        "ratio to host",  # the first
        "1 (baseline)",
        "fidelity: datapath-model",
        "cycles: estimated (of the TSC), without idle",
        "unclassified",
        "CONFIG_NET_IPIP",
        "the server is gone",
        "testbed lab; wire veth; wire offload plain; duration 10 s; warm-up 2 s",
    ):
        assert words in " ".join(text.split())
    assert re.search(r"~ \(p=\d\.\d+ n=1[23]\)", text)
    assert text.isascii() or "…" in text


def test_a_narrow_table_keeps_every_column(many: Analysis) -> None:
    text = TEXT.render(many, 80)
    for head in ("median", "mean", "CI", "group", "retransmitted", "CPU softirq"):
        assert head in text


def test_markdown_has_the_same_tables(many: Analysis) -> None:
    text = providers("reports")["md"].render(many)
    lines = text.splitlines()
    for start in (
        i for i, line in enumerate(lines) if re.fullmatch(r"\|(-+:?\|)+|\|(---\||--:\|)+", line)
    ):
        columns = lines[start].count("|")
        table = lines[start - 1 :]
        table = table[
            : next((i for i, line in enumerate(table) if not line.startswith("|")), len(table))
        ]
        assert {len(re.findall(r"(?<!\\)\|", line)) for line in table} == {columns}
    assert text.startswith("# cnibench report")
    assert "Certainty: of " in text


def test_nothing_hostile_survives(hostile: Analysis) -> None:
    text, md = TEXT.render(hostile, 100), providers("reports")["md"].render(hostile)
    openmetrics, bench = (
        providers("reports")[name].render(hostile) for name in ("openmetrics", "benchstat")
    )
    for rendered in (text, md, openmetrics, bench):
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", rendered)
    assert "<script>" not in md
    assert "](http" not in md
    assert "http://" not in md
    assert not re.search(r"(?<!\\)\[bold\]", md)
    assert "[bold]" in text
    assert len(re.findall("^# ", md, re.MULTILINE)) == 1
    table = list(csv.reader(io.StringIO(providers("reports")["csv"].render(hostile))))
    assert not any(cell[:1] in "=+@" for row in table for cell in row if cell)
    assert json.loads(providers("reports")["json"].render(hostile))["notes"][0] == HOSTILE


@given(st.text())
def test_escaped_text_is_one_visible_line(text: str) -> None:
    for escape in (_escape.plain, _escape.markdown, _escape.cell):
        shown = escape(text)
        assert "\n" not in shown
        assert "\x1b" not in shown
    assert "<" not in _escape.markdown(text)
    assert not re.search(r"(?<!\\)(\\\\)*\|", _escape.markdown(text))


@given(st.text(st.sampled_from("a b\t\n\x1b[1mé\u202e\u00a0~\x7f")), st.integers(2, 12))
def test_text_that_is_plain_already_is_the_same(text: str, longest: int) -> None:
    """With and without the short way."""
    marked = _escape.plain("\u200b" + text, longest)  # a hidden mark, which has no short way
    assert _escape.plain(text, longest) == marked
    assert _escape.plain(marked, longest) == marked
    assert len(marked) <= longest


def test_csv_and_parquet_hold_the_same_rows(many: Analysis, tmp_path: Path) -> None:
    table = list(csv.DictReader(io.StringIO(providers("reports")["csv"].render(many))))
    file = tmp_path / "report.parquet"
    file.write_bytes(providers("reports")["parquet"].render(many))
    rows = (
        duckdb.connect()
        .execute("SELECT label, metric, median, verdict FROM read_parquet(?)", [str(file)])
        .fetchall()
    )
    assert [
        (row["label"], row["metric"], float(row["median"]), row["verdict"] or None) for row in table
    ] == rows
    assert len(rows) == len(many.results)
    host = next(row for row in table if row["label"] == "flannel" and row["metric"] == "throughput")
    assert float(host["ratio"]) < 1
    assert host["verdict"] == "worse"


def test_openmetrics_is_what_the_standard_says(many: Analysis) -> None:
    text = providers("reports")["openmetrics"].render(many)
    assert text.endswith("# EOF\n")
    name, kind, seen, series = "", "", {}, set()
    ended = datetime.fromisoformat(many.run.finished).timestamp()
    for line in text.splitlines()[:-1]:
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            assert name not in seen, "a family must not be split"
            seen[name] = kind
        elif line.startswith("# UNIT "):
            assert name.endswith("_" + line.split()[3])
        elif not line.startswith("# HELP "):
            match = re.fullmatch(
                r'([a-z0-9_]+)\{((?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*",?)+)\}'
                r" (\S+) (\S+)",
                line,
            )
            assert match, line
            assert match[1] == name + ("_info" if kind == "info" else "")
            assert (name, match[2]) not in series
            assert kind != "stateset" or f'{name}="' in match[2]
            series.add((name, match[2]))
            float(match[3])
            assert float(match[4]) == ended
    assert set(seen.values()) == {"gauge", "info", "stateset"}
    assert "cnibench_throughput_bits_per_second" in seen


def test_openmetrics_ratios_are_those_to_the_baseline(many: Analysis) -> None:
    lines: dict[tuple[str, ...], list[str]] = defaultdict(list)
    names = ("placement", "workload", "label", "against", "metric")
    for line in providers("reports")["openmetrics"].render(many).splitlines():
        found = dict(re.findall(r'(\w+)="([^"]*)"', line))
        lines[tuple(found.get(name, "") for name in names)].append(line)
    for pair in many.pairs:
        if many.baseline not in (pair.a, pair.b) or pair.ratio is None:
            continue
        label = pair.b if pair.a == many.baseline else pair.a
        ratio = pair.ratio if label == pair.a else 1 / pair.ratio
        own = lines[pair.placement, pair.workload, label, many.baseline, pair.metric]
        (ratios,) = (line for line in own if 'statistic="ratio"' in line)
        assert float(ratios.split()[-2]) == pytest.approx(ratio)
        low, high = (
            next(float(line.split()[-2]) for line in own if f'statistic="{which}"' in line)
            for which in ("ci_low", "ci_high")
        )
        assert low <= ratio <= high
        (state,) = (line for line in own if line.startswith("cnibench_verdict") and " 1 " in line)
        better = pair.verdict == ("a-better" if label == pair.a else "b-better")
        assert ('cnibench_verdict="better"' in state) == better


def test_openmetrics_of_a_run_without_a_time(many: Analysis) -> None:
    run = msgspec.structs.replace(many.run, started="yesterday", finished="")
    unknown = msgspec.structs.replace(many, runs=[run])
    text = providers("reports")["openmetrics"].render(unknown)
    assert all(line.endswith(" 1") for line in text.splitlines() if "_info{" in line)


def test_benchstat_lines_have_the_format_of_go(many: Analysis) -> None:
    text = providers("reports")["benchstat"].render(many)
    results = [line for line in text.splitlines() if line.startswith("Benchmark")]
    assert len(results) == sum(result.n for result in many.results)
    assert all(
        re.fullmatch(r"Benchmark[A-Z]\S* 1 [0-9.e+-]+ [A-Za-z0-9_/-]+", line) for line in results
    )
    for line in text.splitlines():
        assert not line or re.match(
            r"[a-z-]+: \S|Unit \S+ better=(higher|lower)$|Benchmark", line
        ), line


def test_scales_and_p_values() -> None:
    scale = Scale.of([1.4e10, 9e9], "bit/s")
    assert (scale(1.4e10), scale.unit) == ("14.00", "Gbit/s")
    assert Scale.of([4.17e4], "1/s").unit == "k/s"
    assert Scale.of([3e-5], "s").unit == "us"
    assert Scale.of([0.0], "1")(0.0) == "0"
    assert Scale.of([], "B").unit == "B"
    assert [p_value(p) for p in (0.41, 0.052, 0.0041, 1e-5, None)] == [
        "0.41",
        "0.052",
        "0.004",
        "<0.001",
        "-",
    ]


@pytest.mark.parametrize("form", FORMATS)
def test_the_command_writes_every_format(tmp_path: Path, form: str) -> None:
    run = synthetic(tmp_path, {"a": 1.0, "b": 0.9}, blocks=6)
    file = tmp_path / "out"
    run.path.chmod(0o555)
    try:
        done = call(["report", str(run.path), "--format", form, "--out", str(file)])
    finally:
        run.path.chmod(0o755)
    assert done.exit_code == 0, done.stderr
    assert file.stat().st_size > 100


def test_the_command_prints_json_and_nothing_else(tmp_path: Path) -> None:
    run = synthetic(tmp_path, {"a": 1.0, "b": 0.9}, blocks=6)
    done = call(["report", str(run.path), "--json"])
    assert done.exit_code == 0
    assert json.loads(done.stdout)["run"]["id"] == "synthetic-1"


@pytest.mark.parametrize(
    "arguments",
    [
        ["report", "nothing"],
        ["report", "."],
        ["report", "--folder", "/nowhere"],
        ["report", "{run}", "--out", "/nowhere/at/all"],
        ["report", "{run}", "{run}"],
        ["report", "{run}", "--baseline", "c"],
        ["query", "selec", "{run}"],
        ["query", "select * from read_text('/etc/passwd')", "{run}"],
        ["query", "select 1", "--folder", "/nowhere"],
        ["query", "select 1", "{run}", "{run}"],
    ],
)
def test_wrong_use_is_reported_and_exits_2(tmp_path: Path, arguments: list[str]) -> None:
    run = synthetic(tmp_path, {"a": 1.0, "b": 0.9}, blocks=2)
    done = call([item.replace("{run}", str(run.path)) for item in arguments])
    assert done.exit_code == 2
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("damaged", [False, True])
def test_query_counts_no_run_twice(tmp_path: Path, damaged: bool) -> None:
    run = synthetic(tmp_path, {"a": 1.0, "b": 0.9}, blocks=2, name="run")
    copy = Path(shutil.copytree(run.path, tmp_path / "the-copy"))
    if damaged:
        (copy / "samples.jsonl").write_text("{\n")
    count = ["query", "select count(*) from samples"]
    named = call([*count, str(run.path), str(copy)])
    assert named.exit_code == 2
    assert f"one run was named twice: {run.path} and {copy} have the run id run-1" in named.stderr
    every = call([*count, "--folder", str(tmp_path)])
    assert every.exit_code == 2
    assert f"{tmp_path} contains one run twice: {run.path} and {copy} have" in every.stderr
    assert f"move one of them out of {tmp_path}, or name the runs" in every.stderr
    assert call([*count, str(run.path), "--folder", str(tmp_path)]).exit_code == 0


def test_query_sees_the_samples_of_all_runs(tmp_path: Path) -> None:
    one = synthetic(tmp_path, {"a": 1.0, "b": 0.9}, blocks=2, name="one")
    two = synthetic(tmp_path, {"a": 1.0}, blocks=3, name="two", fail=[("a", 0)])
    with (two.path / "samples.jsonl").open("a") as file:
        file.write('{"schema": 1, "cell": "cut o')
    done = call(
        [
            "query",
            "select run, count(*) as n, count(value) as v from samples group by all order by 1",
            "--json",
            str(one.path),
            str(two.path),
        ]
    )
    assert done.exit_code == 0, done.stderr
    assert "cut off in the middle" in done.stderr
    expected = [
        (
            reader.id,
            sum(1 for _ in reader.samples()),
            sum(s.value is not None for s in reader.samples()),
        )
        for reader in (one, two)
    ]
    assert [(row["run"], row["n"], row["v"]) for row in json.loads(done.stdout)["rows"]] == expected
    table = call(
        [
            "query",
            "select label, params->>'size' as size from samples limit 1",
            "--folder",
            str(tmp_path),
        ]
    )
    assert table.exit_code == 0
    assert "label" in table.stdout


def test_cycles_with_split_cpus_say_what_is_missing(tmp_path: Path) -> None:
    run = synthetic(tmp_path, {"a": 1.0, "b": 0.9})
    analysis = analyse([run])
    split = [msgspec.structs.replace(row, cpus="split") for row in analysis.cpp]
    said = "without the waking of an idle CPU"
    assert said not in " ".join(TEXT.render(analysis).split())
    changed = msgspec.structs.replace(analysis, cpp=split)
    assert said in " ".join(TEXT.render(changed).split())


def test_the_share_outside_the_programs_and_idle_time_are_said(tmp_path: Path) -> None:
    """Their cycles per packet, and so their cycles, are 2000 and 2500 million."""
    run = synthetic(tmp_path, {"a": 1.0, "b": 0.8})
    assert "outside the workload's programs" not in TEXT.render(analyse([run]))
    path = run.path / "cpp.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(one | {"outside_cycles": 3e8}) + "\n" for one in lines))
    text = " ".join(TEXT.render(analyse([run])).split())
    assert (
        "outside the workload's programs (interrupts, ksoftirqd, softirqs on idle CPUs), and so not"
        " in CPU time per transaction or byte: a 15%, b 12%" in text
    )
    assert "idle, of the time of all CPUs: a 50%, b 50%" in text
