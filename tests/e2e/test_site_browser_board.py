"""The board's scripts in a real headless Chromium: its ranking against one computed here with
numpy, and its page on a desk and on a phone.
"""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cnibench.reports.board.build import build
from cnibench.reports.board.data import quantiles
from cnibench.reports.bundle.making import bundle
from tests.unit._bundles import stored

TEMPLATES = Path(__file__).parents[2] / "reports" / "board" / "templates"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
pytestmark = pytest.mark.timeout(600)


def shown(page: str, *, width: int = 1440, dark: bool = False) -> str:
    """The page's elements after its scripts have run."""
    program = next(path for name in BROWSERS if (path := shutil.which(name)))
    arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    arguments += [f"--window-size={width},900", "--virtual-time-budget=5000"]
    arguments += ["--blink-settings=preferredColorScheme=0"] if dark else []
    done = subprocess.run(
        [program, *arguments, "--dump-dom", page], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


USUAL = (8,) * 6  # blocks


def made_up(seed: int, cnis: int, missing: float, blocks: Sequence[int] = USUAL) -> dict[str, Any]:
    """A board of three testbeds with invented effects; of some places a CNI is missing. Each run
    has so many ``blocks``: the error of one is not known.
    """
    rng = np.random.default_rng(seed)
    truth = 0.2 * rng.standard_normal((3, cnis))
    places = []
    for number in range(6):
        for dimension in range(3):
            for use in range(2):
                there = [cni for cni in range(cnis) if rng.random() >= missing]
                noise = 0.03 * rng.standard_normal(cnis)
                effects = [
                    [
                        cni,
                        float(truth[dimension, cni] + noise[cni]),
                        float(rng.uniform(1e-5, 2e-3)) if blocks[number] > 1 else None,
                    ]
                    for cni in there
                ]
                if len(effects) > 1:
                    places.append([number, dimension, use, blocks[number], effects])
    return {
        "dimensions": ["latency", "throughput", "cpu"],
        "policies": 7,
        "uses": ["x", "y"],
        "cnis": [{"title": str(n), "fidelity": "cni", "policies": n % 8} for n in range(cnis)],
        "bundles": [{"testbed": f"t{number % 3}"} for number in range(6)],
        "places": places,
        "quantiles": quantiles(cnis),
    }


def expected(board: dict[str, Any], weights: dict[str, float]) -> dict[int, tuple[int, int, float]]:
    """CNI to (lowest rank, highest rank, position), for a board on which all are joined."""
    total = sum(weights.values())
    count = len(board["cnis"])
    pairs = {}
    for a in range(count):
        for b in range(a + 1, count):
            mean, terms = 0.0, []
            for number, name in enumerate(board["dimensions"]):
                if not weights[name]:
                    continue
                pooled = _pooled(board, number, a, b)
                if pooled is None:
                    break
                mean += weights[name] / total * pooled[0]
                terms.append(((weights[name] / total) ** 2 * pooled[1], pooled[2]))
            else:
                own = [np.log(1 + board["cnis"][one]["policies"]) for one in (a, b)]
                mean += weights["policies"] / total * (own[0] - own[1])
                pairs[a, b] = mean, sum(v for v, _ in terms), _freedom(terms)
    design = np.zeros((len(pairs), count))
    for row, (a, b) in enumerate(pairs):
        design[row, a], design[row, b] = 1, -1
    position = np.linalg.lstsq(design, np.array([one[0] for one in pairs.values()]), rcond=None)[0]
    better, worse = np.zeros(count, int), np.zeros(count, int)
    for (a, b), (mean, variance, freedom) in pairs.items():
        row = board["quantiles"][int(max(1, min(freedom, 60))) - 1]
        if abs(mean) > row[count - 2] * np.sqrt(variance):
            first, second = (a, b) if mean > 0 else (b, a)
            better[second] += 1
            worse[first] += 1
    return {
        cni: (1 + int(better[cni]), count - int(worse[cni]), float(position[cni]))
        for cni in range(count)
    }


def _freedom(terms: Sequence[tuple[float, float]]) -> float:
    """Of a sum of estimates with these (variance, freedom): Welch and Satterthwaite."""
    variances, freedoms = np.array(terms).T
    if np.isinf(variances).any():
        return float(freedoms.min())
    return float(variances.sum() ** 2 / (variances**2 / freedoms).sum())


def _mean(found: Sequence[tuple[float, float, float]]) -> tuple[float, float, float]:
    """(mean, variance, freedom) of the average of such; one of unknown variance counts only where
    all are.
    """
    known = [one for one in found if np.isfinite(one[1])] or found
    means, variances, _ = np.array(known).T
    freedom = _freedom([one[1:] for one in known])
    return float(means.mean()), float(variances.sum() / len(known) ** 2), freedom


def _pooled(
    board: dict[str, Any], dimension: int, a: int, b: int
) -> tuple[float, float, float] | None:
    beds: dict[str, list[tuple[float, float, float]]] = {}
    for number in range(len(board["bundles"])):
        found = [
            (
                known[a][0] - known[b][0],
                np.inf if None in (known[a][1], known[b][1]) else known[a][1] + known[b][1],
                blocks - 1,
            )
            for bundle_, dimension_, _, blocks, effects in board["places"]
            if (bundle_, dimension_) == (number, dimension)
            and {a, b} <= (known := {one[0]: one[1:] for one in effects}).keys()
        ]
        if found:
            testbed = board["bundles"][number]["testbed"]
            beds.setdefault(testbed, []).append(_mean(found))
    if not beds:
        return None
    of_beds = [_mean(runs) for runs in beds.values()]
    of_beds = [one for one in of_beds if np.isfinite(one[1])] or of_beds
    mean, within, freedom = _mean(of_beds)
    if len(of_beds) > 1:
        between = float(np.var([one[0] for one in of_beds], ddof=1) / len(of_beds))
        if between > within:
            return mean, between, len(of_beds) - 1
    return mean, within, freedom


WEIGHTS = [
    {"latency": 5, "throughput": 5, "cpu": 5, "policies": 0},
    {"latency": 10, "throughput": 0, "cpu": 1, "policies": 3},
    {"latency": 0, "throughput": 0, "cpu": 4, "policies": 0},
]


def test_the_ranking_is_that_of_another_program(tmp_path: Path) -> None:
    boards = [made_up(1, 4, 0.0), made_up(2, 9, 0.3), made_up(3, 2, 0.0)]
    boards += [made_up(4, 5, 0.1, blocks=(1, 1, 2, 9, 1, 30)), made_up(5, 3, 0.0, blocks=(1,) * 6)]
    shutil.copy(TEMPLATES / "ranking.js", tmp_path)
    calls = "cni: () => true, use: () => true, bundle: () => true"
    (tmp_path / "page.html").write_text(
        "<!doctype html><pre id=found></pre><script src=ranking.js></script><script>"
        f"const boards = {json.dumps(boards)}, weights = {json.dumps(WEIGHTS)};"
        "document.getElementById('found').textContent = JSON.stringify(boards.map((board) =>"
        f" weights.map((one) => cnibenchRanking.rank(board, {{{calls}}}, one))));"
        "</script>"
    )
    page = shown((tmp_path / "page.html").as_uri())
    text = re.search(r'<pre id="found">(.*?)</pre>', page, re.DOTALL)
    assert text
    for board, rankings in zip(boards, json.loads(html.unescape(text[1])), strict=True):
        for weights, found in zip(WEIGHTS, rankings, strict=True):
            (ranked,) = found["sets"]
            wanted = expected(board, weights)
            assert {one["cni"]: (one["low"], one["high"]) for one in ranked} == {
                cni: one[:2] for cni, one in wanted.items()
            }
            best = max(one[2] for one in wanted.values())
            for one in ranked:
                score = np.exp(wanted[one["cni"]][2] - best)
                assert one["score"] == pytest.approx(score, rel=1e-6)
            scores = [one["score"] for one in ranked]
            assert scores == sorted(scores, reverse=True)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A board with a script more, which says how wide the page is and what went wrong."""
    folder = tmp_path_factory.mktemp("board")
    for number, testbed in enumerate(("acme-epyc", "home-lab", "home-lab")):
        names = ("flannel", "cilium", "calico-wp-vxlan-with-a-long-name" * 3, "kube-router")
        truth = dict(zip(names, (1.0, 1.3, 0.9, 1.0), strict=True))
        cpu = {"cpu_model": f"CPU of {testbed}"}
        run = stored(folder / "runs" / f"r{number}", truth, seed=number, facts=cpu)
        (folder / "results" / testbed).mkdir(parents=True, exist_ok=True)
        (folder / "results" / testbed / f"r{number}.cnibench").write_bytes(bundle(run))
    build(folder / "results", folder / "site")
    (folder / "site" / "probe.js").write_text(
        "const said = []; window.addEventListener('error', (event) => said.push(event.message));"
        "window.addEventListener('load', () => parent.postMessage("
        "[document.documentElement.scrollWidth, window.innerWidth, ...said], '*'));"
    )
    for page in (folder / "site").rglob("*.html"):
        top = "../" * (len(page.relative_to(folder / "site").parts) - 1)
        text = page.read_text().replace("<head>", f'<head><script src="{top}probe.js"></script>')
        page.write_text(text)
    return folder / "site"


@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.parametrize("dark", [False, True])
def test_pages_fit_and_have_no_errors(width: int, dark: bool, site: Path) -> None:
    for page in (site / "index.html", next((site / "bundles").glob("*.html"))):
        # a window has at least 500 pixels, a frame as many as it is given
        frame = site / "frame.html"
        frame.write_text(
            f"<!doctype html><pre id=found></pre><iframe width={width} height=900"
            f" style='border:0' src='{page.as_uri()}'></iframe><script>"
            "addEventListener('message', (event) => {"
            "document.getElementById('found').textContent = JSON.stringify(event.data);});</script>"
        )
        text = re.search(
            r'<pre id="found">(.*?)</pre>', shown(frame.as_uri(), width=1600, dark=dark)
        )
        assert text
        wide, inner, *errors = json.loads(html.unescape(text[1]))
        assert (inner, errors) == (width, [])
        assert wide <= inner, page


def test_weights_and_filters_of_the_address_change_the_ranking(site: Path) -> None:
    usual = shown((site / "index.html").as_uri())
    assert _order(usual)[0] == "cilium (model)"
    assert "3 of 3 runs chosen" in usual
    assert "no figure of CPU cost" in usual
    for name in ("Ranking of 4 CNIs", "All bundles"):
        assert f'aria-label="Copy as CSV: {name}"' in usual
    one = shown((site / "index.html").as_uri() + "#testbed=acme-epyc&weight-latency=0")
    assert "1 of 3 runs chosen" in one
    assert "latency" not in re.findall(r'<th scope="col">([^<]*)</th>', one)
    none = shown(
        (site / "index.html").as_uri() + "#weight-latency=0&weight-throughput=0&weight-cpu=0"
    )
    assert "nothing can be ranked: give something a weight" in none


def test_runs_without_a_figure_of_what_is_chosen_are_not_counted(tmp_path: Path) -> None:
    real: dict[str, Any] = {"fidelity": "cni", "facts": {"testbed": "cluster", "wire": "nic"}}
    for testbed, how, workload in (("one", {}, "tcp-rr"), ("two", real, "tcp-stream")):
        truth = {"flannel": 1.0, "cilium": 1.1}
        run = stored(tmp_path / "runs" / testbed, truth, workloads=(workload,), **how)
        (tmp_path / "results" / testbed).mkdir(parents=True)
        (tmp_path / "results" / testbed / f"{testbed}.cnibench").write_bytes(bundle(run))
    build(tmp_path / "results", tmp_path / "site")
    address = (tmp_path / "site" / "index.html").as_uri()
    for choice in ("fidelity=cni", "fidelity=datapath-model"):
        assert "1 of 2 runs chosen" in shown(f"{address}#{choice}")
    board = json.loads((tmp_path / "site" / "data.js").read_text().partition("=")[2].rstrip(";\n"))
    (use,) = (one for one in board["uses"] if one.startswith("tcp-rr"))
    none = shown(f"{address}#fidelity=cni&use={use}")
    assert "0 of 2 runs chosen" in none
    assert "CPU cost here, so their weights do not count" in none


def test_advice_where_each_run_measured_something_else(tmp_path: Path) -> None:
    for testbed, workload in (("one", "tcp-rr"), ("two", "tcp-stream")):
        truth = {f"a-{testbed}": 1.0, f"b-{testbed}": 1.1}
        run = stored(tmp_path / "runs" / testbed, truth, workloads=(workload,))
        (tmp_path / "results" / testbed).mkdir(parents=True)
        (tmp_path / "results" / testbed / f"{testbed}.cnibench").write_bytes(bundle(run))
    build(tmp_path / "results", tmp_path / "site")
    address = (tmp_path / "site" / "index.html").as_uri()
    usual = shown(address)
    assert _order(usual) == []
    assert "no two CNIs were compared in all of latency, throughput; set the weight of one" in usual
    assert _order(shown(f"{address}#weight-latency=0")) == ["b-two (model)", "a-two (model)"]


def _order(text: str) -> list[str]:
    return re.findall(r'<th class="who" scope="row">([^<]*)</th>', text)
