"""What the kubelets of clusters that cnibench makes are told."""

from __future__ import annotations

from typing import Any

# of a node: qi2021 has 99 background Pods on one, beside those of the cluster; as many as a /24 has
# addresses for
_MOST_PODS = 250


def configuration(**more: Any) -> dict[str, Any]:
    """A KubeletConfiguration, with ``more`` settings."""
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "maxPods": _MOST_PODS,
        # How soon the API server hears that a node has a CNI, or none any more: every 10 s by
        # default, and each installation waits for it. A status that is the same is not sent more
        # often.
        "nodeStatusUpdateFrequency": "2s",
        "nodeStatusReportFrequency": "5m",
        **more,
    }
