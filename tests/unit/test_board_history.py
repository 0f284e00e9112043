"""The history of a testbed on the board: series over its runs, change points, what changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from cnibench.reports.board import history
from cnibench.reports.board.build import build
from cnibench.reports.board.repository import accepted
from cnibench.reports.bundle.making import bundle
from tests.unit._bundles import stored
from tests.unit._site import Page

_RUNS, _STEP = 8, 4


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight runs of one testbed; with the fifth came a newer kernel, and cilium became faster."""
    folder = tmp_path_factory.mktemp("history")
    for number in range(_RUNS):
        newer = number >= _STEP
        run = stored(
            folder / "runs" / f"n{number}",
            {"flannel": 1.0, "cilium": 1.3 if newer else 1.2},
            seed=number,
            noise=0.01,
            blocks=2,
            workloads=("tcp-rr",),
            facts={"kernel": "6.12.0" if newer else "6.1.0"},
        )
        (folder / "results" / "lab").mkdir(parents=True, exist_ok=True)
        (folder / "results" / "lab" / f"n{number}.cnibench").write_bytes(bundle(run))
    return folder / "results"


def test_a_change_of_level_is_on_the_page_with_what_changed(results: Path, tmp_path: Path) -> None:
    written = build(results, tmp_path / "site")
    assert "history/lab.html" in written["pages"]
    index = Page(tmp_path / "site" / "index.html")
    assert "history/lab.html" in {value.get("href") for tag, value in index.tags if tag == "a"}
    file = tmp_path / "site" / "history" / "lab.html"
    text, page = file.read_text(), Page(file)
    changes = text[text.index('id="changes"') : text.index('id="series"')]
    assert changes.count('<th scope="row">') == 1  # of cilium only
    assert "cilium" in changes
    assert "6.1.0 to 6.12.0" in changes
    assert f"n{_STEP}" in changes
    links = {value["href"] for tag, value in page.tags if tag == "a"}
    for number in range(_RUNS):
        (link,) = [one for one in links if one and f"lab-n{number}.html" in one]
        assert (file.parent / link).resolve().is_file()
    assert 'class="lead model">Models of the datapaths' in text
    assert text.count("<svg") == 1
    assert "currentColor" in text  # axes can be read on a dark page


def test_a_testbed_with_one_run_has_no_history(results: Path, tmp_path: Path) -> None:
    (tmp_path / "results" / "lab").mkdir(parents=True)
    content = (results / "lab" / "n0.cnibench").read_bytes()
    (tmp_path / "results" / "lab" / "n0.cnibench").write_bytes(content)
    written = build(tmp_path / "results", tmp_path / "site")
    assert not [page for page in written["pages"] if page.startswith("history")]
    assert not (tmp_path / "site" / "history").exists()


def test_few_runs_are_shown_and_not_tested(results: Path) -> None:
    found, _ = accepted(results, lambda *_: None)
    shown = history.of(results, found[:3])
    assert shown.changes is None
    assert any("change points need at least" in line for line in shown.summary)
    assert [place.picture.count("<svg") for place in shown.places] == [1]


def test_labels_do_not_become_markup(tmp_path: Path) -> None:
    for number in range(2):
        run = stored(
            tmp_path / "runs" / f"h{number}",
            {"<img src=x>'\"&": 1.0, "cilium": 1.1},
            blocks=2,
            seed=number,
            workloads=("tcp-rr",),
        )
        (tmp_path / "results" / "lab").mkdir(parents=True, exist_ok=True)
        path = tmp_path / "results" / "lab" / f"h{number}.cnibench"
        path.write_bytes(bundle(run))
    build(tmp_path / "results", tmp_path / "site")
    file = tmp_path / "site" / "history" / "lab.html"
    page = Page(file)
    scripts = [one.get("src") for tag, one in page.tags if tag == "script"]
    assert scripts == ["../tables.js"]
    assert not [tag for tag, _ in page.tags if tag in ("img", "iframe", "object")]
    assert "&lt;img src=x&gt;" in file.read_text()
