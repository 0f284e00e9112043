"""``compare --plan``: so many blocks let an equal candidate pass with the power asked for, and what
a gate says of a candidate that does not pass.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from cnibench.analysis.comparison.contexts import Context, Member
from cnibench.analysis.gate.judgement import Place, Side
from cnibench.analysis.gate.noninferiority import LEVEL, margin
from cnibench.analysis.gate.planning import noise_of_base, noise_of_pairs
from cnibench.analysis.model import Where
from cnibench.model import context
from cnibench.stats import gate_power
from cnibench.stats.inference import signed_rank
from tests.unit._call import call, unwrapped
from tests.unit._runs import edited, synthetic
from tests.unit.test_verdict_rules import WHERE

KEY = (context.key({**WHERE}, context.IDENTITY), "transaction_rate")


@pytest.mark.parametrize("cells", [1, 8, 16])
@pytest.mark.parametrize("effect", [0.7, 1.2])
def test_equal_candidates_pass_with_the_power_asked_for(cells: int, effect: float) -> None:
    """Simulated anew, in all cells together; one block fewer is too few."""
    blocks = gate_power.blocks_to_pass([effect] * cells, LEVEL)
    assert blocks is not None
    rng = np.random.default_rng(11)
    found = []
    for count in (blocks, blocks - 2):
        rows = rng.standard_normal((600 * cells, count)) + effect
        within = signed_rank(rows, interval=False).upper <= LEVEL
        found.append(within.reshape(600, cells).all(axis=1).mean())
    assert found[0] > 0.87  # 2.5 standard errors below 0.9
    assert found[1] < 0.9
    # at the threshold 2.5 % pass at most, whatever the number of blocks
    edge = signed_rank(rng.standard_normal((2000, blocks)), interval=False).upper <= LEVEL
    assert edge.mean() < 0.035


def test_the_edges_of_power() -> None:
    assert gate_power.proves(5, math.inf, LEVEL) == 0.0
    assert gate_power.proves(6, math.inf, LEVEL) == 1.0
    assert gate_power.blocks_to_pass([math.inf], LEVEL) == 6
    assert gate_power.blocks_to_pass([0.01], LEVEL) is None
    noise = np.random.default_rng(1).standard_normal((4000, 40))
    for blocks in (19, 22, 40):  # simulated, and by Student's test
        for level in (LEVEL, 0.001):
            found = signed_rank(noise[:, :blocks] + 0.75, interval=False).upper <= level
            assert gate_power.proves(blocks, 0.75, level) == pytest.approx(found.mean(), abs=0.02)
    for spread in (0.5, 1.1, 1.6):  # the noncentral t is not known far from its critical value
        needed = [gate_power.blocks_to_pass([spread, x], LEVEL) for x in np.arange(1.0, 40, 0.5)]
        assert needed == sorted(needed, reverse=True)
    for freedom in (2, 11, 80):
        limit = gate_power.upper_spread(0.03, freedom)
        assert limit == pytest.approx(0.03 * math.sqrt(freedom / stats.chi2.ppf(0.2, freedom)))


@pytest.mark.parametrize(("cells", "freedom"), [(1, 0), (8, 0), (8, 4)])
def test_repeated_runs_are_planned_by_students_test(cells: int, freedom: int) -> None:
    """Equal candidates, simulated anew, whose runs differ as their blocks say."""
    planned = gate_power.repeats_to_pass([1.2] * cells, 0.0125, 0.9, freedom)
    assert planned is not None
    runs, blocks = planned
    assert freedom + runs >= 3
    rng = np.random.default_rng(5)

    def share(blocks: int) -> float:
        means = 1.2 + rng.standard_normal((4000, cells, runs)) / math.sqrt(blocks)
        others = rng.standard_normal((4000, cells, freedom)) / math.sqrt(blocks)
        own = ((means - means.mean(axis=2, keepdims=True)) ** 2).sum(axis=2)
        df = freedom + runs - 1
        error = np.sqrt((own + (others**2).sum(axis=2)) / df / runs)
        passed = means.mean(axis=2) / error >= stats.t.ppf(1 - 0.0125, df)
        return float(passed.all(axis=1).mean())

    assert share(blocks) > 0.885
    assert share(blocks - 1) < 0.9
    assert gate_power.repeats_to_pass([0.001], 0.0125) is None
    assert gate_power.repeats_to_pass([math.inf], 0.0125) == (3, 3)


def test_runs_against_runs_are_planned_by_students_test() -> None:
    found = gate_power.runs_to_pass([2.0, 3.0], LEVEL, 0.9, 3)
    assert found is not None
    rng = np.random.default_rng(3)
    shares = []
    for base, candidates in (found, (found[0] - 1, found[1])):
        passed = np.ones(4000, dtype=bool)
        for effect in (2.0, 3.0):
            ours = rng.standard_normal((4000, base))
            theirs = rng.standard_normal((4000, candidates)) + effect
            error = ours.std(axis=1, ddof=1) * math.sqrt(1 / base + 1 / candidates)
            t = (theirs.mean(axis=1) - ours.mean(axis=1)) / error
            passed &= t >= stats.t.ppf(1 - LEVEL, base - 1)
        shares.append(passed.mean())
    assert shares[0] > 0.885
    assert shares[1] < 0.9
    assert gate_power.runs_to_pass([1e-3], LEVEL) is None
    assert gate_power.runs_to_pass([math.inf], LEVEL) == (3, 1)


def _side(*runs: list[float]) -> Side:
    places = [
        {(n, block): math.exp(x) for block, x in enumerate(run)} for n, run in enumerate(runs)
    ]
    return {KEY: Place(Where(**WHERE), "speed", places)}


def test_noise_of_pairs_is_pooled_over_runs() -> None:
    base = _side([0.0, 0.1, 0.2], [0.0, 0.0, 0.0])
    candidate = _side([0.01, 0.08, 0.22], [0.5, 0.52, 0.54])
    found = noise_of_pairs(base, candidate, KEY)
    assert found is not None
    one, other = np.array([0.01, -0.02, 0.02]), np.array([0.5, 0.52, 0.54])
    squares = sum(((row - row.mean()) ** 2).sum() for row in (one, other))
    assert (found.spread, found.freedom) == (pytest.approx(math.sqrt(squares / 4)), 4)
    assert found.source == "6 blocks of base and candidate"
    assert noise_of_pairs(base, {}, KEY) is None
    assert noise_of_pairs(_side([0.0, 0.1]), _side([0.0, 0.1]), KEY) is None


def test_noise_of_the_base_is_that_of_a_ratio() -> None:
    rng = np.random.default_rng(7)
    common = 0.3 * rng.standard_normal(200)

    def contexts(labels: str) -> list[Context]:
        members = {
            label: Member(
                None,  # type: ignore[arg-type]
                {(0, b): math.exp(x + 0.02 * rng.standard_normal()) for b, x in enumerate(common)},
            )
            for label in labels
        }
        return [Context({**WHERE, "reading": {}}, "speed", members)]

    found = noise_of_base([(contexts("xyz"), "x")], KEY)
    assert found is not None
    assert found.spread == pytest.approx(0.02 * math.sqrt(2), rel=0.08)
    assert found.freedom == 2 * 199
    alone = noise_of_base([(contexts("x"), "x")], KEY)
    assert alone is not None
    assert alone.spread == pytest.approx(0.3 * math.sqrt(2), rel=0.15)
    assert "too much" in alone.source
    assert noise_of_base([(contexts("yz"), "x")], KEY) is None


def _plan(*arguments: object) -> tuple[int, str]:
    done = call(["compare", *map(str, arguments), "--plan"])
    assert all(len(line) <= 80 for line in done.stdout.splitlines())
    return done.exit_code, " ".join(done.stdout.split()) + done.stderr


def test_the_plan_of_a_gate(tmp_path: Path) -> None:
    run = synthetic(tmp_path, {"base": 1.0, "other": 0.7}, blocks=30, noise=0.02, cpp=False)
    status, said = _plan(f"{run.path}:base")
    assert status == 0
    told = json.loads(call(["compare", f"{run.path}:base", "--plan", "--json"]).stdout)["plan"]
    assert said.startswith(f"plan: {told['blocks']} blocks of base and candidate in the same run")
    assert "all 4 cells" in said
    assert "takes 3 runs of the base" in said
    for cell in told["cells"]:
        assert cell["noise"]["freedom"] == 29
        assert cell["noise"]["spread"] == pytest.approx(0.02 * math.sqrt(2), rel=0.3)
        assert cell["alone"] <= told["blocks"]
    effects = [-margin("higher", 0.05) / cell["noise"]["upper"] for cell in told["cells"]]
    assert told["blocks"] == gate_power.blocks_to_pass(effects, LEVEL)
    more = json.loads(
        call(["compare", f"{run.path}:base", "--plan", "--json", "--power", "99%"]).stdout
    )
    assert more["plan"]["blocks"] > told["blocks"]


def test_the_plan_with_a_history_counts_what_is_there(tmp_path: Path) -> None:
    run = synthetic(tmp_path, {"base": 1.0, "cand": 1.0}, blocks=10, noise=0.04, cpp=False)
    sides = [f"{run.path}:base", f"{run.path}:cand", "--history", str(tmp_path / "gate.jsonl")]
    assert "look 2" not in _plan(*sides)[1]
    assert not (tmp_path / "gate.jsonl").exists()
    call(["compare", *sides])
    said = _plan(*sides)[1]
    told = json.loads(call(["compare", *sides, "--plan", "--json"]).stdout)["plan"]
    runs, blocks = told["repeats"]
    assert runs >= 3
    assert said.startswith(f"plan: {runs} runs of {blocks} blocks of base and candidate each")
    assert f"the history has 10 blocks of it, measure {runs * blocks - 10} more" in said
    assert _plan(*sides[:1], *sides[2:])[0] == 0  # a new candidate


def test_the_plan_of_runs(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    bases = [
        synthetic(
            tmp_path,
            {"x": math.exp(0.005 * rng.standard_normal())},
            name=f"b{i}",
            seed=i,
            blocks=8,
            cpp=False,
        )
        for i in range(6)
    ]
    status, said = _plan(",".join(str(run.path) for run in bases))
    assert status == 0
    assert "runs of the base (6 are known) and" in said
    assert "between 6 runs" in said


@pytest.mark.parametrize(
    "more",
    [
        ["--power", "0%"],
        ["--power", "100%"],
        ["--power", "x"],
        ["--threshold", "0%"],
        ["--threshold", "200%"],
    ],
)
def test_a_plan_of_nothing_is_refused(tmp_path: Path, more: list[str]) -> None:
    run = synthetic(tmp_path, {"base": 1.0, "cand": 1.0}, cpp=False)
    assert _plan(f"{run.path}:base", *more)[0] == 2


def test_too_few_values_are_named(tmp_path: Path) -> None:
    run = synthetic(tmp_path, {"base": 1.0, "cand": 1.0}, blocks=2, cpp=False)
    status, said = _plan(f"{run.path}:base")
    assert status == 2
    assert "too few values" in said


def test_without_a_candidate_there_is_only_a_plan(tmp_path: Path) -> None:
    run = synthetic(tmp_path, {"base": 1.0, "cand": 1.0}, cpp=False)
    done = call(["compare", f"{run.path}:base"])
    assert done.exit_code == 2
    assert "there is no candidate" in done.stderr


def _functions(label: str) -> dict[str, list[float]]:
    more = 80.0 if label == "cand" else 0.0
    return {
        "nf_hook_slow": [100.0 + more, 300.0 + 2 * more],
        "tcp_sendmsg": [300.0 - more / 8, 900.0],
        "veth_xmit": [50.0, 60.0],
    }


def test_a_gate_that_fails_names_the_kernel_functions_that_changed(tmp_path: Path) -> None:
    run = synthetic(
        tmp_path,
        {"base": 1.0, "cand": 0.8},
        workloads=("tcp-rr",),
        command=["cnibench", "run", "--cni", "base=x,cand=y", "--name", "it's"],
    )
    edited(run, lambda line: {**line, "functions": _functions(line["label"])}, "cpp.jsonl")
    sides = [f"{run.path}:base", f"{run.path}:cand"]
    done = call(["compare", *sides])
    assert done.exit_code == 4
    assert all(len(line) <= 80 for line in done.stdout.splitlines())
    said = " ".join(done.stdout.split())
    first = said.index("nf_hook_slow: 100.0 to 180.0 (+80.0)")
    assert first < said.index("tcp_sendmsg: 300.0 to 290.0 (-10.0)")
    assert "veth_xmit" not in said
    assert "not tested, estimated without a PMU" in said
    assert "cnibench run --cni base=x,cand=y --name 'it'\"'\"'s'" in said
    assert "cnibench compare last:base last:cand --threshold 5%" in said
    told = json.loads(call(["compare", *sides, "--json"]).stdout)
    assert [one["functions"][0]["name"] for one in told["cycles"]] == ["nf_hook_slow"] * 2
    assert told["repeat"][0].startswith("cnibench run --cni")
    for form in ("md", "junit"):
        assert "nf_hook_slow: 100.0 to 180.0" in call(["compare", *sides, "--format", form]).stdout
    passed = call(["compare", *sides, "--threshold", "40%"])
    assert (passed.exit_code, "nf_hook_slow" in passed.stdout) == (0, False)


@pytest.mark.parametrize(
    "out", [["--out", "nightly"], ["--out=nightly"], ["--folder", "nightly"], ["--folder=nightly"]]
)
def test_what_repeats_a_gate_finds_the_new_run_and_fixes_its_size(
    tmp_path: Path, out: list[str]
) -> None:
    """A run that may end by its differences is no run for a gate."""
    run = synthetic(
        tmp_path,
        {"base": 1.0, "cand": 0.8},
        workloads=("tcp-rr",),
        until_decided=True,
        command=["cnibench", "run", "--cni", "base=x,cand=y", *out],
    )
    sides = [f"{run.path}:base", f"{run.path}:cand"]
    done = call(["compare", *sides, "--json", "--inconclusive", "pass", "--allow-different"])
    measure, compare = json.loads(done.stdout)["repeat"]
    assert measure == f"cnibench run --cni base=x,cand=y {' '.join(out)} --blocks 12"
    assert compare.startswith("cnibench compare last:base last:cand --threshold 5% ")
    assert compare.endswith("--allow-different --inconclusive pass --folder nightly")


@pytest.mark.parametrize("garbled", [False, True])
def test_without_cycles_the_gate_says_so(tmp_path: Path, garbled: bool) -> None:
    run = synthetic(
        tmp_path, {"base": 1.0, "cand": 0.8}, cpp=garbled, command=["cnibench", "import"]
    )
    if garbled:
        edited(run, lambda line: {**line, "functions": 7}, "cpp.jsonl")
    done = call(["compare", f"{run.path}:base", f"{run.path}:cand"])
    assert done.exit_code == 4
    assert "Which kernel functions changed is not known" in done.stdout
    assert "To repeat it" not in done.stdout


def test_commands_are_cut_at_80_columns() -> None:
    from cnibench.reports._gate_notes import command

    words: list[Any] = ["cnibench", "run", *(f"--option{i}=value" for i in range(12)), "x" * 90]
    lines = command(words).split("\n")
    assert all(len(line) <= 80 for line in lines[:-1])
    assert all(line.endswith(" \\") for line in lines[:-1])
    assert "".join(line.removesuffix("\\") for line in lines).split() == words


def test_few_blocks_prove_none_worse_and_the_reason_counts_cells(tmp_path: Path) -> None:
    options = {"workloads": ("tcp-rr", "tcp-stream"), "placements": ("intra",), "cpp": False}
    run = synthetic(tmp_path, {"x": 1.0, "y": 1.0}, blocks=4, noise=1e-5, **options)
    plan = call(["compare", f"{run.path}:x", "--plan"]).stdout
    words = unwrapped(plan)
    assert "passes all 2 cells with a probability of 100 %" in words
    assert "So few blocks cannot prove that a candidate is worse in a single cell." in words
    done = call(["compare", f"{run.path}:x", f"{run.path}:y"])
    assert "at least 6 are needed (and 1 more cell)" in unwrapped(done.stdout)
