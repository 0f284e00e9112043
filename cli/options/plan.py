"""The options of ``cnibench run`` that make a plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class PlanOptions:
    """What ``cnibench run`` was asked for, as typed; None: not given, so that the plan file or the
    default decides.
    """

    cni: Sequence[str] = ()
    cluster: str | None = None
    lab: bool = False
    placement: Sequence[str] = ()
    path: Sequence[str] = ()
    proxy: Sequence[str] = ()
    workload: Sequence[str] = ()
    method: str | None = None
    duration: str | None = None
    warmup: str | None = None
    blocks: str | None = None
    resolution: str | None = None
    noise: str | None = None
    target_ci: str | None = None
    max_blocks: int | None = None
    budget: str | None = None
    cpus: str | None = None
    ip: str | None = None
    mtu: int | None = None
    wire_offload: str | None = None
    wire_rate: str | None = None
    congestion_control: str | None = None
    priority: str | None = None
    kernel: str | None = None
    pairs: int | None = None
    no_perf: bool = False
    settings: Sequence[str] = ()
    seed: int | None = None
    plan: str | None = None
    scale: float | None = None
    title: str | None = None
    fact: Sequence[str] = ()
    keep: bool = False
