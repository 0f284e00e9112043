"""The board of a repository of bundles: what is accepted and refused, what its pages say."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cnibench.analysis.build import analyse
from cnibench.model.profile import choose, with_proxies
from cnibench.planning.plans import named, names
from cnibench.reports.board import division, effects
from cnibench.reports.board.build import build
from cnibench.reports.board.data import quantiles
from cnibench.reports.board.repository import Refusal, accepted
from cnibench.reports.bundle.making import bundle
from cnibench.reports.bundle.verifying import Verified
from cnibench.rundir.schema import Manifest
from tests._manifest import manifest
from tests.unit._bundles import GOLDEN, document, parts, put, rechained, refigured, stored
from tests.unit._call import call
from tests.unit._runs import edited, synthetic
from tests.unit._site import HOSTILE, Page

TRUTH = {"flannel": 1.0, "cilium": 1.2, "calico-wp-vxlan": 1.1}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two testbeds, one with two runs, and the golden bundle on a third."""
    folder = tmp_path_factory.mktemp("board")
    for testbed, name, seed in (("one", "a1", 1), ("one", "a2", 2), ("two", "b1", 3)):
        cpu = f"CPU of {testbed}"
        run = stored(folder / "runs" / name, TRUTH, seed=seed, facts={"cpu_model": cpu})
        (folder / "results" / testbed).mkdir(parents=True, exist_ok=True)
        (folder / "results" / testbed / f"{name}.cnibench").write_bytes(bundle(run))
    (folder / "results" / "three").mkdir()
    golden = put(refigured(parts(GOLDEN.read_bytes())))
    (folder / "results" / "three" / "quick.cnibench").write_bytes(golden)
    return folder / "results"


@pytest.fixture
def copy(results: Path, tmp_path: Path) -> Path:
    return shutil.copytree(results, tmp_path / "results")


def refused(folder: Path) -> list[Refusal]:
    return accepted(folder, lambda *_: None)[1]


def test_all_bundles_are_shown_with_links_to_data_and_command(
    results: Path, tmp_path: Path
) -> None:
    written = build(results, tmp_path / "site")
    assert (written["bundles"], written["testbeds"], written["refused"]) == (4, 3, [])
    index = Page(tmp_path / "site" / "index.html")
    links = {value["href"] for tag, value in index.tags if tag == "a"}
    pages = {link for link in links if link and link.startswith("bundles/")}
    assert len(pages) == 4
    for page in pages:
        text = (tmp_path / "site" / page).read_text()
        data = re.search(r'<a href="([^"]+\.cnibench)" download', text)
        assert data
        assert (tmp_path / "site" / "bundles" / data[1]).is_file()
        assert "cnibench run" in text
    board = _data(tmp_path / "site")
    assert [one["testbed"] for one in board["bundles"]].count("one") == 2
    titles = [one["title"] for one in board["cnis"]]
    assert len(set(titles)) == len(titles)
    # profiles of the same name in the golden bundle enforce policies, the invented ones do not
    assert {"flannel (model)", "cilium (model), 7 of 7 policy features"} <= set(titles)


def _data(site: Path) -> dict[str, object]:
    text = (site / "data.js").read_text()
    found: dict[str, object] = json.loads(text.removeprefix("window.cnibenchBoard=").rstrip(";\n"))
    return found


def test_a_second_build_replaces_the_first_and_keeps_other_files(
    copy: Path, tmp_path: Path
) -> None:
    build(copy, tmp_path / "site")
    (tmp_path / "site" / "CNAME").write_text("board.example.org")
    (copy / "two" / "b1.cnibench").unlink()
    build(copy, tmp_path / "site")
    assert not list((tmp_path / "site" / "bundles").glob("two*"))
    assert (tmp_path / "site" / "CNAME").is_file()


def test_ids_that_are_no_names_of_files_have_pages_of_their_own(tmp_path: Path) -> None:
    folder = tmp_path / "results" / "t"
    folder.mkdir(parents=True)
    for number, name in enumerate(("../" * 40 + "a", "../" * 40 + "b")):
        run = stored(tmp_path / f"run{number}", TRUTH, seed=number, blocks=2, id=name)
        (folder / f"{number}.cnibench").write_bytes(bundle(run))
    written = build(tmp_path / "results", tmp_path / "site")
    assert (written["bundles"], len(set(written["pages"]))) == (2, 4)  # with index and history
    assert len(list((tmp_path / "site" / "bundles").glob("*.html"))) == 2


def test_a_defect_with_one_bundle_is_its_refusal(copy: Path) -> None:
    def take(found: Verified, *_: object) -> None:
        if found.run == "b1":
            raise AttributeError("x")

    found, (one,) = accepted(copy, take)
    assert len(found) == 3
    assert "by a bug in cnibench: AttributeError: x" in str(one)


def test_what_is_refused_is_named_and_the_rest_is_shown(copy: Path) -> None:
    one, two = copy / "one", copy / "two"
    good = (two / "b1.cnibench").read_bytes()
    (two / "cut.cnibench").write_bytes(good[:-9])
    (two / "none.cnibench").write_bytes(b"")
    (two / "link.cnibench").symlink_to("b1.cnibench")
    os.mkfifo(two / "fifo.cnibench")
    (two / "folder.cnibench").mkdir()
    (copy / "loose.cnibench").write_bytes(good)
    (copy / "evil <script>").mkdir()
    (copy / "evil <script>" / "x.cnibench").write_bytes(good)
    (copy / "linked").symlink_to("one")
    future = good.replace(b'"version":2', b'"version":9')
    (two / "future.cnibench").write_bytes(future)
    shutil.copy(one / "a1.cnibench", one / "again.cnibench")
    found = {refusal.path: refusal.reason for refusal in refused(copy)}
    assert found.pop("evil <script>").startswith("the name of a testbed")
    assert found.pop("loose.cnibench").startswith("a bundle belongs in the folder")
    assert "newer cnibench" in found.pop("two/future.cnibench")
    assert "cut off" in found.pop("two/cut.cnibench")
    assert "not a bundle" in found.pop("two/none.cnibench")
    assert "symbolic link" in found.pop("two/link.cnibench")
    assert "not a regular file" in found.pop("two/fifo.cnibench")
    assert "not a regular file" in found.pop("two/folder.cnibench")
    assert found.pop("one/a1.cnibench") == "the same run as one/again.cnibench"
    assert found.pop("one/again.cnibench") == "the same run as one/a1.cnibench"
    assert found == {}


def test_a_copy_under_another_id_is_found_by_its_samples(copy: Path) -> None:
    files = parts((copy / "two" / "b1.cnibench").read_bytes())
    files = document(document(files, "plan.json", id="b2"), "bundle.json", run="b2")
    (copy / "two" / "b2.cnibench").write_bytes(put(rechained(files)))
    assert [str(one) for one in refused(copy)] == [
        "two/b1.cnibench: the same samples as two/b2.cnibench",
        "two/b2.cnibench: the same samples as two/b1.cnibench",
    ]


def test_a_testbed_that_is_another_machine_is_refused(copy: Path) -> None:
    shutil.move(copy / "two" / "b1.cnibench", copy / "one" / "b1.cnibench")
    assert [str(one) for one in refused(copy)] == [
        "one/b1.cnibench: it says cpu_model 'CPU of two', others of this testbed 'CPU of one'"
    ]


def test_a_testbed_with_allowed_signers_takes_no_unsigned_bundle(copy: Path) -> None:
    (copy / "two" / "allowed_signers").write_text("")
    assert [str(one) for one in refused(copy)] == [
        "two/b1.cnibench: it is not signed, and two/allowed_signers says who has to sign"
    ]


def test_nothing_in_a_bundle_becomes_markup(tmp_path: Path) -> None:
    long = "n" * 10_000
    run = stored(
        tmp_path / "run",
        {"flannel": 1.0, "cilium": 1.1},
        facts={"cpu_model": HOSTILE, "governor": long, "kubernetes": {"x": [HOSTILE]}},
        command=["cnibench", "run", HOSTILE],
        profiles={
            "flannel": {"name": f"{HOSTILE}{long}", "features": {"policy": [HOSTILE]}},
            "cilium": {"name": 7, "kubernetes": {"steps": [{"chart": {"version": [HOSTILE]}}]}},
        },
        reason=f"{HOSTILE}{long}",
    )
    (tmp_path / "results" / "t").mkdir(parents=True)
    (tmp_path / "results" / "t" / "x.cnibench").write_bytes(bundle(run))
    build(tmp_path / "results", tmp_path / "site")
    for file in (tmp_path / "site").rglob("*.html"):
        page = Page(file)
        assert all(value.get("src", "x") in _SCRIPTS for tag, value in page.tags if tag == "script")
        assert not [tag for tag, _ in page.tags if tag in ("img", "iframe", "object")]
        assert "\u202e" not in file.read_text()
        assert file.stat().st_size < 60_000
    script = (tmp_path / "site" / "data.js").read_text()
    assert "<" not in script
    assert "\u202e" not in script


_SCRIPTS = ("data.js", "ranking.js", "board.js", "tables.js", "../tables.js")


def test_effects_by_hand(tmp_path: Path) -> None:
    run = stored(
        tmp_path / "run", {"a": 1.0, "b": 2.0}, blocks=2, noise=0.01, workloads=("tcp-rr",)
    )
    analysis = analyse([run])
    (place,) = effects.places(analysis)
    values = {one.label: one.values for one in analysis.results}
    logs = [math.log(a / b) for a, b in zip(values["a"], values["b"], strict=True)]
    first, second = place.effects
    assert (place.dimension, place.metric, place.blocks) == ("latency", "transaction_rate", 2)
    assert first.mean - second.mean == pytest.approx(sum(logs) / 2)
    # that of a paired difference of two blocks: its standard error squared
    assert first.variance is not None
    assert second.variance is not None
    assert first.variance + second.variance == pytest.approx((logs[0] - logs[1]) ** 2 / 4)


def test_a_label_that_lacks_blocks_takes_none_from_the_others(tmp_path: Path) -> None:
    """Blocks differ by a factor of two: only ratios within them say anything. A label that failed
    in most of them is not ranked.
    """

    def moved(line: dict[str, Any]) -> dict[str, Any]:
        value = line["value"]
        return line | {"value": value and value * 2.0 ** line["block"]}

    truth = {"a": 1.0, "b": 1.2, "c": 1.5}
    more = {"blocks": 12, "noise": 0.001, "workloads": ("tcp-rr",), "placements": ("intra",)}
    lacking = [("c", block) for block in (10, 11)]
    run = edited(synthetic(tmp_path, truth, cpp=False, fail=lacking, **more), moved)
    (place,) = (p for p in effects.places(analyse([run])) if p.dimension == "latency")
    assert place.blocks == 12
    mean = {one.label: one.mean for one in place.effects}
    assert mean["b"] - mean["a"] == pytest.approx(math.log(1.2), abs=0.002)
    assert mean["c"] - mean["a"] == pytest.approx(math.log(1.5), abs=0.002)
    assert all(one.variance and one.variance < 1e-6 for one in place.effects)
    often = [("c", block) for block in range(11)]
    run = synthetic(tmp_path, truth, cpp=False, fail=often, name="often", **more)
    (place,) = (p for p in effects.places(analyse([run])) if p.dimension == "latency")
    assert [one.label for one in place.effects] == ["a", "b"]
    assert place.blocks == 12


def test_the_variance_of_a_difference_is_right_on_average(tmp_path: Path) -> None:
    run = stored(tmp_path / "run", dict.fromkeys("abc", 1.0), blocks=60, noise=0.05)
    for place in effects.places(analyse([run])):
        sums = [one.variance for one in place.effects if one.variance is not None]
        assert 2 * sum(sums) / 3 == pytest.approx(2 * 0.05**2 / 60, rel=0.3)


def test_throughput_between_nodes_counts_only_on_a_network_card(tmp_path: Path) -> None:
    analysis = analyse([stored(tmp_path / "run", {"a": 1.0, "b": 2.0}, workloads=("tcp-stream",))])
    (one,) = {place.dimension for place in effects.places(analysis)}
    assert one == "throughput"
    between = [msgspec.structs.replace(r, placement="inter") for r in analysis.results]
    assert effects.places(msgspec.structs.replace(analysis, results=between)) == []
    wired = [msgspec.structs.replace(r, wire="nic") for r in between]
    assert len(effects.places(msgspec.structs.replace(analysis, results=wired))) == 1


def test_quantiles_are_those_of_all_pairs() -> None:
    found = quantiles(4)
    assert len(found) == 60
    assert found[9][0] == pytest.approx(2.228, abs=1e-3)  # t, 10 degrees, 97.5 %: one pair
    assert found[9][2] == pytest.approx(3.277, abs=1e-3)  # t, 10 degrees, 1 - 0.05 / 12: six pairs


def test_the_shipped_plan_is_closed_and_a_changed_one_open() -> None:
    plan = msgspec.json.decode(parts(GOLDEN.read_bytes())["plan.json"], type=Manifest)
    assert division.of(plan) == division.Division(True, "quick")
    longer = msgspec.structs.replace(plan, plan={**plan.plan, "duration": 2.0})
    assert division.of(longer).reasons == [
        "its plan is none that cnibench ships (the nearest is 'quick', with another duration)"
    ]
    own = {**plan.profiles, "flannel": {**plan.profiles["flannel"], "datapath": None}}
    changed = division.of(msgspec.structs.replace(plan, profiles=own))
    assert changed.reasons == ["the profile of flannel is not a shipped one"]
    # the lab between two machines has the same models
    between = msgspec.structs.replace(plan, cluster="ssh-lab://email-1,ssh://email-2")
    assert division.of(between).closed
    assert not division.of(msgspec.structs.replace(between, profiles=own)).closed
    assert not division.of(msgspec.structs.replace(plan, plan={"x": 1})).closed


@pytest.mark.parametrize("name", names())
def test_each_shipped_plan_is_closed_when_it_is_run_as_it_is(name: str) -> None:
    """With the labels that its profiles have: those of several implementations of Services differ
    from their names.
    """
    plan = named(name)
    profiles = with_proxies(choose(plan.cni), plan.proxy)
    run = manifest(
        [],
        cluster=plan.cluster,
        plan=plan.model_dump(mode="json", by_alias=True),
        profiles={
            label: one.model_dump(mode="json", by_alias=True) for label, one in profiles.items()
        },
    )
    assert division.of(run) == division.Division(True, name)
    renamed = {f"x{label}": one for label, one in run.profiles.items()}
    assert not division.of(msgspec.structs.replace(run, profiles=renamed)).closed


def test_commands_and_their_exit_status(copy: Path, tmp_path: Path) -> None:
    assert call(["board", str(copy), "--check"]).stdout == "4 bundles accepted, 0 refused\n"
    (copy / "two" / "x.cnibench").write_bytes(b"PK")
    checked = call(["board", str(copy), "--check"])
    assert (checked.exit_code, "refused: two/x.cnibench: " in checked.stdout) == (1, True)
    built = call(["board", str(copy), "--out", str(tmp_path / "site"), "--json"])
    assert built.exit_code == 1
    assert json.loads(built.stdout)["bundles"] == 4
    assert call(["board", str(copy)]).exit_code == 2
    assert call(["board", str(tmp_path / "none"), "--check"]).exit_code == 2


def test_a_folder_without_bundles_is_named_as_such(copy: Path, tmp_path: Path) -> None:
    above = call(["board", str(copy.parent), "--check"])
    assert (above.exit_code, above.stdout) == (0, "0 bundles accepted, 0 refused\n")
    assert "warning: " in above.stderr
    assert "no bundle in a directory of a testbed" in above.stderr
    shutil.rmtree(copy / "one")
    shutil.rmtree(copy / "two")
    found = call(["board", str(copy), "--check"])
    assert (found.stdout, found.stderr) == ("1 bundle accepted, 0 refused\n", "")


@pytest.mark.parametrize("where", [".", "one"])
def test_a_board_among_its_results_is_refused(copy: Path, where: str) -> None:
    """Its own copies of the bundles would be results of a testbed the next time."""
    before = sorted(path for path in copy.rglob("*"))
    done = call(["board", str(copy), "--out", str(copy / where)])
    assert done.exit_code == 2
    assert "holds the results" in done.stderr
    assert sorted(path for path in copy.rglob("*")) == before
