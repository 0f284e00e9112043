"""Pod creation as in qi2021: Pods are made on one node, one at a time or all at once, each step of
each timed, and removed again.

In the lab a Pod's start is what a datapath's builder does for it: namespace, veth pair, addresses,
routes, rules or map entries, until a TCP connection reaches it. There is no API server, no kubelet
and no container runtime in it, so the totals are not those of a cluster; on a cluster all of them
are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pydantic import Field

from cnibench.errors import MeasureError
from cnibench.model.cell import Cell
from cnibench.model.profile import Strict
from cnibench.run.sample_context import Measurements, SampleContext
from cnibench.run.task import Task
from cnibench.run.workload import Workload
from cnibench.system.process import Process
from cnibench.testbed.capabilities.pods.lifecycle import PodLifecycle, Started


class Params(Strict):
    """``count`` Pods, ``at_once`` or each when the one before is ready."""

    count: int = Field(default=1, ge=1, le=200)
    at_once: bool = False


class Pods(Workload):
    name = "pods"
    title = "Pod creation"
    tools = {}
    needs = (PodLifecycle,)
    Params = Params
    primary = "pod_network"
    cpp = False
    noise = 0.1  # a few short events a sample; nobody published repeats of it
    collected = False
    several = False

    def __init__(self) -> None:
        self._made: list[Started] = []

    def seconds(self, params: Mapping[str, Any], duration: float, warmup: float) -> float:
        return 0.0

    def pods(self, cell: Cell) -> int:
        return int(cell.params["count"])

    @contextmanager
    def serve(self, s: SampleContext) -> Iterator[None]:
        """The Pods are gone when the block is left."""
        self._made = []
        try:
            yield
        finally:
            PodLifecycle.of(s.deployment).remove_pods([one.pod for one in self._made])

    def warm_up(self, s: SampleContext) -> None:
        """One Pod, so that what is done for the first one alone (an import, a module) is not
        measured.
        """
        deployment = PodLifecycle.of(s.deployment)
        deployment.remove_pods([one.pod for one in deployment.start_pods(s.server.node, 1, False)])

    def start(self, s: SampleContext) -> Process:
        self._made = PodLifecycle.of(s.deployment).start_pods(
            s.server.node, s.cell.params["count"], s.cell.params["at_once"]
        )
        return Task("start-pods")

    def measurements(self, s: SampleContext) -> Measurements:
        """Means over the Pods: ``pod_ready`` until the first packet is through, ``pod_network`` the
        CNI's part; the steps as records.
        """
        if len(self._made) != s.cell.params["count"]:
            raise MeasureError(f"{len(self._made)} of {s.cell.params['count']} Pods were made")
        found = Measurements()
        found.add("pod_ready", sum(one.ready for one in self._made) / len(self._made))
        found.add("pod_network", sum(one.network for one in self._made) / len(self._made))
        if s.cell.params["at_once"]:
            found.add("pod_ready", max(one.ready for one in self._made), of="last")
        for number, one in enumerate(self._made):
            steps = [{"step": step, "seconds": seconds} for step, seconds in one.steps]
            found.records.append(
                (
                    "pods",
                    {
                        "number": number,
                        "pod": one.pod.name,
                        "ready": one.ready,
                        "network": one.network,
                        "steps": steps,
                    },
                )
            )
        return found


PROVIDER = Pods()
