"""How the kernels of two listings differ, without what others of a live cluster cause:

- devices of other Pods, and what names them
- lines that name the address of another Pod, or of a Service that is not measured
- kube-proxy's rules for the node port of such a Service without endpoints, which have no address
- chains and sets that programs make for one Pod or Service (kube-proxy, the CNI plugins,
  kube-router, Calico), unless they are of what is measured
- connections, learned neighbours and counters, which no listing has; contents of eBPF maps
- sysctls that only one listing has: a module that somebody loads brings its own
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from cnibench.clusters.kubernetes.pods.background import EnteredPod
from cnibench.listing.difference import common, difference, sections_of
from cnibench.listing.listing import Listing
from cnibench.listing.nft import with_blocks

_FILTERS = ("chain ", "set ", "legacy ", "ipset ", "table ", "flowtable ", "object ")
# Names that contain what they are made for: a hash of a Service, an endpoint or a Pod.
_OF_ONE = re.compile(
    r"KUBE-(?:SVC|SVL|SEP|EXT|FW|XLB|POD-FW)-[A-Z2-7]{16}"
    r"|CNI(?:-[A-Z]+)*-[0-9a-f]{16,}"
    r"|(?:service|endpoint|external|firewall)-[A-Z2-7]{8}-[^\s,]+"
)
# pkg/proxy/iptables/proxier.go of Kubernetes: namespace/name is in the comment alone.
_NO_ENDPOINTS = re.compile(r"KUBE-\S+ .*--comment \"\S+ has no endpoints\"")
_ADDRESS = re.compile(r"(?<![\w.:])(?:\d+\.\d+\.\d+\.\d+|[0-9a-f]*:[0-9a-f:]+)(?![\w.])")
_LONG_NAME = 8  # characters: a shorter name of a device may be a part of other words


@dataclass(frozen=True)
class State:
    """``listing`` has the sections of all places, ``texts`` what programs write of their packet
    filters, by place and program. ``pods`` are those that are compared. ``others`` are addresses of
    Pods and Services that are not measured, as far as the API was asked for them; ``left_out`` are
    the devices of such Pods, by node.
    """

    listing: Listing
    texts: Mapping[str, Mapping[str, Sequence[str]]]
    others: frozenset[str]
    left_out: Mapping[str, frozenset[str]]
    pods: tuple[EnteredPod, ...] = ()


def compare(
    before: State, after: State, places: Sequence[str], own: Collection[str]
) -> list[tuple[str, str, str, bool]]:
    """(check, expected, observed, passed) of each place. ``own`` are words that only what is made
    for the measured Pods and Services has.
    """
    others = before.others | after.others
    found = []
    for place in places:
        devices = before.left_out.get(place, frozenset()) | after.left_out.get(place, frozenset())
        lacking, added, count = list[str](), list[str](), 0
        one, other = _parts(before, place), _parts(after, place)
        for section in sorted(one.keys() | other.keys()):
            lines = one.get(section, []), other.get(section, [])
            if section == "sysctls":
                lines = common(*lines)
            first, second = _without_others(*lines, others, devices, own)
            count += len(second)
            if first == second:
                continue
            gone, new = difference(first, second)
            lacking += [f"{section}: {gone}"] * bool(gone)
            added += [f"{section}: {new}"] * bool(new)
        check = f"kernel-state-{place}"
        if lacking or added:
            expected = "; ".join(lacking) or "nothing more than after the installation"
            found.append((check, expected, "; ".join(added) or "not there", False))
        else:
            same = f"as after the installation ({count} lines)"
            found.append((check, "as after the installation", same, True))
    return found


def _parts(state: State, place: str) -> dict[str, list[str]]:
    """The sections of a place; of packet filters what their programs write."""
    found = {
        section: lines
        for section, lines in sections_of(state.listing, place).items()
        if not section.startswith(_FILTERS)
    }
    for program, lines in state.texts.get(place, {}).items():
        found[program] = with_blocks(lines) if program == "nft" else list(lines)
    return found


def _without_others(
    before: Sequence[str],
    after: Sequence[str],
    others: Collection[str],
    devices: Collection[str],
    own: Collection[str],
) -> tuple[list[str], list[str]]:
    """Both without the lines that other Pods and Services cause."""
    named = tuple(name for name in devices if len(name) >= _LONG_NAME)
    short = {name for name in devices if len(name) < _LONG_NAME}
    spaces = [one for one in own if one.endswith("/")]

    def about_us(line: str) -> bool:
        addresses = map(_plain, _ADDRESS.findall(line))
        return any(one in line for one in spaces) or any(one in own for one in addresses)

    ours = {name for line in before if about_us(line) for name in _OF_ONE.findall(line)}

    def keep(line: str) -> bool:
        if any(name not in ours for name in _OF_ONE.findall(line)):
            return False
        if any(name in line for name in named) or short & set(line.split()):
            return False
        if _NO_ENDPOINTS.search(line) and not any(one in line for one in spaces):
            return False
        return not any(_plain(word) in others for word in _ADDRESS.findall(line))

    return [line for line in before if keep(line)], [line for line in after if keep(line)]


def _plain(address: str) -> str:
    """An address as the API writes it."""
    try:
        return str(ipaddress.ip_address(address))
    except ValueError:
        return address
