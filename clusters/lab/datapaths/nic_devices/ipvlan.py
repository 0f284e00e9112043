"""``ipvlan``: each Pod has a device of its own on the node's wire, with the wire's MAC address; the
kernel sorts packets by IP address. No rules, no bridge, no tunnel.

Follows the reference plugin ``ipvlan`` in its default mode ``l2`` (containernetworking/plugins
v1.9.1 plugins/main/ipvlan/ipvlan.go): Pods of a node reach each other inside the kernel, others
over the wire; the node itself cannot reach its Pods by them.
"""

from __future__ import annotations

from typing import Any

from cnibench.clusters.lab.datapaths.nic_devices.macvlan import Macvlan
from cnibench.clusters.lab.namespaces.places import LabPod

_L2 = 0  # IPVLAN_MODE_L2 (linux/if_link.h)


class Ipvlan(Macvlan):
    """Devices of kind ipvlan, mode l2."""

    name = "ipvlan"
    needs = ("ipvlan",)

    def _options(self, pod: LabPod) -> dict[str, Any]:
        return {"ipvlan_mode": _L2}
