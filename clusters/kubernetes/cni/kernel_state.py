"""What the kernels of the nodes have, after the installation and after the measurement.

The listing (cnibench.listing) is made on each node, of its own namespace and of those of the
measured Pods. A live cluster changes meanwhile, and what others cause is left out by these rules:

- devices of other Pods, and what names them
- lines that name the address of another Pod, or of a Service that is not measured
- chains and sets that programs make for one Pod or Service (kube-proxy, the CNI plugins,
  kube-router, Calico), unless they are of what is measured
- connections, learned neighbours and counters, which no listing has; contents of eBPF maps
- sysctls that only one listing has: a module that somebody loads brings its own
"""

from __future__ import annotations

import ipaddress
import re
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cnibench.clusters.kubernetes.api.access import Access, DeniedError
from cnibench.clusters.kubernetes.nodes.conversation import NodeConversation
from cnibench.clusters.kubernetes.nodes.places import KubernetesNode, KubernetesPod
from cnibench.clusters.kubernetes.pods import background
from cnibench.clusters.kubernetes.pods.background import EnteredPod
from cnibench.listing import on_node
from cnibench.listing.difference import common, difference, sections_of
from cnibench.listing.listing import Listing
from cnibench.system import carried

_LIMIT = 60.0  # s for the listing of a node
_LOOKS = 3
_LASTS = 2.0  # s between two of them
_FILTERS = ("chain ", "set ", "legacy ", "ipset ", "table ", "flowtable ", "object ")
# Names that contain what they are made for: a hash of a Service, an endpoint or a Pod.
_OF_ONE = re.compile(
    r"KUBE-(?:SVC|SVL|SEP|EXT|FW|XLB|POD-FW)-[A-Z2-7]{16}"
    r"|CNI(?:-[A-Z]+)*-[0-9a-f]{16,}"
    r"|(?:service|endpoint|external|firewall)-[A-Z2-7]{8}-[^\s,]+"
)
_ADDRESS = re.compile(r"(?<![\w.:])(?:\d+\.\d+\.\d+\.\d+|[0-9a-f]*:[0-9a-f:]+)(?![\w.])")
_ELEMENTS, _ELEMENT = "elements = {", re.compile(r'(?:[^,"]|"[^"]*")+')
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


def first_look(
    access: Access, namespace: str, nodes: Sequence[KubernetesNode], pods: Sequence[KubernetesPod]
) -> State:
    """As it is now; of the Pods those that have a network of their own. Raises ClusterError,
    LimitError.
    """
    own = [pod for pod in pods if pod.interface]
    entered = [
        pod for pod in background.enter(access, namespace, own) if isinstance(pod, EnteredPod)
    ]
    return replace(_look(nodes, entered), others=_others(access, nodes, entered))


def _look(nodes: Sequence[KubernetesNode], entered: Sequence[EnteredPod]) -> State:
    """Without a request to the API: over the connections that the agents keep."""
    listing: Listing = {}
    texts: dict[str, Mapping[str, Sequence[str]]] = {}
    left_out: dict[str, frozenset[str]] = {}
    archive = carried.archive(on_node.MODULES)
    for node in nodes:
        places = {node.name: 1} | {pod.pod: pod.pid for pod in entered if pod.node is node}
        request = {"places": places, "node": node.name, "device": node.device}
        conversation = NodeConversation(node, "cnibench.listing.on_node", archive)
        try:
            found = conversation.ask(request, _LIMIT)
        finally:
            conversation.close()
        listing |= found["listing"]
        texts |= found["texts"]
        left_out[node.name] = frozenset(found["left_out"])
    return State(listing, texts, frozenset(), left_out, tuple(entered))


def changes(
    access: Access, namespace: str, nodes: Sequence[KubernetesNode], before: State
) -> list[tuple[str, str, str, bool]]:
    """What changed since, as ``compare`` has it. A difference counts if it lasts: agents write in
    several steps. The API is asked for the Pods and Services of others only where there is one.
    Raises ClusterError, LimitError.
    """
    places = [*(node.name for node in nodes), *(pod.pod for pod in before.pods)]
    own = [f"{namespace}/", *(a for pod in before.pods for a in pod.addresses.values())]
    others: frozenset[str] = frozenset()
    for left in range(_LOOKS - 1, -1, -1):
        after = _look(nodes, before.pods)
        found = compare(before, replace(after, others=others), places, own)
        if not _alike(found):
            others |= _others(access, nodes, before.pods)
            found = compare(before, replace(after, others=others), places, own)
        if _alike(found):
            break
        if left:
            time.sleep(_LASTS)
    return found


def _alike(found: Sequence[tuple[str, str, str, bool]]) -> bool:
    return all(passed for *_, passed in found)


def _others(
    access: Access, nodes: Sequence[KubernetesNode], pods: Sequence[KubernetesPod]
) -> frozenset[str]:
    """Addresses of all Pods but those on their node's network, and of all Services; not those of
    these Pods and nodes.
    """
    found: set[str] = set()
    for pod in access.listed("pods"):
        if not pod["spec"].get("hostNetwork"):
            status: Mapping[str, Any] = pod.get("status", {})
            found |= {item["ip"] for item in status.get("podIPs") or () if item.get("ip")}
    try:
        services = access.listed("services")
    except DeniedError:  # said before the run
        services = []
    for service in services:
        spec = service["spec"]
        found |= set(spec.get("clusterIPs") or ()) | set(spec.get("externalIPs") or ())
    measured = {address for pod in pods for address in pod.addresses.values()}
    measured |= {address for node in nodes for address in node.addresses.values()}
    return frozenset(found - measured - {"None", ""})


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
        found[program] = _with_blocks(lines) if program == "nft" else list(lines)
    return found


def _with_blocks(lines: Sequence[str]) -> list[str]:
    """Each line of 'nft list ruleset' with the names of the table and the chain, set or map that it
    is in; of sets and maps each element is a line.
    """
    found, blocks, elements = list[str](), list[str](), ""
    for line in map(str.strip, lines):
        if elements or line.startswith(_ELEMENTS):
            elements = f"{elements} {line}".strip()
            if line.endswith("}"):
                found += [": ".join([*blocks, one]) for one in _elements(elements)]
                elements = ""
            continue
        if line == "}":
            del blocks[-1:]
        else:
            found.append(": ".join([*blocks, line.removesuffix("{").strip()]))
        if line.endswith("{"):
            blocks.append(line.removesuffix("{").strip())
    return found


def _elements(text: str) -> list[str]:
    """Of a set or map, in an order of their own: that of the kernel depends on all of them."""
    inner = text.removeprefix(_ELEMENTS).removesuffix("}")
    return sorted(one.strip() for one in _ELEMENT.findall(inner) if one.strip())


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
        return not any(_plain(word) in others for word in _ADDRESS.findall(line))

    return [line for line in before if keep(line)], [line for line in after if keep(line)]


def _plain(address: str) -> str:
    """An address as the API writes it."""
    try:
        return str(ipaddress.ip_address(address))
    except ValueError:
        return address
