"""The listing of a deployment: what the kernel has in each of its namespaces, as lines of text.

Read by netlink, ioctl, /proc and /sys of each namespace, by this thread. Left out are what counts,
what ages and what is drawn at random; indexes of devices and MAC addresses are replaced by the
devices' names, so that two deployments of one profile with the same options give the same text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from cnibench.listing import (
    filters,
    legacy,
    listeners,
    netfilter,
    programs,
    queueing,
    routing,
    settings,
    transforms,
    virtual_servers,
)
from cnibench.listing.devices import Device, addresses, devices, feature_lines, neighbour_settings
from cnibench.listing.namespace import Namespace

Listing = dict[str, list[str]]  # a place's section ('a: routes') to its lines
_MAC = re.compile(r"mac=[0-9a-f:]{17}")


def listing(
    places: Mapping[str, Namespace],
    *,
    left_out: Callable[[str, Device], bool] = lambda place, device: False,
    maps: bool = True,
) -> Listing:
    """Everything of all places, by their names, but for devices that are ``left_out`` and what
    concerns them alone; ``maps``: of eBPF programs the contents of their maps, too. Raises
    ClusterError.
    """
    found: Listing = {}
    owners: dict[str, str] = {}
    for place, ns in places.items():
        with ns.inside():
            present = [device for device in devices() if not left_out(place, device)]
            sections = _sections(ns, present, maps)
        for device in present:
            own = f"{place}:{device.name}"
            owners[device.mac] = "several devices" if device.mac in owners else own
        for section, lines in sections.items():
            found[f"{place}: {section}"] = lines
    for lines in found.values():
        for number, line in enumerate(lines):
            if "mac=" in line:
                lines[number] = _MAC.sub(lambda mac: owners.get(mac[0], mac[0]), line)
    return found


def _sections(ns: Namespace, present: list[Device], maps: bool) -> Listing:
    """Those of the calling thread's namespace, which is ``ns``."""
    names = {device.number: device.name for device in present}
    found: Listing = {
        "devices": sorted(line for device in present for line in device.options),
        "addresses": addresses(names),
        "routes": routing.routes(names),
        "next hops": routing.nexthops(names),
        "routing rules": routing.rules(names),
        "neighbours": routing.neighbours(names) + routing.proxies(names),
        "neighbour settings": neighbour_settings(names),
        "hooks": netfilter.hooks(),
        "listeners": listeners.listeners(names),
        "ipsec": transforms.ipsec(),
        "wireguard": transforms.wireguard(ns, present),
        "translations": transforms.translations(names),
        "flows": transforms.flows(ns, present),
        "virtual servers": virtual_servers.lines(),
        "sysctls": settings.sysctls(),
        "queues": list(settings.queues(ns, sorted(names.values()))),
    }
    found["queueing"], filter_places = queueing.disciplines(names)
    found["offload"] = [line for name in sorted(names.values()) for line in feature_lines(name)]
    at = [*filters.filters(names, filter_places), *programs.attached(present)]
    found["filters"] = [line for line, _ in at]
    found["programs"] = list(programs.program_lines([program for _, program in at], names, maps))
    for part in (netfilter.nftables(), legacy.tables(), netfilter.ipsets()):
        found.update(part)
    return {section: lines for section, lines in found.items() if lines}
