"""What env.json says about NICs: their drivers, and the link speed that their nodes can have."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from cnibench.model import measured
from cnibench.rundir.schema import Record

# Drivers of devices that only virtual machines have. (Bare machines of AWS have ena, too.)
VIRTUAL = frozenset({"virtio_net", "vmxnet3", "hv_netvsc", "xen_netfront", "gve"})
# The fastest link of any card with this driver, in Gbit/s.
_FASTEST = {
    **dict.fromkeys(("e100", "8139too"), 0.1),
    **dict.fromkeys(("e1000", "e1000e", "tg3", "forcedeth", "sky2"), 1),
    **dict.fromkeys(("igb", "igc", "bnx2"), 2.5),
    **dict.fromkeys(("ixgbe", "atlantic", "bnx2x"), 20),
    "i40e": 40,
    "mlx4_en": 56,
}


def contradictions(facts: Record) -> Iterator[str]:
    """Each in words: links that no card with the driver has."""
    for driver, speed in _links(facts):
        if speed < math.inf and speed > _fastest(driver):
            yield f"a NIC with the driver {driver} has no link of {speed / 1e9:g} Gbit/s"


def link_speed(facts: Record) -> float:
    """The fastest that the slower of the nodes' NICs can be, in bit/s; infinite if not known."""
    return min((min(speed, _fastest(driver)) for driver, speed in _links(facts)), default=math.inf)


def drivers(facts: Record) -> Iterator[str]:
    """Of the NICs of the machine that measured."""
    offload = facts.get("offload")
    nics = offload.get("nics") if isinstance(offload, dict) else None
    for nic in nics if isinstance(nics, list) else ():
        if isinstance(nic, dict) and isinstance(nic.get("driver"), str):
            yield nic["driver"]


def _links(facts: Record) -> Iterator[tuple[str, float]]:
    """(driver, speed in bit/s) of the NICs of the nodes; infinite where it is not known."""
    for node in measured.nodes(facts):
        if device := measured.nic(node):
            known = re.fullmatch(r"[1-9]\d{0,8}", str(device.get("speed")))
            yield str(device.get("driver")), int(known[0]) * 1e6 if known else math.inf


def _fastest(driver: str) -> float:
    return _FASTEST.get(driver, math.inf) * 1e9
