"""The configuration of the kubelets of clusters that cnibench creates."""

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
        # A kubelet looks at its node this often (10 s by default), and each installation or removal
        # of a CNI waits for the result. It still sends an unchanged status every 5 minutes only.
        "nodeStatusUpdateFrequency": "2s",
        "nodeStatusReportFrequency": "5m",
        **more,
    }
