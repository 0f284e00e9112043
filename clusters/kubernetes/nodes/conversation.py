"""Programs of cnibench's own on a node: sent to its agent, asked over the agent's connection."""

from __future__ import annotations

import json
import math
import queue
import time
from collections.abc import Sequence
from typing import Any

from cnibench.clusters.kubernetes.connection.gateway import Gateway
from cnibench.clusters.kubernetes.connection.remote import Answer
from cnibench.clusters.kubernetes.nodes.places import KubernetesNode
from cnibench.errors import ClusterError, LimitError, of_data
from cnibench.system import carried
from cnibench.system.guest import patience
from cnibench.testbed.capabilities.pods.controlled import Conversation

_LOOK = 0.2  # s: how often it is looked whether the program still runs


class ProgramConversation(Conversation):
    """With a program that a gateway starts. Requests and answers are lines of JSON."""

    def __init__(
        self, name: str, gateway: Gateway, argv: Sequence[str], given: bytes = b""
    ) -> None:
        """``name`` is the node's; ``given`` what the program reads first. Raises ClusterError."""
        self._name = name
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._rest = b""
        self._asked = 0
        self._answer = Answer(keep=True)
        self._answer.told = self._take
        self._process = gateway.converse(argv, given, self._answer)

    def ask(
        self, request: dict[str, Any], timeout: float, silence: float = math.inf
    ) -> dict[str, Any]:
        self._asked += 1
        asked = {**request, "number": self._asked}
        self._process.write(json.dumps(asked).encode() + b"\n")
        end = time.monotonic() + timeout * patience()
        while True:
            answer = self._next(min(end, time.monotonic() + silence * patience()))
            if answer.pop("number", None) == self._asked:  # others are late answers
                if "error" in answer:
                    raise of_data(answer)
                return answer
            if time.monotonic() > end:
                raise self._late(timeout)

    def _next(self, end: float) -> dict[str, Any]:
        asked = time.monotonic()
        while True:
            try:
                found: dict[str, Any] = json.loads(self._lines.get(timeout=_LOOK))
                return found
            except queue.Empty:
                if self._answer.ended.is_set() and self._lines.empty():
                    raise ClusterError(self._died()) from None
                if time.monotonic() > end:
                    raise self._late(end - asked) from None

    def _late(self, seconds: float) -> LimitError:
        return LimitError(f"node {self._name} did not answer within {seconds:.0f} s")

    @property
    def ended(self) -> bool:
        """Has the program ended, or its connection?"""
        return self._answer.ended.is_set()

    def close(self) -> None:
        self._process.kill()

    def _take(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._lines.put(line)

    def _died(self) -> str:
        said = bytes(self._answer.kept[2]).decode(errors="replace") if self._answer.kept else ""
        last = (said.strip().splitlines() or [self._answer.error or "it printed nothing"])[-1]
        return f"cnibench's program on node {self._name} has ended: {last[:200]}"


class NodeConversation(ProgramConversation):
    """With a module of an archive that is sent to a node's agent (system/carried.py)."""

    def __init__(self, node: KubernetesNode, main: str, archive: bytes) -> None:
        """Raises ClusterError."""
        super().__init__(node.name, node.gateway, carried.command(node.python, main), archive)
