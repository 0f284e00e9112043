"""A deployment that somebody changes during a run loses its samples, the others keep theirs."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from cnibench.clusters.lab.cluster import LabCluster
from cnibench.clusters.lab.deployment import LabDeployment
from cnibench.model.cell import Cell
from cnibench.model.profile import builtin
from cnibench.registry import provider
from cnibench.run.runner import Runner
from cnibench.rundir.reader import RunReader
from cnibench.rundir.writer import RunWriter
from cnibench.testbed.cluster import Options
from tests._manifest import manifest, transactions

LABELS = ("flannel", "veth-baseline")


def test_flushed_rules_revoke_the_samples_of_that_profile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    windows = 0
    drain = LabDeployment.reset_state

    def sabotage(deployment: LabDeployment) -> None:
        """Before flannel's second sample somebody flushes its rules."""
        nonlocal windows
        drain(deployment)
        windows += deployment.label == "flannel"
        if deployment.label == "flannel" and windows == 2:
            deployment.b.run(["iptables-nft", "-F", "FORWARD"], timeout=10)

    monkeypatch.setattr(LabDeployment, "reset_state", sabotage)
    status = _measured(tmp_path / "run", [transactions(label) for label in LABELS])
    assert [status[label, block][0] for label in LABELS for block in (0, 1)] == [
        "ok",
        "failed",
        "ok",
        "ok",
    ]
    assert "kernel-state-b" in status["flannel", 1][1]
    assert "-A FORWARD" in status["flannel", 1][1]


def test_in_slices_traffic_is_tried_again_after_the_last_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A neighbour that was learned is not compared, and what is measured does not use this one."""
    deployed = set[int]()
    drain = LabDeployment.reset_state

    def sabotage(deployment: LabDeployment) -> None:
        """In the second block."""
        drain(deployment)
        if deployment.label == "flannel":
            deployed.add(deployment.number)
        if deployment.label == "flannel" and len(deployed) == 2:
            client, other = deployment.pair("intra")
            address = f"{other.addresses[4]} dev {client.interface} lladdr 02:00:00:00:99:99"
            client.run(["ip", "neigh", "replace", *address.split(), "nud", "reachable"], timeout=10)

    monkeypatch.setattr(LabDeployment, "reset_state", sabotage)
    cells = [
        msgspec.structs.replace(transactions(label), placement="inter", method="slices")
        for label in LABELS
    ]
    status = _measured(tmp_path / "run", cells)
    assert [status[label, block][0] for label in LABELS for block in (0, 1)] == [
        "ok",
        "failed",
        "ok",
        "ok",
    ]
    assert "changed during the run, attestation failed: reach-intra" in status["flannel", 1][1]


def _measured(folder: Path, cells: list[Cell]) -> dict[tuple[str, int], tuple[str, str]]:
    """Two blocks of these cells, of which one sample fails: (status, reason) of each label and
    block.
    """
    profiles = {label: builtin()[label] for label in LABELS}
    plan = manifest(
        cells,
        seed=3,
        duration=0.3,
        profiles={
            label: one.model_dump(mode="json", by_alias=True) for label, one in profiles.items()
        },
    )
    workload = provider("workloads", "tcp-rr")
    with RunWriter.create(folder, plan) as writer:
        runner = Runner(LabCluster(Options()), writer, profiles, {"tcp-rr": workload})
        assert runner.run() == 1
    return {
        (item.label, item.block): (item.status, item.reason) for item in RunReader(folder).samples()
    }
