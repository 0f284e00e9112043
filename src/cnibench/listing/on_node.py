"""Program: lists what the kernel of a node has, in its own network namespace and in those of Pods.
It is sent to the agent there (system/carried.py). Standard library only.

One request, a line of JSON: {number, places: name to a process that has the namespace, node: the
name of the node's own, device: the one that has its address}. The answer has the same number, the
listing, the texts of the packet filters' programs for each place, and the names of the devices that
were left out.

Left out are the node's ends of devices of Pods that are not among the places: other Pods come and
go.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from cnibench.errors import ClusterError, CnibenchError, as_data
from cnibench.listing import netfilter
from cnibench.listing.devices import Device, devices
from cnibench.listing.difference import sections_of
from cnibench.listing.listing import listing
from cnibench.system import namespaces
from cnibench.system import process as programs

MODULES = (
    "errors",
    "listing.devices",
    "listing.difference",
    "listing.dumps",
    "listing.filters",
    "listing.legacy",
    "listing.listeners",
    "listing.listing",
    "listing.namespace",
    "listing.netfilter",
    "listing.on_node",
    "listing.programs",
    "listing.queueing",
    "listing.routing",
    "listing.settings",
    "listing.transforms",
    "listing.virtual_servers",
    "system.bpf",
    "system.ethtool",
    "system.files",
    "system.guest",
    "system.log",
    "system.namespaces",
    "system.process",
    "system.text",
)
_OF_PODS = ("veth", "netkit")


class OfProcess:
    """The network namespace of a process. Raises ClusterError when it has ended."""

    def __init__(self, process: int) -> None:
        try:
            self.fd = os.open(f"/proc/{process}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            raise ClusterError(
                f"process {process} has ended, whose network is listed",
                "has its Pod started again? kubectl get pods",
            ) from None
        self.sysfs: int | None = None

    @contextmanager
    def inside(self) -> Iterator[None]:
        with namespaces.inside(self.fd):
            yield

    def run(self, argv: Sequence[str], *, timeout: float = 20, check: bool = True) -> programs.Done:
        with self.inside():
            return programs.run(argv, timeout=timeout, check=check)


def answer(places: dict[str, int], node: str, device: str) -> dict[str, object]:
    """The listing of all places."""
    entered = {name: OfProcess(process) for name, process in places.items()}
    ends = set()
    for name, ns in entered.items():
        if name != node:
            with ns.inside():
                ends |= {device.peer for device in devices() if device.peer}
    left_out: set[str] = set()

    def stranger(place: str, one: Device) -> bool:
        found = (
            place == node
            and one.kind in _OF_PODS
            and one.peer != 0
            and one.number not in ends
            and one.name != device
        )
        if found:
            left_out.add(one.name)
        return found

    found = listing(entered, left_out=stranger, maps=False)
    texts = {name: netfilter.texts(ns, sections_of(found, name)) for name, ns in entered.items()}
    return {"listing": found, "texts": texts, "left_out": sorted(left_out)}


def main() -> None:
    """Until its input ends."""
    for line in sys.stdin:
        request = json.loads(line)
        number = request.pop("number", 0)
        found: dict[str, Any]
        try:
            found = answer(**request)
        except CnibenchError as error:
            found = as_data(error)
        except OSError as error:
            found = as_data(ClusterError(f"the kernel's state cannot be listed: {error}"))
        print(json.dumps({**found, "number": number}), flush=True)


if __name__ == "__main__":
    main()
