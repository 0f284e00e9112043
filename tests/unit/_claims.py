"""Claims, and figures that a test invents to judge them by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from cnibench.analysis import Analysis, Cpp, Result
from cnibench.claims.evaluate import judgement
from cnibench.claims.model import Claim, Study
from cnibench.claims.verdict import Judgement
from cnibench.model.metrics import METRICS


def values(level: float, n: int = 12, noise: float = 0.005, seed: int = 1) -> list[float]:
    return (level * np.exp(noise * np.random.default_rng([seed, n]).standard_normal(n))).tolist()


def result(profile: str, row: list[float], **how: Any) -> Result:
    """One figure; ``how`` overrides where it stands."""
    where: dict[str, Any] = {
        "placement": "intra",
        "path": "pod",
        "workload": "tcp-stream",
        "params": {},
        "ip": 4,
        "mtu": 1500,
        "cpus": "shared",
        "pair": 0,
        "metric": "throughput",
        "testbed": "lab",
        "wire": "veth",
        "wire_offload": "vxlan",
        "fidelity": "datapath-model",
        **how,
    }
    kind = METRICS[where["metric"]]
    return Result(
        **where,
        unit=kind.unit,
        better=kind.better,
        profile=profile,
        label=profile,
        n=len(row),
        mean=float(np.mean(row)),
        median=float(np.median(row)),
        ci_low=None,
        ci_high=None,
        confidence=None,
        spread=None,
        blocks=list(range(len(row))),
        values=row,
    )


def cycles(profile: str, parts: Mapping[str, list[float]], source: str = "estimated") -> Cpp:
    n = len(next(iter(parts.values())))
    total = [sum(row[i] for row in parts.values()) + 100 for i in range(n)]
    return Cpp(
        profile=profile,
        label=profile,
        placement="intra",
        path="pod",
        workload="tcp-stream",
        params={},
        ip=4,
        mtu=1500,
        cpus="shared",
        total=float(np.mean(total)),
        cycles_source=source,
        packets=1e6,
        components={k: float(np.mean(v)) for k, v in parts.items()},
        unclassified=100,
        n=n,
        fidelity="datapath-model",
        blocks=list(range(n)),
        by_block={**parts, "total": total},
    )


def claim(**what: Any) -> Claim:
    usual = {
        "id": "c",
        "source": "s",
        "sentence": "S.",
        "metric": "throughput",
        "workload": ["tcp-stream"],
        "placement": "intra",
    }
    return Claim.model_validate({**usual, **what})


def study(one: Claim) -> Study:
    """A study with that claim alone."""
    return Study.model_validate(
        {
            "schema": 1,
            "name": "t",
            "title": "T",
            "authors": "A",
            "published": "2020",
            "claims": [one],
        }
    )


def verdict(one: Claim, analysis: Analysis, *rows: Result | Cpp, **environment: Any) -> Judgement:
    results = [row for row in rows if isinstance(row, Result)]
    table = [row for row in rows if isinstance(row, Cpp)]
    facts = {**analysis.environment, **environment}
    return judgement(
        study(one),
        one,
        msgspec.structs.replace(analysis, results=results, cpp=table, environment=facts),
    )


ORDER = {"kind": "order", "higher": ["cilium"], "lower": ["flannel", "kube-router"]}
