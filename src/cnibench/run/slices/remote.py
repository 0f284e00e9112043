"""Load generators on other machines. The programs of client and server are started over the
connection to their nodes; a program of ours on the client's node (on_node.py) pauses, continues and
counts them, so that no slice waits for a round trip.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import msgspec

from cnibench.errors import UnsupportedError, of_data
from cnibench.model.cell import Priority
from cnibench.run.checks.node_load import Usage, node_loads
from cnibench.run.sample_context import SampleContext
from cnibench.run.slices import on_node
from cnibench.run.slices.engine import LEAD_IN, LENGTH, Driven
from cnibench.run.slices.generator import Generator
from cnibench.run.slices.lifetime import Lifetime
from cnibench.run.slices.load import FOR_EVER, Load
from cnibench.run.slices.running import joined
from cnibench.run.slices.slice import Slice
from cnibench.system import carried
from cnibench.system.process import Process
from cnibench.system.usage import Share
from cnibench.testbed.capabilities.pods.controlled import ControlledPods, Conversation
from cnibench.testbed.place import Node

_LIMIT = 30.0  # s for an answer
_MAIN = "cnibench.run.slices.on_node"


class Controllers:
    """Our program on each node, started when it is needed first. ``with`` ends all of them."""

    def __init__(self) -> None:
        self._running: dict[tuple[int, str], Conversation] = {}

    def on(self, deployment: ControlledPods, node: Node) -> Conversation:
        key = (id(deployment), node.name)
        if key not in self._running:
            archive = carried.archive(on_node.MODULES)
            self._running[key] = deployment.converse(node, _MAIN, archive)
        return self._running[key]

    def __enter__(self) -> Controllers:
        return self

    def __exit__(self, *error: object) -> None:
        with ExitStack() as ending:  # all of them, whatever one raises
            while self._running:
                ending.callback(self._running.popitem()[1].close)


class RemoteGenerator(Lifetime):
    """One cell's load. ``with`` starts it, paused, and ends all of it. Raises CnibenchError when it
    does not start. The Pods of ``s`` are controlled ones.
    """

    def __init__(self, cell: str, s: SampleContext, load: Load, controllers: Controllers) -> None:
        """``cell`` is its ID, which may differ from that of ``s``."""
        self.cell = cell
        self.s = replace(s, duration=FOR_EVER, warmup=0.0)
        self.load = load
        self.priority = ""  # why it has no real-time priority that it should have, '' otherwise
        self.congestion_control = ""
        assert isinstance(s.deployment, ControlledPods)
        self._pods: ControlledPods = s.deployment
        usual: Priority = "real-time" if self._pods.real_time else "normal"
        self.wanted: Priority = s.cell.priority or usual
        self.client = controllers.on(self._pods, s.client.node)
        self.server = controllers.on(self._pods, s.server.node)
        self._running = ExitStack()
        self._process: Process | None = None

    @property
    def apart(self) -> bool:
        """Are client and server on two nodes?"""
        return self.client is not self.server

    def end(self) -> None:
        try:
            self._end(self._running.close)
        finally:
            if self._process is not None:
                self._end(self._process.kill)

    def _start(self) -> None:
        cell, s = self.cell, self.s
        before = self._pods.started(s.server)
        self._running.enter_context(self.load.serve(s))
        servers = sorted(self._pods.started(s.server) - before)
        if self.apart and self.load.at_server:
            raise UnsupportedError(
                "its work is counted on the server's node, which is another machine",
                "use --method windows for it",
            )
        counted = self.load.counted(s)
        counter = self.load.counter(s)
        self.client.ask(
            {
                "do": "count",
                "cell": cell,
                "process": self._pods.process(counted),
                "kind": counter.kind,
                "arguments": counter.arguments,
            },
            _LIMIT,
        )
        self._process = self.load.start(s)
        leader = self._process.pid
        begin = {
            "do": "begin",
            "cell": cell,
            "leader": leader,
            "unit": self.load.units(1, s),
            "wanted": self.wanted,
        }
        ends = [self.client.ask(begin, _LIMIT)]
        if port := self.load.data_port(s):
            process = self._pods.process(s.server)
            seen = {"do": "seen", "process": process, "port": port, "ip": s.cell.ip}
            ends.append(self.server.ask(seen, _LIMIT))
        self.congestion_control = joined(one["congestion_control"] for one in ends)
        take = {
            "do": "take",
            "cell": cell,
            "leader": leader,
            "servers": [] if self.apart else servers,
            "cpus": [s.client_cpu, None if self.apart else s.server_cpu],
        }
        self.priority = self.client.ask(take, _LIMIT)["priority"]
        if self.apart:
            there = {
                "do": "serve",
                "cell": cell,
                "servers": servers,
                "wanted": self.wanted,
                "cpu": s.server_cpu,
            }
            refused = self.server.ask(there, _LIMIT)["priority"]
            self.priority = self.priority or refused


AnyGenerator = Generator | RemoteGenerator


def drive_remotely(
    generators: Mapping[str, RemoteGenerator], rounds: int, block: int, seed: int
) -> Driven:
    """As engine.drive, on the node of the clients, which is one for all. Of servers on other nodes
    the CPU time of all turns together is known: ``server`` of Driven. So is what other programs
    used on both nodes: ``loads``.
    """
    client = next(iter(generators.values())).client
    apart = {cell: one.server for cell, one in generators.items() if one.apart}
    nodes = {
        conversation: pod.node.name
        for one in generators.values()
        for conversation, pod in ((one.client, one.s.client), (one.server, one.s.server))
    }
    before, used = _times(apart.values()), _used(nodes)
    request: dict[str, Any] = {
        "do": "drive",
        "cells": sorted(generators),
        "rounds": rounds,
        "block": block,
        "seed": seed,
        "length": LENGTH,
        "lead_in": LEAD_IN,
    }
    limit = _LIMIT + 10 * rounds * len(generators) * (LENGTH + LEAD_IN)
    answer = client.ask(request, limit, silence=_LIMIT)
    after, used_then = _times(apart.values()), _used(nodes)
    driven = Driven(
        slices=msgspec.convert(answer["slices"], list[Slice]),
        failed={cell: of_data(told) for cell, told in answer["failed"].items()},
        began=answer["began"],
        wall=answer["wall"],
        control=answer["control"],
        share=msgspec.convert(answer["share"], Share),
        priority=answer["priority"],
        cpus=answer["cpus"],
        user={cell: one for cell, one in answer["user"].items() if cell not in apart},
    )
    if not driven.failed:  # of a load that has ended nobody knows what it used
        readings = [
            _usage(name, str(number), used[one], used_then[one])
            for number, (one, name) in enumerate(nodes.items())
        ]
        driven.loads = node_loads(readings, set(nodes.values()))
    for cell in apart:
        driven.slices = [
            replace(one, server=None) if one.cell == cell else one for one in driven.slices
        ]
        if units := answer["units"].get(cell):
            driven.server[cell] = (after[cell] - before[cell]) / 1e9 / units
    return driven


def _times(servers: Any) -> dict[str, int]:
    """ns of CPU time of each cell's server."""
    found: dict[str, int] = {}
    for conversation in dict.fromkeys(servers):
        found |= conversation.ask({"do": "time"}, _LIMIT)
    return found


def _used(nodes: Iterable[Conversation]) -> dict[Conversation, dict[str, Any]]:
    """What the programs of each node have used by now (Controller.used)."""
    return {one: one.ask({"do": "used"}, _LIMIT) for one in nodes}


def _usage(node: str, tree: str, one: Mapping[str, Any], other: Mapping[str, Any]) -> Usage:
    seconds = max(other["at"] - one["at"], 1e-9)
    used, own = ((other[what] - one[what]) / seconds for what in ("used", "own"))
    return Usage(node, one["kernel"], tree, one["cpus"], used, own)
