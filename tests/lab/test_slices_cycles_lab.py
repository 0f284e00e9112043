"""Cycles per packet in rounds of slices: one recording, and each cell has the samples of its own
turns.
"""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from cnibench.clusters.lab.deployment import LabDeployment
from cnibench.registry import provider
from cnibench.run.checks.stalls import disturbed
from cnibench.run.slices.cycles import with_cycles
from cnibench.run.slices.evidence import evidence
from cnibench.run.slices.generator import Generator
from tests.lab._cycles import evaluated_again
from tests.lab._samples import context
from tests.lab.test_stalls_lab import pids

MakeDeployment = Callable[..., LabDeployment]
ROUNDS = 75  # 1.5 s for each cell


def test_each_cell_has_the_cycles_of_its_own_turns(
    make_deployment: MakeDeployment, tmp_path: Path
) -> None:
    cells = list(itertools.product(("veth-baseline", "flannel"), ("tcp-rr", "iperf3-tcp")))
    deployments = {profile: make_deployment(profile) for profile in ("veth-baseline", "flannel")}
    with ExitStack() as running:
        generators = {}
        for profile, workload in cells:
            s = context(deployments[profile], workload, tmp_path / profile / workload, cpu=0)
            s = replace(s, cell=msgspec.structs.replace(s.cell, window="cpp"))
            load = provider("workloads", workload).load(s.cell)
            name = f"{profile} {workload}"
            generators[name] = running.enter_context(Generator(s, load, "tcp"))
        driven = with_cycles(provider("collectors", "perf"), generators, ROUNDS, 0, 1)
    assert driven.failed == {}
    records = {}
    for name, found in driven.cycles.items():
        assert {"cycles_per_packet", "cycles_per_byte"} <= {one.metric for one in found.readings}
        [(file, records[name])] = found.records
        assert file == "cpp"
        evaluated_again(generators[name].s.raw, records[name])
    assert len(list(tmp_path.glob("*/*/perf.*.data.gz"))) == 1
    for workload in ("tcp-rr", "iperf3-tcp"):
        plain, bridged = (records[f"{profile} {workload}"] for profile in deployments)
        assert {"bridge", "netfilter", "conntrack"} <= bridged["components"].keys()
        for component in ("bridge", "netfilter"):
            # flannel's turns do not count for a profile that has neither
            assert plain["components"].get(component, 0) < bridged["components"][component] / 5
    of_requests = [one for one in driven.slices if one.cell == "flannel tcp-rr"]
    packets, transactions = sum(s.packets for s in of_requests), sum(s.units for s in of_requests)
    assert 0.9 < packets / transactions < 1.5, "a request each, and few acknowledgements alone"


def test_perf_that_is_stopped_marks_the_sample(
    make_deployment: MakeDeployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the turns 20 to 39, those before the first round included."""
    s = context(make_deployment("veth-baseline"), "tcp-rr", tmp_path, cpu=0)
    s = replace(s, cell=msgspec.structs.replace(s.cell, window="cpp"))
    with Generator(s, provider("workloads", "tcp-rr").load(s.cell), "tcp") as generator:
        resume, victims, turns = generator.resume, list[int](), itertools.count()

        def counted() -> None:
            number = next(turns)
            if number == 20:
                victims.extend(pids("perf"))
                for pid in victims:
                    os.kill(pid, signal.SIGSTOP)
            if number == 40:
                for pid in victims:
                    os.kill(pid, signal.SIGCONT)
            resume()

        monkeypatch.setattr(generator, "resume", counted)
        driven = with_cycles(provider("collectors", "perf"), {"one": generator}, ROUNDS, 0, 1)
    assert victims
    seen = evidence(driven.slices, driven.wall, driven.share, cpus=1)
    assert "perf was stopped for" in disturbed(seen)
    assert {stop.what for one in driven.slices for stop in one.stops} == {"perf"}
