"""What is in the way of the lab between two machines: pure functions of what the scripts report."""

from __future__ import annotations

from collections.abc import Iterator

from cnibench.clusters.ssh.inspection.obstacles import claimed, no_address
from cnibench.clusters.ssh.inspection.report import Seen
from cnibench.testbed.cluster import Problem, Wire

_NEEDED = {"ip": "iproute2", "awk": "mawk", "find": "findutils", "sysctl": "procps"}


def problems(machine: str, one: Seen) -> Iterator[Problem]:
    """Of one machine, each with its remedy."""
    for lacks, remedy in _found(one):
        yield Problem("", f"{machine}: {lacks}", remedy)


def _found(one: Seen) -> Iterator[tuple[str, str]]:
    if claim := claimed(one):
        yield claim
    if absent := sorted(_NEEDED.keys() - one.tools):
        packages = " ".join(sorted({_NEEDED[tool] for tool in absent}))
        yield f"not installed: {', '.join(absent)}", f"apt-get install {packages}"
    yield from no_address(one)


def of_nic(machine: str, device: str, seen: Seen, more: Seen, mtu: int) -> Iterator[Problem]:
    """Why its NIC cannot be the wire. ``more`` is what scripts/lab.sh reports."""
    if more["bridged"]:
        yield Problem(
            "",
            f"{machine}: {device} is a port of the bridge {more['bridged']}, and can have no"
            " macvlan device",
            "name the address of another card: ssh://HOST?address=IP",
        )
    if 0 < seen.number("mtu") < mtu:
        yield Problem(
            "",
            f"{machine}: the MTU of {device} is {seen['mtu']}, and {mtu} was asked for",
            f"--mtu {seen['mtu']}, or ip link set dev {device} mtu {mtu}",
        )


def wire(drivers: tuple[str, str], kinds: tuple[str, str]) -> Wire:
    """What joins the machines, by the drivers of their devices ('': none of hardware) and the kinds
    of them that the kernel makes ('': hardware).
    """
    if any(driver.startswith("virtio") for driver in drivers):
        return "virtio"
    return "veth" if "veth" in kinds else "nic"
