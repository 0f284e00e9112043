"""One sample of a deployment, for the tests that measure."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cnibench.clusters.lab.deployment import LabDeployment
from cnibench.model.cell import Cell, Placement
from cnibench.registry import provider
from cnibench.run.sample_context import SampleContext


def sample(
    deployment: LabDeployment,
    workload: str,
    params: Mapping[str, Any],
    raw: Path,
    *,
    placement: Placement = "inter",
    ip: int = 4,
    duration: float = 1.0,
    warmup: float = 0.0,
    cpu: int | None = None,
    **cell: Any,
) -> SampleContext:
    """``params`` as the workload checked them; client and server are both on ``cpu``."""
    client, server = deployment.pair(placement)
    raw.mkdir(parents=True, exist_ok=True)
    return SampleContext(
        cell=Cell(
            label=deployment.label,
            profile=deployment.label,
            placement=placement,
            workload=workload,
            params=dict(params),
            ip=ip,
            **cell,
        ),
        block=0,
        deployment=deployment,
        client=client,
        server=server,
        duration=duration,
        warmup=warmup,
        raw=raw,
        client_cpu=cpu,
        server_cpu=cpu,
    )


def context(
    deployment: LabDeployment,
    workload: str,
    raw: Path,
    *,
    placement: Placement = "inter",
    ip: int = 4,
    duration: float = 1.0,
    warmup: float = 0.0,
    cpu: int | None = None,
    **params: Any,
) -> SampleContext:
    """A sample with ``params`` as a plan gives them."""
    checked = provider("workloads", workload).params(params)
    return sample(
        deployment,
        workload,
        checked,
        raw,
        placement=placement,
        ip=ip,
        duration=duration,
        warmup=warmup,
        cpu=cpu,
    )
