"""Pods whose load generators are controlled by a program on their node (run/slices/on_node.py)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from cnibench.clusters.kubernetes.nodes.conversation import NodeConversation
from cnibench.clusters.kubernetes.nodes.places import KubernetesNode
from cnibench.clusters.kubernetes.pods import background
from cnibench.clusters.kubernetes.pods.background import EnteredPod
from cnibench.clusters.kubernetes.pods.measured import MeasuredPods
from cnibench.testbed.capabilities.pods.controlled import ControlledPods, Conversation
from cnibench.testbed.place import Node, Pod


class PodsControlledOnNodes(MeasuredPods, ControlledPods):
    """Their programs are started by the privileged agents of their nodes."""

    @cached_property
    def _controlled(self) -> dict[str, EnteredPod]:
        """By name."""
        return {}

    def controlled(self, pods: Sequence[Pod]) -> list[Pod]:
        known = [self._pods[pod.name] for pod in pods if pod.name not in self._controlled]
        for pod, entered in zip(
            known, background.enter(self.access, self.namespace, known), strict=True
        ):
            assert isinstance(entered, EnteredPod)
            entered.name = pod.name
            self._controlled[pod.name] = entered
        return [self._controlled[pod.name] for pod in pods]

    def process(self, pod: Pod) -> int:
        assert isinstance(pod, EnteredPod)
        return pod.pid

    def started(self, pod: Pod) -> frozenset[int]:
        assert isinstance(pod, EnteredPod)
        return frozenset(one.pid for one in pod.programs if one.poll() is None)

    def converse(self, node: Node, main: str, archive: bytes) -> Conversation:
        assert isinstance(node, KubernetesNode)
        return NodeConversation(node, main, archive)
