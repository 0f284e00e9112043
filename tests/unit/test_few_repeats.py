"""Runs of few blocks and imported results: what the report says, and which comparisons it makes."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from cnibench.analysis import Analysis, analyse
from cnibench.errors import UsageError
from cnibench.reports.brief import PROVIDER as BRIEF
from cnibench.reports.document.build import document
from cnibench.reports.text import PROVIDER as TEXT
from cnibench.rundir.reader import RunReader
from tests.unit._brief import rows
from tests.unit._call import call
from tests.unit._runs import edited, synthetic

TRUTH = {"fast": 1.0, "close": 0.97, "same": 1.0, "half": 0.5}


def _run(folder: Path, *, blocks: int = 3, imported: bool = False, **more: object) -> RunReader:
    facts = {"imported": "infrabuilder"} if imported else {}
    return synthetic(
        folder,
        more.pop("truth", TRUTH),
        blocks=blocks,
        noise=0.01,
        workloads=("tcp-rr",),
        placements=("intra",),
        cpp=False,
        environment=facts,
        **more,
    )


def _pairs(analysis: Analysis) -> dict[tuple[str, str], object]:
    return {(p.a, p.b): p for p in analysis.pairs if p.metric == "transaction_rate"}


def _rows(analysis: Analysis, number: int = 0) -> dict[str, str]:
    """Label to what the column of ratios says."""
    table = document(analysis, whole=True).sections[number].tables[0]
    at = next(i for i, head in enumerate(table.heads) if head.startswith("ratio to"))
    return {row[0]: row[at] for row in table.rows}


@pytest.mark.parametrize("imported", [False, True])
def test_three_repeats_say_what_is_known(tmp_path: Path, imported: bool) -> None:
    analysis = analyse([_run(tmp_path, imported=imported)])
    pairs = _pairs(analysis)
    pair = pairs["fast", "half"]
    assert (pair.verdict, pair.basis, pair.evidence) == ("a-better", "additive model", "proven")
    assert pair.p == 0.25
    assert 1 < pair.ci_low < 2 < pair.ci_high
    text = TEXT.render(analysis, 200)
    assert "?" not in text
    (group,) = [one for one in analysis.groups if one.metric == "transaction_rate"]
    assert group.model.paired is not imported
    # the assumption is in the first paragraph and beside the table
    assert ("what its block adds" in " ".join(analysis.summary)) is not imported
    section = document(analysis, whole=True).sections[0]
    assert any("normal noise" in line for line in section.lines)
    assert all(
        shown == "1 (baseline)" or shown.rsplit(" ", 1)[1] in ("proven", "suggestive", "~")
        for shown in _rows(analysis).values()
    )
    assert "of them assuming normal noise" in BRIEF.render(analysis, 1000)


def test_one_value_proves_nothing(tmp_path: Path) -> None:
    run = _run(tmp_path, fail=[("half", 0), ("half", 1)])
    pair = _pairs(analyse([run]))["fast", "half"]
    assert (pair.n, pair.verdict, pair.evidence) == (1, "inconclusive", "suggestive")


def test_a_single_block_shows_its_ratios(tmp_path: Path) -> None:
    rows = _rows(analyse([_run(tmp_path, blocks=1)]))
    assert all(shown.endswith("(n=1)") for label, shown in rows.items() if label != "fast")


def test_values_without_noise_prove_nothing(tmp_path: Path) -> None:
    """Rounded figures can be the same three times."""

    def edit(line: dict[str, object]) -> dict[str, object]:
        value = {"fast": 10.0, "close": 9.0, "same": 10.0, "half": 5.0}[str(line["label"])]
        return line | {"value": value}

    analysis = analyse([edited(_run(tmp_path), edit)])
    assert {p.evidence for p in _pairs(analysis).values()} == {"none"}
    assert _rows(analysis)["half"] == "0.500 (n=3)"


def test_intervals_of_selected_pairs_are_adjusted(tmp_path: Path) -> None:
    """One of six is significant: its own interval has six times the rest of error."""
    truth = {"a": 1.0, "b": 1.0, "c": 1.0, "d": 1.012}
    analysis = analyse([_run(tmp_path, truth=truth, blocks=12, seed=3)])
    pairs = _pairs(analysis).values()
    count = sum(pair.evidence == "proven" for pair in pairs)
    assert 0 < count < 6
    for pair in pairs:
        rest = 0.05 * count / 6 if pair.evidence == "proven" else 0.05 / (6 - count)
        assert pair.confidence == pytest.approx(1 - rest)


@pytest.mark.parametrize("blocks", [3, 12])
def test_family_of_the_baseline(tmp_path: Path, blocks: int) -> None:
    analysis = analyse([_run(tmp_path, blocks=blocks)], baseline="same", family="baseline")
    pairs = _pairs(analysis)
    assert set(pairs) == {("fast", "same"), ("close", "same"), ("same", "half")}
    assert {pair.family for pair in pairs.values()} == {3}
    (group,) = [one for one in analysis.groups if one.metric == "transaction_rate"]
    assert group.ranking[-1] == "half"
    assert not group.letters
    said = " ".join(analysis.summary)
    assert "compared with same" in said
    assert "; worse: " in said
    assert "as asked (--family baseline)" in said
    place = rows(BRIEF.render(analysis, 1000).splitlines())["tcp-rr on one node"]
    assert re.fullmatch(r"\d\S+ k/s", place["same"])
    assert re.fullmatch(r"-5\d\.\d to -4\d\.\d %", place["half"])
    assert set(_rows(analysis)) == set(TRUTH)
    assert TEXT.render(analysis)


def test_only_some_labels(tmp_path: Path) -> None:
    run = _run(tmp_path, blocks=12)
    analysis = analyse([run], only=["f*", "half"])
    assert analysis.labels == ["fast", "half"]
    assert analysis.baseline == "fast"
    assert [pair.family for pair in _pairs(analysis).values()] == [1]
    assert "without close, same, as asked (--cni)" in " ".join(analysis.summary)
    with pytest.raises(UsageError, match="there is no 'x\\*'"):
        analyse([run], only=["x*"])


def test_report_takes_both_options(tmp_path: Path) -> None:
    run = _run(tmp_path, blocks=12)
    options = ["--cni", "fast,half", "--cni", "same", "--family", "baseline", "--format", "brief"]
    result = call(["report", str(run.path), *options, "--baseline", "half"])
    assert result.exit_code == 0, result.stdout
    assert "half" in result.stdout
    assert "close" in result.stdout.split("Compared without")[1]


def test_one_baseline_in_all_tables(tmp_path: Path) -> None:
    """The first, not one without a CNI; where it has no figure, no other takes its place."""
    run = synthetic(
        tmp_path,
        {"first": 0.9, "veth-baseline": 1.0},
        blocks=8,
        workloads=("tcp-rr",),
        cpp=False,
        fidelity={"veth-baseline": "baseline"},
    )

    def edit(line: dict[str, object]) -> dict[str, object]:
        gone = line["label"] == "first" and line["placement"] == "inter"
        return line | ({"status": "failed", "reason": "gone", "value": None} if gone else {})

    analysis = analyse([edited(run, edit)])
    sections = document(analysis, whole=True).sections
    for section in sections[:2]:
        assert "ratio to first" in section.tables[0].heads
    assert "first, the baseline, gave no figure here" in sections[1].lines
    assert _rows(analysis, 1) == {"veth-baseline": "-", "first": "-"}


def test_a_sweeps_tables_carry_its_value(tmp_path: Path) -> None:
    """In their titles, those of cycles per packet, too."""
    run = synthetic(tmp_path, {"a": 1.0, "b": 0.9}, blocks=6, workloads=("tcp-rr",))
    plan = msgspec.json.decode((run.path / "plan.json").read_bytes())
    for cell in plan["cells"]:
        cell["params"] = {"rules": 100 if cell["placement"] == "intra" else 2000}
        cell["placement"] = "intra"
    (run.path / "plan.json").write_bytes(msgspec.json.encode(plan))

    def edit(line: dict[str, object]) -> dict[str, object]:
        rules = 100 if line["placement"] == "intra" else 2000
        return line | {"params": {"rules": rules}, "placement": "intra"}

    analysis = analyse([edited(edited(run, edit), edit, "cpp.jsonl")])
    titles = [section.title for section in document(analysis, whole=True).sections]
    assert [title.split(":")[0] for title in titles[:2]] == [
        "tcp-rr on one node (rules 100)",
        "tcp-rr on one node (rules 2000)",
    ]
    assert [title for title in titles if title.startswith("cycles per packet")] == [
        "cycles per packet by component: tcp-rr, intra (rules 100)",
        "cycles per packet by component: tcp-rr, intra (rules 2000)",
    ]


def test_the_paragraph_speaks_of_other_pairs_only_where_there_are_any(tmp_path: Path) -> None:
    proven = synthetic(tmp_path, {"a": 1.0, "b": 0.5}, blocks=3, name="proven")
    alike = synthetic(tmp_path, {"a": 1.0, "b": 1.0}, blocks=3, name="alike", noise=0.05, seed=3)
    said = [call(["report", str(run.path)]).stdout for run in (proven, alike)]
    told = [" ".join(text.split()) for text in said]
    assert ["of the others nothing can be said" in text for text in told] == [False, True]


def test_the_ends_of_a_narrow_interval_differ(tmp_path: Path) -> None:
    run = synthetic(tmp_path, {"a": 1.0, "b": 1.2}, blocks=6, noise=1e-4, cpp=False)
    text = " ".join(analyse([run], family="baseline").summary)
    assert re.search(r"b \d\.\d+ to \d\.\d+", text)
    assert not re.search(r"(\d\.\d+) to \1[^\d]", text)


def test_ends_that_differ_by_rounding_only_are_one_figure(tmp_path: Path) -> None:
    """Values without noise: both ends are the ratio."""
    run = synthetic(tmp_path, {"a": 1.0, "b": 1.1}, blocks=12, noise=0.0, cpp=False)
    said = " ".join(analyse([run]).summary)
    assert said.count("worse (ratio to b): a 0.909.") == 4
