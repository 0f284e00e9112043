"""One metric of a workload decides: when a run stops, the order of a report, the gate."""

from __future__ import annotations

from pathlib import Path

import msgspec

from cnibench.analysis import analyse
from cnibench.registry import providers
from tests.unit._call import call
from tests.unit._runs import synthetic


def test_one_metric_decides_everywhere(tmp_path: Path) -> None:
    """Flat latency beside a rate that scatters by 40 % must not end a run: stopping looks at what
    the report ranks by.
    """
    from cnibench.cli.measurement.execute import comparisons
    from cnibench.stats.sequential import decide

    works = providers("workloads")
    run = synthetic(
        tmp_path,
        {"a": 1.0, "b": 1.0},
        blocks=8,
        noise=0.4,
        workloads=("tcp-rr",),
        placements=("intra",),
        cpp=False,
        main={"tcp-rr": works["tcp-rr"].primary},
    )
    rates = list(run.samples())
    flat = [
        msgspec.structs.replace(line, metric="latency_mean", value=2e-5)
        for line in rates
        if line.metric == "transaction_rate"
    ]
    (series,) = comparisons([*rates, *flat], works, 8).values()
    decision = decide({"a against b": series}, 0.02, 8)
    assert decision.widest > 0.05, decision.reason
    (shown,) = [group for group in analyse([run]).groups if group.metric == works["tcp-rr"].primary]
    assert shown.metric == "transaction_rate"


def test_the_run_says_which_metric_decides(tmp_path: Path) -> None:
    more = {
        "blocks": 8,
        "noise": 0.003,
        "workloads": ("tcp-rr",),
        "placements": ("intra",),
        "cpp": False,
    }
    run = synthetic(tmp_path, {"a": 1.0, "b": 1.0}, main={"tcp-rr": "cpu_softirq"}, **more)
    assert "cpu_softirq" in call(["compare", f"{run.path}:a", f"{run.path}:b"]).stdout
    assert "tcp-rr on one node: CPU softirq" in call(["report", str(run.path)]).stdout
