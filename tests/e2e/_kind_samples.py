"""Samples on a deployment on kind, by the code that measures in the lab."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cnibench.clusters.kubernetes.deployment import KubernetesDeployment
from cnibench.model import conditions
from cnibench.model.cell import Cell, Placement
from cnibench.registry import provider
from cnibench.run.sample_context import Measurements, SampleContext
from cnibench.run.windows.sample import measure


def context(
    deployment: KubernetesDeployment,
    workload: str,
    raw: Path,
    placement: Placement = "inter",
    duration: float = 1.0,
    **params: Any,
) -> SampleContext:
    own, around = conditions.split(params)
    given = {**provider("workloads", workload).params(own), **around}
    cell = Cell(
        label=deployment.label,
        profile=deployment.label,
        placement=placement,
        workload=workload,
        params=given,
    )
    deployment.reset_state()
    client, server = deployment.pair_for(cell)
    raw.mkdir(parents=True, exist_ok=True)
    return SampleContext(cell, 0, deployment, client, server, duration, 0.0, raw, None, None)


def sample(
    deployment: KubernetesDeployment,
    workload: str,
    raw: Path,
    placement: Placement = "inter",
    collectors: tuple[str, ...] = (),
    **params: Any,
) -> Measurements:
    # collectors begin within the window: a busy machine takes seconds for that
    seconds = 5.0 if collectors else 2.0
    s = context(deployment, workload, raw, placement, seconds, **params)
    return measure(
        s, provider("workloads", workload), [provider("collectors", name) for name in collectors]
    ).measurements


def records(found: Measurements, name: str) -> list[dict[str, Any]]:
    return [line for kind, line in found.records if kind == name]
