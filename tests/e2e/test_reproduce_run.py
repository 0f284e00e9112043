"""``cnibench reproduce`` as typed: one table of a study measured in the lab, drawn, and drawn again
from its run.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from _commands import run, the_run

from cnibench.rundir.reader import RunReader

LIMIT = 240.0


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_table_is_measured_and_drawn(tmp_path: Path) -> None:
    done = run(
        *("reproduce", "qi2021", "--figure", "III", "--kernel", "host", "--seed", "1", "--json"),
        limit=LIMIT,
    )
    assert done.returncode == 0, done.stderr
    assert "less than qi2021: " in done.stderr
    assert re.search(r"\d+ samples, about ", done.stderr)
    document = json.loads(done.stdout)
    folder = the_run(tmp_path / "runs")
    assert document["run"] == RunReader(folder).id
    assert any("less than qi2021" in note for note in document["notes"])
    (figure,) = document["figures"]
    hooks = {one["series"]: one for one in figure["panels"][0]["points"]}
    for name in ("Flannel", "Kube-router", "Calico-wp-xsub"):
        assert (hooks[name]["ours"], hooks[name]["published"]["low"]) == (3, 3), name
    assert hooks["Cilium"]["ours"] == 0
    missing = {one.label: one.lacks for one in RunReader(folder).plan.unsupported}
    for label, lacks in missing.items():
        assert lacks in json.dumps(figure), label
    claims = {one["id"]: one["verdict"] for one in figure["claims"]}
    assert claims["table-3-intra-hooks"] == ("inconclusive" if missing else "by-construction")
    pages = tmp_path / "reproduced" / folder.name
    text = (pages / "table-iii.md").read_text()
    assert "fidelity: datapath-model" in text
    assert len(list(pages.glob("table-iii-*.svg"))) == 5

    again = run("reproduce", "qi2021", "--figure", "III", "--run", "last", "--out", "again")
    assert again.returncode == 0, again.stderr
    assert (tmp_path / "again" / "table-iii.md").read_text() == text


def test_a_dry_run_says_what_is_measured_and_what_was_reduced() -> None:
    done = run(
        *("reproduce", "bruijn2017", "--figure", "7.1,7.3", "--kernel", "host"),
        *("--dry-run", "--json"),
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert len(document["cells"]) == 6
    assert document["blocks"] == 8
    assert document["samples"] == 48
    assert any("windows of 1.0 s instead of 1 min 00 s" in note for note in document["notes"])
    assert not Path("runs").exists()
    assert not Path("reproduced").exists()
