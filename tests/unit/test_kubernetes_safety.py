"""What is refused on a cluster that others use, and what is announced before anything is done."""

from __future__ import annotations

from typing import Any

import pytest

from cnibench.clusters.kubernetes.api import objects
from cnibench.clusters.kubernetes.ownership import safety
from cnibench.errors import UsageError
from cnibench.testbed.cluster_options import ClusterOptions


def pod(name: str, namespace: str = "shop", where: str = "x", **more: Any) -> dict[str, Any]:
    labels = more.pop("labels", {})
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"nodeName": where, **more},
        "status": {"phase": "Running"},
    }


def test_pods_of_the_system_and_our_own_are_no_strangers() -> None:
    found = safety.foreign(
        [
            pod("web"),
            pod("dns", "kube-system"),
            pod("old", where="y", labels={objects.OURS: objects.NAME}),
            pod("agent", "monitoring", priorityClassName="system-node-critical"),
            pod("db", where="y"),
        ]
    )
    assert found == [("x", "shop/web"), ("y", "shop/db")]


def test_load_beside_strangers_is_refused_unless_allowed() -> None:
    strangers = [("x", "shop/web"), ("z", "shop/db")]
    safety.check_load(safety.Allowed(), strangers, ["y"])
    safety.check_load(safety.Allowed(load=True), strangers, ["x", "y"])
    with pytest.raises(safety.RefusedError) as refused:
        safety.check_load(safety.Allowed(), strangers, ["x", "y"])
    assert (
        refused.value.message == "1 Pod of others (shop/web) on the chosen nodes would be disturbed"
    )
    assert "--allow-load" in refused.value.remedy
    assert refused.value.exit_code == 2


def test_a_cni_is_changed_only_where_that_was_allowed_by_name() -> None:
    with pytest.raises(safety.RefusedError, match="has no CNI, and installing one was not allowed"):
        safety.check_change(safety.Allowed(), "", "production", 30, [])
    safety.check_change(safety.Allowed(install=True), "", "production", 30, [])
    for allowed in (
        safety.Allowed(),
        safety.Allowed(install=True),
        safety.Allowed(replace="staging"),
    ):
        with pytest.raises(
            safety.RefusedError, match=r"'production' \(30 nodes\) has a CNI \(flannel\)"
        ):
            safety.check_change(allowed, "flannel", "production", 30, [])
    safety.check_change(safety.Allowed(replace="production"), "flannel", "production", 30, [])
    with pytest.raises(safety.RefusedError, match="no CNI is changed under them"):
        safety.check_change(
            safety.Allowed(replace="production"), "flannel", "production", 30, [("x", "shop/web")]
        )


def test_what_is_about_to_be_done_is_reported() -> None:
    told = safety.lines(
        "prod",
        ["x", "y"],
        [("x", "shop/web")],
        safety.Allowed(load=True, max_rate=1e9),
        120.0,
        0.0,
        "nothing is changed",
    )
    assert told[:3] == [
        "context prod: clients on node x, servers on node y",
        "Pods of others on these nodes: 1 Pod of others (shop/web)",
        "load: at most 1.00 Gbit/s a Pod; about 2 min 00 s of windows",
    ]
    with pytest.raises(UsageError, match="--max-rate"):
        safety.Allowed.of(ClusterOptions(max_rate="1k"))
