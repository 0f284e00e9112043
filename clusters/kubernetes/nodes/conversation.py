"""Programs of cnibench's own on a node: sent to its agent, asked over the agent's connection."""

from __future__ import annotations

import json
import queue
import time
from typing import Any

from cnibench.clusters.kubernetes.nodes.places import KubernetesNode
from cnibench.clusters.kubernetes.nodes.remote import Answer
from cnibench.errors import ClusterError, LimitError, of_data
from cnibench.system import carried
from cnibench.system.guest import patience
from cnibench.testbed.capabilities.pods.controlled import Conversation

_LOOK = 0.2  # s: how often it is looked whether the program still runs


class NodeConversation(Conversation):
    """Requests and answers are lines of JSON."""

    def __init__(self, node: KubernetesNode, main: str, archive: bytes) -> None:
        """Raises ClusterError."""
        self._node = node
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._rest = b""
        self._answer = Answer(keep=True)
        self._answer.told = self._take
        argv = carried.command(node.python, main)
        self._process = node.gateway.converse(argv, archive, self._answer)

    def ask(self, request: dict[str, Any], timeout: float) -> dict[str, Any]:
        self._process.write(json.dumps(request).encode() + b"\n")
        end = time.monotonic() + timeout * patience()
        while True:
            try:
                line = self._lines.get(timeout=_LOOK)
                break
            except queue.Empty:
                if self._answer.ended.is_set() and self._lines.empty():
                    raise ClusterError(self._died()) from None
                if time.monotonic() > end:
                    raise LimitError(
                        f"node {self._node.name} did not answer within {timeout:.0f} s"
                    ) from None
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise of_data(answer)
        return answer

    def close(self) -> None:
        self._process.kill()

    def _take(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._lines.put(line)

    def _died(self) -> str:
        said = bytes(self._answer.kept[2]).decode(errors="replace") if self._answer.kept else ""
        last = (said.strip().splitlines() or [self._answer.error or "it printed nothing"])[-1]
        return f"cnibench's program on node {self._node.name} has ended: {last[:200]}"
