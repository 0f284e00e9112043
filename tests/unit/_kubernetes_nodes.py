"""Nodes as the API gives them."""

from __future__ import annotations

from typing import Any


def node(
    name: str, *, ready: bool = True, labels: dict[str, str] | None = None, **spec: Any
) -> dict[str, Any]:
    """As the API gives it."""
    addresses = spec.pop("addresses", ["192.0.2.1"])
    return {
        "metadata": {"name": name, "labels": labels or {}},
        "spec": spec,
        "status": {
            "addresses": (
                [{"type": "InternalIP", "address": item} for item in addresses]
                + [{"type": "Hostname", "address": name}]
            ),
            "conditions": [
                {
                    "type": "Ready",
                    "status": "True" if ready else "False",
                    "message": "cni plugin not initialized",
                }
            ],
            "nodeInfo": {
                "operatingSystem": spec.pop("system", "linux"),
                "architecture": spec.pop("arch", "arm64"),
                "kernelVersion": "6.1",
            },
        },
    }


def taint(key: str, effect: str = "NoSchedule", value: str = "") -> dict[str, str]:
    return {"key": key, "effect": effect, **({"value": value} if value else {})}


CONTROL = node(
    "c",
    labels={"node-role.kubernetes.io/control-plane": ""},
    taints=[taint("node-role.kubernetes.io/control-plane")],
)
