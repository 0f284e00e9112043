"""Which machines a run measured: not always the one that ran the command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cnibench.analysis.build import analyse
from cnibench.model import measured
from cnibench.registry import providers
from cnibench.reports.board.entry import of
from cnibench.reports.board.repository import accepted
from cnibench.reports.bundle.making import bundle
from tests.unit._bundles import refusal, stored

XEON = "Intel(R) Xeon(R) Gold 6130 CPU @ 2.10GHz"
CARD = {"driver": "mlx5_core", "speed": "25000"}
# As clusters/kubernetes and clusters/ssh write them.
NODE = {"kernelVersion": "6.8.0-41-generic", "architecture": "amd64", "cpu_model": XEON}
KUBERNETES = {"a": {**NODE, "device": CARD}, "b": {**NODE, "device": CARD}}
MACHINE = {"kernel": "6.8.0-41-generic", "architecture": "x86_64", "cpu_model": XEON}
SSH = {name: {**MACHINE, "cpus": "32", "device": "eno1", **CARD} for name in "ab"}
LAPTOP = {"kernel": "6.1.0-9-amd64", "cpu_model": "AMD EPYC", "cpus": 2, "cpus_online": 2}
CLUSTER = {**LAPTOP, "testbed": "cluster", "wire": "nic", "nodes": KUBERNETES}
BETWEEN = {**LAPTOP, "testbed": "lab", "wire": "nic", "nodes": SSH}
SSH_LAB = "ssh-lab://root@one,ssh://root@two"  # its plan's cluster
TRUTH = {"flannel": 1.0, "cilium": 1.2}


@pytest.mark.parametrize(
    ("facts", "kernels", "cpus"),
    [
        (LAPTOP, ["6.1.0-9-amd64"], ["AMD EPYC"]),
        ({**LAPTOP, "testbed": "kind", "nodes": KUBERNETES}, ["6.1.0-9-amd64"], ["AMD EPYC"]),
        (CLUSTER, ["6.8.0-41-generic"], [XEON]),
        (BETWEEN, ["6.8.0-41-generic"], [XEON]),
        ({**LAPTOP, "testbed": "cluster"}, [], []),  # in one namespace, nodes tell nothing
        ({**LAPTOP, "testbed": "cluster", "imported": "knb"}, ["6.1.0-9-amd64"], ["AMD EPYC"]),
        ({**LAPTOP, "testbed": "cluster", "nodes": {"a": 1}}, [], []),
        ({}, [], []),
    ],
)
def test_their_facts(facts: dict[str, Any], kernels: list[str], cpus: list[str]) -> None:
    assert measured.values(facts, "kernel") == kernels
    assert measured.values(facts, "cpu_model") == cpus


def test_an_architecture_has_one_name() -> None:
    assert measured.values(CLUSTER, "architecture") == ["x86_64"]
    assert measured.values(BETWEEN, "architecture") == ["x86_64"]


@pytest.mark.parametrize(
    ("facts", "fidelity", "cluster"),
    [(CLUSTER, "cni", "existing"), (BETWEEN, "datapath-model", SSH_LAB)],
)
def test_the_board_shows_and_compares_the_machines_that_were_measured(
    facts: dict[str, Any], fidelity: str, cluster: str, tmp_path: Path
) -> None:
    """One testbed, measured from two laptops, over its NICs."""
    (tmp_path / "results" / "one").mkdir(parents=True)
    for number, cpu in enumerate(("AMD EPYC", "Intel(R) Core(TM) i7-1165G7 @ 2.80GHz")):
        own = {**facts, "cpu_model": cpu}
        run = stored(
            tmp_path / f"r{number}",
            TRUTH,
            seed=number,
            fidelity=fidelity,
            facts=own,
            cluster=cluster,
            placements=("intra", "inter"),
        )
        content = bundle(run)
        assert refusal(tmp_path, content) == ""
        (tmp_path / "results" / "one" / f"r{number}.cnibench").write_bytes(content)
    found, refused = accepted(tmp_path / "results", of)
    assert refused == []
    for one in found:
        shown = one.taken.facts  # type: ignore[attr-defined]
        assert (shown["cpu"], shown["kernel"]) == (XEON, "6.8")
        assert (shown["nic"], shown["architecture"]) == ("mlx5_core, 25.0 Gbit/s", "x86_64")
        details = dict(one.taken.details)  # type: ignore[attr-defined]
        assert details["CPU"] == XEON
        assert "memory" not in details


def test_metrics_name_the_machines_that_were_measured(tmp_path: Path) -> None:
    run = stored(tmp_path / "run", TRUTH, fidelity="cni", facts=CLUSTER)
    text = str(providers("reports")["openmetrics"].render(analyse([run])))
    (info,) = (line for line in text.splitlines() if line.startswith("cnibench_run_info{"))
    assert f'testbed="cluster",kernel="6.8.0-41-generic",cpu_model="{XEON}"' in info


def test_a_rate_above_the_link_speed_is_refused_between_machines_too(tmp_path: Path) -> None:
    slow = {name: {**one, "speed": "1000"} for name, one in SSH.items()}
    run = stored(
        tmp_path / "run",
        TRUTH,
        facts={**BETWEEN, "nodes": slow},
        placements=("inter",),
        workloads=("tcp-stream",),
        cluster=SSH_LAB,
    )
    assert "more than its NIC's link speed" in refusal(tmp_path, bundle(run))
