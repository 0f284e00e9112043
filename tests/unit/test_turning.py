"""Turning points out of synthetic sweeps whose truth is known, and how a report says them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from cnibench.analysis.model import Result
from cnibench.analysis.turning import judge, turning_points
from cnibench.reports._document import turning_words

VALUES = (0.0, 1.0, 5.0, 10.0, 25.0, 50.0, 100.0, 200.0)


def results(labels: dict[str, float], *, blocks: int = 10, noise: float = 0.01, better: str = "higher") -> list[Result]:
    """A level of 1e9 (a's is 10 % above) that each entry lowers by a label's share."""
    rng = np.random.default_rng(3)
    found = []
    for value in VALUES:
        common = 0.05 * rng.standard_normal(blocks)
        for label, slope in labels.items():
            level = 1e9 * (1.1 if label == "a" else 1.0) * math.exp(-slope * value)
            values = level * np.exp(common + noise * rng.standard_normal(blocks))
            series = values if better == "higher" else 1 / values
            found.append(
                Result(
                    placement="inter", path="pod", workload="iperf3-tcp", params={"policy.entries": value, "streams": 1}, ip=4, mtu=1500,
                    cpus="shared", pair=0, metric="throughput" if better == "higher" else "latency_mean", unit="bit/s", better=better,
                    testbed="lab", wire="veth", wire_offload="none", profile=label, label=label, fidelity="datapath-model", n=blocks,
                    mean=float(series.mean()), median=float(np.median(series)), ci_low=None, ci_high=None, confidence=None, spread=None,
                    blocks=list(range(blocks)), values=series.tolist(),
                )
            )  # fmt: skip
    return found


@pytest.mark.parametrize("better", ["higher", "lower"])
def test_a_turning_point_is_found_with_its_interval(better: str) -> None:
    (found,) = turning_points(results({"a": 0.002, "b": 0.0}, better=better))
    assert (found.first, found.then, found.swept, found.verdict) == ("a", "b", "policy.entries", "turns")
    assert found.at is not None
    assert found.low is not None
    assert found.high is not None
    truth = math.log(1.1) / 0.002  # 47.7 entries
    assert found.low <= found.at <= found.high
    assert 0.7 * truth < found.low
    assert found.high < 1.4 * truth
    assert found.params == {"streams": 1}
    assert turning_words(found).startswith(f"{found.at:.3g} (")


def test_where_nothing_turns_it_says_up_to_where() -> None:
    (found,) = turning_points(results({"a": 0.0, "b": 0.0}))
    assert (found.first, found.verdict, found.up_to) == ("a", "none", 200.0)
    assert turning_words(found) == "none up to 200"


def test_equal_profiles_have_no_turning_point() -> None:
    (found,) = turning_points(results({"b": 0.0, "c": 0.0}))
    assert found.verdict == "inconclusive"
    assert "not told apart at 0" in turning_words(found)


def test_too_few_blocks_and_too_few_values_claim_nothing() -> None:
    (found,) = turning_points(results({"a": 0.002, "b": 0.0}, blocks=5))
    assert (found.verdict, found.n) == ("inconclusive", 5)
    few = [result for result in results({"a": 0.002, "b": 0.0}) if result.params["policy.entries"] < 5]
    assert turning_points(few) == []


def test_a_missing_block_leaves_the_others_paired() -> None:
    given = results({"a": 0.002, "b": 0.0})
    cut = given[3]
    given[3] = Result(**{name: getattr(cut, name) for name in cut.__struct_fields__} | {"blocks": cut.blocks[1:], "values": cut.values[1:]})
    (found,) = turning_points(given)
    assert (found.n, found.verdict) == (9, "turns")


def test_values_that_have_no_logarithm_are_inconclusive() -> None:
    table = np.full((8, 3), 0.1)
    table[2, 1] = math.nan
    assert judge(table, (0.0, 1.0, 2.0))[0] == "inconclusive"
