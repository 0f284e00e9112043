"""What an agent made against what the model made: two listings, as differences in words of the
kernel and of the packet filters' own programs.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence

from cnibench.certificates.format import Difference
from cnibench.clusters.lab.attestation.comparison import PACKET_FILTERS, places
from cnibench.clusters.lab.deployment import LabDeployment
from cnibench.clusters.lab.fidelity import drawn_chains
from cnibench.listing import netfilter
from cnibench.listing.difference import common, sections_of
from cnibench.listing.listing import Listing, listing

# Whose lines have an order that the kernel keeps; those of other sections are sorted again, as
# names and addresses that both sides draw differ until they are replaced.
_ORDERED = ("routing rules", "hooks", "programs", "filters")


def compare(
    model: LabDeployment, made: LabDeployment, chains: str
) -> tuple[list[Difference], int, dict[str, str]]:
    """(the differences in all places, the number of lines that the model's side has, the names of
    chains that the agent drew with the model's); ``chains`` is the adapter's. Raises ClusterError.
    """
    expected, found = (_of(deployment) for deployment in (model, made))
    drawn = _ports(model, made), _addresses(model, made)
    names = drawn_chains.names(chains, expected, found)
    return differences(expected, found, *drawn, chains), sum(map(len, expected.values())), names


def _of(deployment: LabDeployment) -> Listing:
    """The listing of all places; packet filters as their programs write them where those say all
    of it.
    """
    there = places(deployment)
    found = listing(there)
    kept = {
        key: lines
        for key, lines in found.items()
        if not key.partition(": ")[2].startswith(PACKET_FILTERS)
    }
    for place, ns in there.items():
        for program, lines in netfilter.texts(ns, sections_of(found, place)).items():
            kept[f"{place}: {program}"] = lines
    return kept


def _ports(model: LabDeployment, made: LabDeployment) -> dict[str, dict[str, str]]:
    """Of each node, the names that a plugin drew for the ends of veth pairs, and the model's."""
    known = {pod.name: pod.host_end for pod in model.pods()}
    return {
        node.name: {
            pod.host_end: known[pod.name]
            for pod in made.pods()
            if pod.node is node and pod.host_end != known[pod.name]
        }
        for node in made.nodes()
    }


def _addresses(model: LabDeployment, made: LabDeployment) -> dict[str, str]:
    """Those that the agent gave the Pods, where they are others than the model's."""
    known = {pod.name: pod.addresses for pod in model.pods()}
    return {
        address: known[pod.name][family]
        for pod in made.pods()
        for family, address in pod.addresses.items()
        if address != known[pod.name][family]
    }


def differences(
    expected: Listing,
    found: Listing,
    ports: Mapping[str, Mapping[str, str]],
    addresses: Mapping[str, str],
    chains: str = "",
) -> list[Difference]:
    """Pure: ``ports`` maps the names of devices on a node to those that the model gives them,
    ``addresses`` those of Pods, and ``chains`` is the pattern of Adapter.chains.
    """
    expected, found = drawn_chains.as_expected(chains, expected, found)
    found = {key: list(_renamed(lines, key, ports, addresses)) for key, lines in found.items()}
    result = []
    for key in sorted(expected.keys() | found.keys()):
        place, _, part = key.partition(": ")
        before, after = expected.get(key, []), found.get(key, [])
        if part == "sysctls":
            before, after = common(before, after)
        if part not in _ORDERED and not part.endswith("-save"):
            before, after = sorted(before), sorted(after)
        gone, new = _changes(before, after)
        if gone or new:
            result.append(Difference(place=place, part=part, expected=gone, found=new))
    return result


def _renamed(
    lines: Sequence[str],
    key: str,
    ports: Mapping[str, Mapping[str, str]],
    addresses: Mapping[str, str],
) -> Iterator[str]:
    place = key.partition(": ")[0]
    names = ports.get(place, {})
    known = {**names, **addresses}
    for node, one in ports.items():
        known |= {f"{node}:{drawn}": f"{node}:{name}" for drawn, name in one.items()}
    longest = sorted(known, key=len, reverse=True)
    pattern = re.compile("|".join(rf"\b{re.escape(name)}\b" for name in longest) or "$^")
    for line in lines:
        yield pattern.sub(lambda match: known[match[0]], line)


def _changes(before: Sequence[str], after: Sequence[str]) -> tuple[list[str], list[str]]:
    gone, new = [], []
    for line in list(difflib.unified_diff(before, after, lineterm="", n=0))[2:]:
        if line.startswith("-"):
            gone.append(line[1:])
        elif line.startswith("+"):
            new.append(line[1:])
    return gone, new
