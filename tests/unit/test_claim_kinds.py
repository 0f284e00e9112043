"""Each kind of claim and each verdict on it, by invented figures."""

from __future__ import annotations

from typing import Any

import pytest

from cnibench.analysis import Analysis
from cnibench.claims.verdict import Judgement
from tests.unit._claims import ORDER, claim, cycles, result, values, verdict


@pytest.mark.parametrize(
    ("levels", "n", "expected"),
    [
        ((12.0, 10.0, 11.0), 12, "holds"),
        ((12.0, 13.0, 11.0), 12, "does-not-hold"),  # one pair the other way round is enough
        ((10.0, 10.0, 10.0), 12, "does-not-hold"),  # nothing that would matter is left
        ((12.0, 10.0, 11.0), 5, "inconclusive"),  # five blocks can never decide
    ],
)
def test_order(
    empty_analysis: Analysis, levels: tuple[float, float, float], n: int, expected: str
) -> None:
    names = ("cilium", "flannel", "kube-router")
    rows = [
        result(name, values(level, n, seed=i))
        for i, (name, level) in enumerate(zip(names, levels, strict=True))
    ]
    found = verdict(claim(**ORDER), empty_analysis, *rows)
    assert found.verdict == expected, found.reason
    assert [figure.what for figure in found.figures] == list(names)


def test_order_without_power_refutes_nothing(empty_analysis: Analysis) -> None:
    """A wide interval around no difference says nothing."""
    rows = [
        result(name, values(10, 8, noise=0.2, seed=i))
        for i, name in enumerate(("cilium", "flannel", "kube-router"))
    ]
    assert verdict(claim(**ORDER), empty_analysis, *rows).verdict == "inconclusive"


def test_order_with_a_profile_missing_is_never_said_to_hold(empty_analysis: Analysis) -> None:
    found = verdict(
        claim(**ORDER),
        empty_analysis,
        result("cilium", values(12)),
        result("flannel", values(10, seed=2)),
    )
    assert found.verdict == "inconclusive"
    assert "kube-router" in found.reason
    assert (
        verdict(claim(**ORDER), empty_analysis, result("flannel", values(10))).verdict
        == "not-measured"
    )


@pytest.mark.parametrize(("ratio", "expected"), [(1.2, "holds"), (1.5, "does-not-hold")])
def test_ratio(empty_analysis: Analysis, ratio: float, expected: str) -> None:
    one = claim(kind="ratio", higher=["cilium"], lower=["flannel"], ratio=ratio)
    assert (
        verdict(
            one, empty_analysis, result("cilium", values(12)), result("flannel", values(10, seed=2))
        ).verdict
        == expected
    )


@pytest.mark.parametrize(("other", "expected"), [(10.05, "holds"), (12.0, "does-not-hold")])
def test_equality(empty_analysis: Analysis, other: float, expected: str) -> None:
    one = claim(kind="equality", profiles=["cilium", "flannel"])
    assert (
        verdict(
            one,
            empty_analysis,
            result("cilium", values(10)),
            result("flannel", values(other, seed=2)),
        ).verdict
        == expected
    )


@pytest.mark.parametrize(
    ("level", "expected"), [(11.1e9, "holds"), (12.5e9, "does-not-hold"), (11.66e9, "inconclusive")]
)
def test_value_in_the_units_of_the_study(
    empty_analysis: Analysis, level: float, expected: str
) -> None:
    one = claim(kind="value", published={"flannel": 11.1}, unit="Gbit/s")
    found = verdict(one, empty_analysis, result("flannel", values(level)))
    assert found.verdict == expected, found.reason
    assert found.figures[0].published == 11.1e9


# What is published of whom, and with whom it is published together: real profiles without a policy.
MANY = (
    *("flannel", "cilium", "kube-router", "weave", "calico-np-xsub", "calico-np-vxlan"),
    *("veth-baseline", "bridge-static", "flannel-host-gw", "macvlan"),
)


@pytest.mark.parametrize(("others", "expected"), [(0, "does-not-hold"), (8, "inconclusive")])
@pytest.mark.parametrize("kind", ["ratio", "range"])
def test_one_of_many_contradicts_at_its_share_of_the_level(
    empty_analysis: Analysis, kind: str, others: int, expected: str
) -> None:
    """Eight blocks give an interval at 5 %, and none at a tenth of it."""
    first, odd, *rest = MANY
    names = [odd, *rest[:others]]
    rows = [result(name, values(10, 8, seed=seed)) for seed, name in enumerate(rest[:others])]
    rows += [result(odd, values(8, 8, seed=91)), result(first, values(12, 8, seed=92))]
    claims = {
        "ratio": claim(kind="ratio", higher=[first], lower=names, ratio=1.2),
        "range": claim(kind="range", profiles=names, between=[9, 11], unit="bit/s"),
    }
    found = verdict(claims[kind], empty_analysis, *rows)
    assert found.verdict == expected, found.reason


def test_ranking(empty_analysis: Analysis) -> None:
    one = claim(
        kind="ranking",
        published={"cilium": 12.0, "flannel": 10.0, "kube-router": 10.1},
        unit="Gbit/s",
    )
    rows = [
        result("cilium", values(3)),
        result("flannel", values(2.0, seed=2)),
        result("kube-router", values(2.4, seed=3)),
    ]
    assert (
        verdict(one, empty_analysis, *rows).verdict == "holds"
    )  # flannel and kube-router were too close to rank
    assert (
        verdict(one, empty_analysis, result("cilium", values(1)), *rows[1:]).verdict
        == "does-not-hold"
    )


def test_range_and_share_and_absence(empty_analysis: Analysis) -> None:
    between = claim(kind="range", profiles=["flannel"], between=[14, 15.5], unit="Gbit/s")
    assert verdict(between, empty_analysis, result("flannel", values(14.7e9))).verdict == "holds"
    assert (
        verdict(between, empty_analysis, result("flannel", values(10e9))).verdict == "does-not-hold"
    )
    row = cycles("flannel", {"vxlan": values(100, 8), "tcp-ip": values(1800, 8, seed=2)})
    share = {
        "kind": "share",
        "metric": "cycles_per_packet",
        "components": ["vxlan"],
        "profiles": ["flannel"],
    }
    assert verdict(claim(**share, between=[0.03, 0.11]), empty_analysis, row).verdict == "holds"
    assert (
        verdict(claim(**share, between=[0.2, 0.3]), empty_analysis, row).verdict == "does-not-hold"
    )
    absent = {
        "kind": "absence",
        "metric": "cycles_per_packet",
        "profiles": ["flannel"],
        "at_most": 1,
    }
    assert verdict(claim(**absent, components=["bridge"]), empty_analysis, row).verdict == "holds"
    assert (
        verdict(claim(**absent, components=["vxlan"]), empty_analysis, row).verdict
        == "does-not-hold"
    )


def test_components_are_added_up_and_compared(empty_analysis: Analysis) -> None:
    one = claim(
        kind="ratio",
        metric="cycles_per_packet",
        components=["netfilter", "conntrack"],
        higher=["calico-wp-xsub"],
        lower=["flannel"],
        ratio=1.35,
    )
    rows = [
        cycles("calico-wp-xsub", {"netfilter": values(170), "conntrack": values(100, seed=2)}),
        cycles("flannel", {"netfilter": values(120, seed=3), "conntrack": values(80, seed=4)}),
    ]
    assert verdict(one, empty_analysis, *rows).verdict == "holds"
    counted = claim(**{**one.model_dump(), "preconditions": {"cycles": "pmu"}})
    assert verdict(counted, empty_analysis, *rows).verdict == "not-testable-here"


@pytest.mark.parametrize(
    ("end", "what", "expected"),
    [
        (7.1, {"direction": "falls", "ratio": 0.71}, "holds"),
        (7.1, {"direction": "falls"}, "holds"),
        (7.1, {"direction": "stays"}, "does-not-hold"),
        (7.1, {"direction": "rises"}, "does-not-hold"),
        (10.0, {"direction": "stays"}, "holds"),
    ],
)
def test_trend(empty_analysis: Analysis, end: float, what: dict[str, Any], expected: str) -> None:
    one = claim(
        kind="trend",
        profiles=["bridge-static"],
        sweep={"param": "policy.entries", "start": 0, "end": 200},
        **what,
    )
    rows = [
        result(
            "bridge-static",
            values(10.0),
            params={"policy.setting": "no-match", "policy.entries": 0},
        ),
        result(
            "bridge-static",
            values(9.0, seed=2),
            params={"policy.setting": "no-match", "policy.entries": 100},
        ),
        result(
            "bridge-static",
            values(end, seed=3),
            params={"policy.setting": "no-match", "policy.entries": 200},
        ),
    ]
    found = verdict(one, empty_analysis, *rows)
    assert found.verdict == expected, found.reason
    assert [figure.what for figure in found.figures] == [
        "bridge-static at 0",
        "bridge-static at 200",
    ]
    assert verdict(one, empty_analysis, *rows[:2]).verdict == "not-measured"


def test_counts_need_no_test_but_must_agree(empty_analysis: Analysis) -> None:
    one = claim(
        kind="value",
        metric="rules",
        workload=["rule-path"],
        published={"flannel": 5, "cilium": 0},
        unit="1",
        within=0,
        by_construction="the model loads them",
    )

    def counts(flannel: float, **how: Any) -> Judgement:
        rows = [
            result(name, [value], metric="rules", workload="rule-path", **how)
            for name, value in (("flannel", flannel), ("cilium", 0.0))
        ]
        return verdict(one, empty_analysis, *rows)

    assert counts(5).verdict == "by-construction"
    assert counts(5).reason == "the model loads them"
    assert counts(5, fidelity="cni").verdict == "holds"
    assert counts(6).verdict == "does-not-hold"
    order = claim(
        kind="order", metric="rules", workload=["rule-path"], higher=["flannel"], lower=["cilium"]
    )
    rows = [
        result(name, [value], metric="rules", workload="rule-path")
        for name, value in (("flannel", 5.0), ("cilium", 0.0))
    ]
    assert verdict(order, empty_analysis, *rows).verdict == "holds"


def test_places_that_disagree_decide_nothing(empty_analysis: Analysis) -> None:
    one = claim(kind="order", higher=["cilium"], lower=["flannel"])
    rows = [
        result("cilium", values(12), mtu=1500),
        result("flannel", values(10, seed=2), mtu=1500),
        result("cilium", values(10), mtu=9000),
        result("flannel", values(12, seed=2), mtu=9000),
    ]
    found = verdict(one, empty_analysis, *rows)
    assert found.verdict == "inconclusive"
    assert "MTU 9000" in found.reason


def test_parts_of_a_reading_count_only_where_asked_for(empty_analysis: Analysis) -> None:
    one = claim(kind="order", higher=["cilium"], lower=["flannel"])
    half = {"params": {"direction": "forward"}, "reading": {"direction": "forward"}}
    rows = [result("cilium", values(12), **half), result("flannel", values(10, seed=2), **half)]
    assert verdict(one, empty_analysis, *rows).verdict == "not-measured"
    asked = claim(
        kind="order", higher=["cilium"], lower=["flannel"], params={"direction": "forward"}
    )
    assert verdict(asked, empty_analysis, *rows).verdict == "holds"


def test_zeros_have_no_ratio_and_still_an_order(empty_analysis: Analysis) -> None:
    """A component that is 0 in some blocks: the sign of the differences decides, and no infinite
    ratio is shown.
    """
    rows = [
        cycles("flannel", {"netfilter": [300.0] * 8}),
        cycles("cilium", {"netfilter": [0.0] * 7 + [1.0]}),
    ]
    what: dict[str, Any] = {
        "metric": "cycles_per_packet",
        "components": ["netfilter"],
        "higher": ["flannel"],
        "lower": ["cilium"],
    }
    found = verdict(claim(kind="order", **what), empty_analysis, *rows)
    assert found.verdict == "holds"
    assert "inf" not in found.reason
    assert (
        verdict(claim(kind="ratio", ratio=2, **what), empty_analysis, *rows).verdict
        == "inconclusive"
    )
