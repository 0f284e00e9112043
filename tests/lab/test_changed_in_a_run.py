"""A deployment that somebody changes during a run loses its samples, the others keep theirs."""

from __future__ import annotations

from pathlib import Path

import pytest

from cnibench.clusters.lab.cluster import LabCluster
from cnibench.clusters.lab.deployment import LabDeployment
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
    cells = [transactions(label) for label in LABELS]
    profiles = {label: builtin()[label] for label in LABELS}
    plan = manifest(
        cells,
        seed=3,
        duration=0.3,
        profiles={
            label: one.model_dump(mode="json", by_alias=True) for label, one in profiles.items()
        },
    )
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
    workload = provider("workloads", "tcp-rr")
    with RunWriter.create(tmp_path / "run", plan) as writer:
        runner = Runner(LabCluster(Options()), writer, profiles, {"tcp-rr": workload})
        assert runner.run() == 1
    status = {
        (item.label, item.block): (item.status, item.reason)
        for item in RunReader(tmp_path / "run").samples()
    }
    assert [status[label, block][0] for label in LABELS for block in (0, 1)] == [
        "ok",
        "failed",
        "ok",
        "ok",
    ]
    assert "kernel-state-b" in status["flannel", 1][1]
    assert "-A FORWARD" in status["flannel", 1][1]
