"""Load generators that a program on their node controls, with this machine as both nodes."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from cnibench.clusters.lab.deployment import LabDeployment
from cnibench.clusters.lab.namespaces.places import LabPod
from cnibench.errors import of_data
from cnibench.model.cell import Placement
from cnibench.registry import provider
from cnibench.run.slices.readings.clocks import descendants
from cnibench.run.slices.remote import Controllers, RemoteGenerator, drive_remotely
from cnibench.system import carried
from cnibench.testbed.capabilities.pods.controlled import ControlledPods, Conversation
from cnibench.testbed.deployment import Deployment
from cnibench.testbed.place import Node, Pod
from tests.lab._samples import context

MakeDeployment = Callable[..., LabDeployment]


class Local(Conversation):
    """With the program as a process of this machine."""

    def __init__(self, main: str, archive: bytes) -> None:
        self._program = subprocess.Popen(
            carried.command(sys.executable, main), stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._number = 0
        self._write(archive)

    def _write(self, data: bytes) -> None:
        assert self._program.stdin is not None
        self._program.stdin.write(data)
        self._program.stdin.flush()

    def ask(
        self, request: dict[str, Any], timeout: float, silence: float = math.inf
    ) -> dict[str, Any]:
        self._number += 1
        self._write(json.dumps({**request, "number": self._number}).encode() + b"\n")
        assert self._program.stdout is not None
        for line in self._program.stdout:
            answer: dict[str, Any] = json.loads(line)
            if answer.pop("number", None) == self._number:
                if "error" in answer:
                    raise of_data(answer)
                return answer
        raise AssertionError("the program has ended")

    def close(self) -> None:
        self._program.kill()
        self._program.communicate()


class OnNodes(ControlledPods):
    """The Pods of the lab. ``keepers`` are processes that have their namespaces."""

    real_time = False

    def __init__(self, keepers: ExitStack) -> None:
        self._keepers = keepers
        self._kept: dict[str, int] = {}

    def controlled(self, pods: Sequence[Pod]) -> list[Pod]:
        return list(pods)

    def process(self, pod: Pod) -> int:
        if pod.name not in self._kept:
            keeper = self._keepers.enter_context(pod.spawn(["sleep", "600"]))
            limit = time.monotonic() + 20
            # It is in the namespace when it executes sleep(1), not before.
            while Path(f"/proc/{keeper.pid}/comm").read_text().strip() != "sleep":
                assert time.monotonic() < limit, "nothing entered the namespace"
                time.sleep(0.001)
            self._kept[pod.name] = keeper.pid
        return self._kept[pod.name]

    def started(self, pod: Pod) -> frozenset[int]:
        own = os.stat(f"/proc/{self.process(pod)}/ns/net").st_ino
        return frozenset(
            pid
            for pid in descendants(os.getpid()).difference(self._kept.values())
            if os.stat(f"/proc/{pid}/ns/net").st_ino == own
        )

    def converse(self, node: Node, main: str, archive: bytes) -> Conversation:
        return Local(main, archive)


@contextmanager
def started(
    deployment: LabDeployment, raw: Path, workload: str, placement: Placement, **params: Any
) -> Iterator[RemoteGenerator]:
    with ExitStack() as running:
        s = context(deployment, workload, raw, placement=placement, **params)
        s = replace(s, deployment=cast(Deployment, OnNodes(running)))
        load = provider("workloads", workload).load(s.cell)
        controllers = running.enter_context(Controllers())
        yield running.enter_context(RemoteGenerator("one", s, load, controllers))


def _seconds(pid: int) -> float:
    """CPU time of a process so far."""
    words = Path(f"/proc/{pid}/schedstat").read_text().split()
    return int(words[0]) / 1e9


@pytest.mark.parametrize("placement", ["intra", "inter"])
def test_a_load_is_driven_on_its_node(
    make_deployment: MakeDeployment, tmp_path: Path, placement: Placement
) -> None:
    with started(make_deployment("flannel"), tmp_path, "tcp-rr", placement) as generator:
        assert generator.apart == (placement == "inter")
        assert generator.congestion_control == "cubic"
        spin = ["nice", "-n", "19", sys.executable, "-c", "while True: pass"]
        with subprocess.Popen(spin) as other:
            before = time.monotonic(), _seconds(other.pid)
            driven = drive_remotely({"one": generator}, 6, 1, 1)
            taken, ran = time.monotonic() - before[0], _seconds(other.pid) - before[1]
            other.kill()
    if driven.failed:  # other tests take the CPUs, and it has normal priority
        assert "too short" in driven.failed["one"].message
    else:
        assert [one.round for one in driven.slices] == list(range(6))
        assert ("one" in driven.server) == generator.apart
        (load,) = driven.loads  # both nodes are on this machine
        assert load.node == ("a+b" if generator.apart else "a")
        assert load.others > 0.5 * ran / taken


@pytest.mark.parametrize("placement", ["intra", "inter"])
def test_the_congestion_control_of_both_ends_is_known(
    make_deployment: MakeDeployment, tmp_path: Path, placement: Placement
) -> None:
    """A server of HTTP is the sender: what its end has decides."""
    deployment = make_deployment("flannel")
    server = deployment.pair(placement)[1]
    assert isinstance(server, LabPod)
    for route in server.ns.run(["ip", "route", "show"]).stdout.splitlines():
        words = route.partition(" congctl")[0].split()
        server.ns.run(["ip", "route", "replace", *words, "congctl", "reno"])
    with started(deployment, tmp_path, "http", placement, payload=1024) as generator:
        assert generator.congestion_control == "cubic,reno"
