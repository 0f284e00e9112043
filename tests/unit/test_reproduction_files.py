"""The files of the studies' figures: their schema, their published values, the cells and the claims
that they name, and the plans that are made of them.
"""

from __future__ import annotations

import fnmatch
import json
import re
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest
import yaml

from cnibench.claims import studies
from cnibench.claims.units import base
from cnibench.errors import InputError, UsageError
from cnibench.model.cell import Cell
from cnibench.model.profile import builtin, choose
from cnibench.planning import plans
from cnibench.planning.cells import cells
from cnibench.planning.forecast import passes, whole
from cnibench.planning.plan import Plan
from cnibench.registry import provider, providers
from cnibench.reproduction import Figure, Panel, Series, figures, reduced
from cnibench.reproduction.model import FOLDER, SHARES, WIRE, read_figures, schema_text
from cnibench.reproduction.said import Said
from cnibench.testbed.cluster import Options

STUDIES = ("bruijn2017", "makowski2018", "qi2021")
HOUR = 3600.0  # s
LONGEST = 400  # characters that a page shows of a text
BETWEEN = 1.2  # s between windows, which forecasts do not have; docs/plans.md

# What the studies print, copied from them by hand, figure by figure: numbers of the drawn series.
PUBLISHED = {
    ("makowski2018", "10"): "7.22 8.22 7.20 8.24",
    ("bruijn2017", "7.1"): "3.64 3.17 3.42",
    ("bruijn2017", "7.2"): "3.64 3.17 2.26 3.42 ~3.42",
    ("bruijn2017", "7.3"): "2.37 2.93 2.99",
    ("bruijn2017", "7.4"): "2.37 2.51 2.93 2.94 2.99 2.99",
    ("bruijn2017", "7.5"): "18.91 19.40 20.63",
    ("bruijn2017", "7.6"): "18.91 19.40 20.63",
    ("bruijn2017", "7.7"): "78 75 75",
    ("bruijn2017", "7.8"): "78 75 75",
    ("bruijn2017", "8"): "9.80 6.6 20.80 20.10 19.97 17.10",
    ("qi2021", "9"): (
        "~45 ~45 ~45 ~30 ~30 108 108 ~189 ~10 ~10 ~10 ~10 ~10 ~10 324 ~245 ~245 ~245 ~245 0"
    ),
    ("qi2021", "10"): ("18-19.7 18-19.7 18-19.7 14-15.5 14-15.5 14-15.5 11.1 12.5"),
    ("qi2021", "11"): (
        "~197 100-110 100-110 ~290 ~290 ~150 ~150 ~150 749 ~507 450 236 ~12"
        " ~6 ~6 ~6 ~6 ~6 ~6 ~6 ~6 ~114 ~114 ~30 ~30 ~40 ~170 ~170 ~170"
    ),
    ("qi2021", "13"): "40-50 40-50 160-200 160-200 160-200",
    ("qi2021", "15"): "~60 ~60",
    ("qi2021", "II"): (
        "91.50 125.23 10.930 3168.911 3.57 4.90 84.66 108.15 11.812 3521.380 3.3 4.22"
        " 87.81 117.08 11.388 3362.784 3.43 4.57 90.35 120.57 11.069 3217.960 3.52 4.70"
        " 104.50 143.38 9.569 2829.294 4.08 5.60 112.20 51.46 7.987 7481.709 4.38 2.01"
        " 115.74 60.80 7.367 6629.865 4.52 2.37 105.36 146.08 9.491 2738.195 4.11 5.70"
        " 108.31 157.28 9.233 2434.811 4.23 6.14"
    ),
    ("qi2021", "14"): (
        "91.50 125.23 84.66 108.15 87.81 117.08 90.35 120.57 104.50 143.38 112.20 51.46"
        " 115.74 60.80 105.36 146.08 108.31 157.28"
    ),
    ("qi2021", "III"): (
        "3 5 10 21 3 5 10 21 0 0 4 20 3 5 6 10 3 17 10 46 3 5 10 22 3 17 6 28 3 5 6 12"
    ),
}
# Values that a study gives in words, which no axis has.
IN_WORDS = {
    ("bruijn2017", "7.2"): ["29 %"],
    ("bruijn2017", "8"): ["1464", "1446", "1.5"],
    ("makowski2018", "5"): ["28 bits", "20 bits"],
    ("makowski2018", "10"): ["1.00", "-0.02", "+0.02", "MTU 9000", "8950"],
    ("qi2021", "9"): ["1.35"],
    ("qi2021", "10"): ["0.5 to 1.5"],
    ("qi2021", "11"): ["3 to 11 %"],
    ("qi2021", "12"): ["2 Gb/s"],
    ("qi2021", "15"): ["60 to 195", "1.48 to 1.63", "165", "80", "90"],
    ("qi2021", "I"): ["1450", "1376", "1500", "1440"],
}
DRAWN = {
    "bruijn2017": {
        *("3.1", "3.2", "3.3", "3.4", "3.5", "4.1", "4.2", "4.3", "4.4"),
        *("5.1", "5.2", "5.3", "5.4", "6.1", "6.2", "8"),
        *(f"7.{number}" for number in range(1, 11)),
    },
    "makowski2018": {str(number) for number in range(1, 11)},
    "qi2021": {*(str(number) for number in range(1, 16)), "I", "II", "III"},
}
# Claims of chapters that have no figure.
APART = {
    *("evpn-works", "evpn-tenants", "ila-no-encapsulation", "ila-needs", "maturity"),
    "ideal-cni",
}


def series_of(study: str) -> Iterator[tuple[Figure, Panel, Series]]:
    for figure in figures(study).figures:
        for panel in figure.panels:
            for one in panel.series:
                yield figure, panel, one


def printed(said: Said) -> str:
    text = f"{said.low:g}" if said.low == said.high else f"{said.low:g}-{said.high:g}"
    return "~" * said.about + text


def values(figure: Figure) -> list[str]:
    found = []
    for panel in figure.panels:
        for one in panel.series:
            found += [printed(said) for said in one.published.values()]
            found += [printed(one.level)] if one.level else []
    return sorted(found)


def whole_plan(study: str) -> tuple[Plan, list[str]]:
    known = figures(study)
    plan, notes = reduced(known, known.figures, plans.named(study))
    assert plan
    return plan, notes


def cells_of(plan: Plan) -> list[Cell]:
    return cells(plan, providers("workloads"), choose(plan.cni))[0]


def test_the_schema_is_current() -> None:
    assert (FOLDER / "schema.json").read_text() == schema_text(), (
        "run: python -m cnibench.reproduction"
    )


@pytest.mark.parametrize("study", STUDIES)
def test_the_files_are_whole(study: str) -> None:
    data = yaml.safe_load((FOLDER / f"{study}.yaml").read_text())
    jsonschema.validate(data, json.loads(schema_text()))
    known = figures(study)
    assert {one.number for one in known.figures} | set(known.drawings) == DRAWN[study]
    for figure in known.figures:
        for text in (*figure.findings, figure.model, figure.missing):
            assert len(text) <= LONGEST, figure.called
    for _, panel, one in series_of(study):
        assert one.profile in builtin()
        assert panel.workload in providers("workloads")
        if panel.kind == "parts":
            assert set(one.published) <= set(panel.components)


@pytest.mark.parametrize("study", STUDIES)
def test_every_published_value_is_there(study: str) -> None:
    for figure in figures(study).figures:
        expected = PUBLISHED.get((study, figure.number), "").split()
        numbers = re.compile(r"\d+(\.\d+)?")
        wanted = [numbers.sub(lambda match: f"{float(match[0]):g}", one) for one in expected]
        assert values(figure) == sorted(wanted), figure.called
        text = figure.model_dump_json()
        for words in IN_WORDS.get((study, figure.number), []):
            assert words in text, (figure.called, words)


@pytest.mark.parametrize("study", STUDIES)
def test_each_claim_belongs_to_a_figure_and_has_its_values(study: str) -> None:
    claims = {one.id: one for one in studies()[study].claims}
    named = [name for figure in figures(study).figures for name in figure.claims]
    assert sorted(named) == sorted(set(claims) - APART)
    for figure in figures(study).figures:
        for name in figure.claims:
            claim = claims[name]
            drawn = [
                base(number, panel.unit)
                for panel in figure.panels
                for one in panel.series
                for said in [*one.published.values(), *([one.level] if one.level else [])]
                for number in (said.low, said.high)
            ]
            if name == "table-2-latency-1-from-rps":  # derived, in the figure's findings
                assert all(f"{value:g}" in figure.findings[1] for value in claim.published.values())
                continue
            for value in claim.published.values():
                assert any(one == pytest.approx(base(value, claim.unit)) for one in drawn), name


@pytest.mark.parametrize("study", STUDIES)
def test_each_series_has_cells_in_the_shorter_plan(study: str) -> None:
    plan, _ = whole_plan(study)
    made = cells_of(plan)
    for figure, panel, one in series_of(study):
        asked = {key: value for key, value in panel.asked(one).items() if key != WIRE}
        mine = [
            cell
            for cell in made
            if (cell.profile, cell.workload, cell.placement, cell.window)
            == (one.profile, panel.workload, panel.placement, panel.window)
            and all(cell.params.get(key, value) == value for key, value in asked.items())
            and all(key in cell.params or value == 0 for key, value in asked.items() if "." in key)
            and cell.params.get(WIRE, "default") == panel.params.get(WIRE, "default")
        ]
        assert mine, (figure.called, panel.title, one.name)
        if panel.kind == "lines":
            at = {str(cell.params[panel.over]) for cell in mine}
            assert {str(place) for place in one.published} <= at, (figure.called, one.name)


@pytest.mark.parametrize("study", STUDIES)
def test_the_shorter_plan_has_cells_of_the_published_one_and_no_other(study: str) -> None:
    plan, notes = whole_plan(study)
    plan = plan.model_copy(update={"method": "windows"})  # slices change the size of messages
    before = {
        (cell.label, cell.placement, cell.workload, cell.window, key, str(value))
        for cell in cells_of(plans.named(study))
        for key, value in cell.params.items()
    }
    less = {key for figure in figures(study).figures for key in figure.reduce}
    for cell in cells_of(plan):
        for key, value in cell.params.items():
            place = (cell.label, cell.placement, cell.workload, cell.window, key, str(value))
            assert place in before or key in less, place
    assert any("instead of" in note for note in notes)


@pytest.mark.parametrize("study", STUDIES)
def test_a_study_ends_within_an_hour(study: str) -> None:
    plan, _ = whole_plan(study)
    profiles = choose(plan.cni)
    samples = passes(cells_of(plan), plan.number_of_blocks(len(profiles)))
    cluster = provider("clusters", "lab")(Options())
    seconds = whole(samples, providers("workloads"), plan.duration, plan.warmup, cluster, profiles)
    windows = sum(cell.method == "windows" for cell, _ in samples)
    assert seconds + BETWEEN * windows < HOUR


def test_a_figure_restricts_the_plan() -> None:
    known = figures("bruijn2017")
    plan, notes = reduced(known, known.chosen(("7.1",)), plans.named("bruijn2017"))
    assert plan
    assert plan.cni == ("bridge-static", "cilium-native")
    assert {
        (cell.label, cell.params["policy.setting"], cell.params["policy.entries"])
        for cell in cells_of(plan)
    } == {
        ("cilium-native", "no-match", 0),
        ("bridge-static", "no-match", 0),
        ("bridge-static", "top-of-chain", 0),
    }
    assert "windows of 1.0 s instead of 1 min 00 s" in notes[0]
    assert reduced(known, [], plans.named("bruijn2017")) == (None, [])


def test_a_letter_chooses_a_panel() -> None:
    known = figures("qi2021")
    (figure,) = known.chosen(("10c", "10b"))
    assert [one.title[:3] for one in figure.panels] == ["(b)", "(c)"]
    (whole,) = known.chosen(("10b", "10"))
    assert len(whole.panels) == 4
    plan, _ = reduced(known, known.chosen(("8b",)), plans.named("qi2021"))
    assert plan
    assert {cell.workload for cell in cells_of(plan)} == {"tcp-rr"}
    for wrong in ("10e", "Ia", "8(", "b"):
        with pytest.raises(UsageError, match=f"no figure '{re.escape(wrong)}'"):
            known.chosen((wrong,))


def test_what_single_figures_give_up_is_said() -> None:
    known = figures("qi2021")
    plan, notes = reduced(known, known.chosen(("14",)), plans.named("qi2021"))
    assert plan
    assert {cell.params["concurrency"] for cell in cells_of(plan)} == {1, 100, 400}
    assert "Figure 14: concurrency 1, 100, 400 of 20 values" in notes
    assert "Figure 14: requests 400 instead of 500000" in notes


def test_unknown_figures_are_reported_with_those_that_there_are() -> None:
    with pytest.raises(UsageError) as caught:
        figures("bruijn2017").chosen(("7.11",))
    assert "7.10" in caught.value.remedy
    with pytest.raises(UsageError, match="a drawing without data: VXLAN"):
        figures("bruijn2017").chosen(("3.5",))
    with pytest.raises(UsageError) as caught:
        figures("nobody1999")
    assert "qi2021" in caught.value.remedy


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('published: {"": 7.22}', 'published: {"": some}', "valid dictionary"),
        ("metric: throughput", "metric: speed", "unknown metric 'speed'"),
        ("unit: Gbit/s", "unit: furlongs", "unknown unit 'furlongs'"),
        ("kind: bars", "kind: lines", "lines need the parameter"),
        ('number: "5"', 'number: "10"', "the figure 10 occurs twice"),
    ],
)
def test_wrong_files_are_reported(tmp_path: Path, old: str, new: str, words: str) -> None:
    text = (FOLDER / "makowski2018.yaml").read_text()
    assert old in text
    path = tmp_path / "study.yaml"
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(InputError) as caught:
        read_figures(path)
    assert words in caught.value.message
    assert "study.yaml" in caught.value.message


def test_percentiles_are_those_of_the_workload() -> None:
    from cnibench.model.metrics import METRICS

    assert all(fnmatch.filter(METRICS, f"latency_p{share}") for share in SHARES)
