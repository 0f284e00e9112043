"""Compares what the kernel has of a deployment with what its profile declares.

The declaration is the profile, its options and the builder. It is carried out a second time, in
namespaces of its own that nothing else touches, and the listing of that reference is what is
expected. A reference is made once for each profile, options and set of Pods, and removed at once.
"""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from cnibench.clusters.lab.listing import netfilter
from cnibench.clusters.lab.listing.listing import Listing, listing
from cnibench.clusters.lab.namespaces.netns import Namespace
from cnibench.model.cell import Attestation

if TYPE_CHECKING:
    from cnibench.clusters.lab.deployment import LabDeployment

_SHOWN = 3  # lines of each side of a difference
_LONGEST = 240  # characters of each
PACKET_FILTERS = ("chain ", "set ", "legacy ", "ipset ", "table ", "flowtable ", "object ")


class _Reference(NamedTuple):
    listing: Listing
    texts: Mapping[str, Mapping[str, Sequence[str]]]  # place to a program to its lines


_references: dict[str, _Reference] = {}


def compare(deployment: LabDeployment) -> list[Attestation]:
    """One attestation for each place: the nodes, the Pods of pairs, namespaces of the datapath.

    Raises ClusterError when the reference cannot be made or a namespace cannot be read.
    """
    there = places(deployment)
    expected = _reference(deployment)
    now = listing(there)
    return [_compared(deployment, place, ns, expected, now) for place, ns in there.items()]


def places(deployment: LabDeployment) -> dict[str, Namespace]:
    """The namespaces that are compared, by their names."""
    found = {node.name: node.ns for node in deployment.nodes()}
    found |= deployment.datapath.namespaces()
    if deployment.datapath.sandbox:
        found |= {pod.name: pod.ns for pod in deployment.attested_pods()}
    return found


def _reference(deployment: LabDeployment) -> _Reference:
    key = "\n".join(
        (
            deployment.profile.model_dump_json(),
            repr(deployment.options),
            deployment.label,
            repr(deployment.services.services),
            *(f"{pod.node.name} {pod.number} {pod.role}" for pod in deployment.made),
        )
    )
    if key not in _references:
        reference = deployment.reference()
        try:
            there = places(reference)
            found = listing(there)
            texts = {
                place: netfilter.texts(ns, sections(found, place)) for place, ns in there.items()
            }
        finally:
            reference.remove()
        _references[key] = _Reference(found, texts)
    return _references[key]


def sections(found: Listing, place: str) -> Listing:
    """Those of one place, by their own names."""
    start = f"{place}: "
    return {key.removeprefix(start): lines for key, lines in found.items() if key.startswith(start)}


def _compared(
    deployment: LabDeployment, place: str, ns: Namespace, expected: _Reference, now: Listing
) -> Attestation:
    declared, present = sections(expected.listing, place), sections(now, place)
    lacking: list[str] = []
    added: list[str] = []
    filters: list[str] = []
    for section in sorted(declared.keys() | present.keys()):
        before, after = declared.get(section, []), present.get(section, [])
        if section == "sysctls":
            before, after = common(before, after)
        if before == after:
            continue
        if section.startswith(PACKET_FILTERS):
            filters.append(section)
            continue
        gone, new = _difference(before, after)
        lacking += [f"{section}: {gone}"] * bool(gone)
        added += [f"{section}: {new}"] * bool(new)
    if filters:
        gone, new = _filters(filters, ns, expected.texts[place], present)
        lacking.append(gone)
        added.append(new)
    check = f"kernel-state-{place.replace(' ', '-')}"
    if not lacking and not added:
        count = sum(map(len, present.values()))
        return deployment.attestation(check, "as declared", f"as declared ({count} lines)", True)
    return deployment.attestation(
        check, "; ".join(lacking) or "nothing more", "; ".join(added) or "not there", False
    )


def common(before: Sequence[str], after: Sequence[str]) -> tuple[list[str], list[str]]:
    """Both without the keys that only one has: a module that somebody loads brings its own."""
    keys = {line.partition(" ")[0] for line in before} & {line.partition(" ")[0] for line in after}
    return (
        [line for line in before if line.partition(" ")[0] in keys],
        [line for line in after if line.partition(" ")[0] in keys],
    )


def _difference(before: Sequence[str], after: Sequence[str]) -> tuple[str, str]:
    """(what is not there, what is there in its place), each with its first lines."""
    gone, new = [], []
    changes = difflib.unified_diff(before, after, lineterm="", n=0)
    for line in itertools.islice(changes, 2, None):  # the first two name the files
        if line.startswith("-"):
            gone.append(line[1:])
        elif line.startswith("+"):
            new.append(line[1:])
    return _shown(gone), _shown(new)


def _shown(lines: Sequence[str]) -> str:
    more = f" and {len(lines) - _SHOWN} more" if len(lines) > _SHOWN else ""
    return " | ".join(line[:_LONGEST] for line in lines[:_SHOWN]) + more


def _filters(
    sections: Sequence[str], ns: Namespace, declared: Mapping[str, Sequence[str]], present: Listing
) -> tuple[str, str]:
    """A difference of packet filters, as their own programs write them."""
    now = netfilter.texts(ns, present)
    gone: list[str] = []
    new: list[str] = []
    for program in sorted(declared.keys() | now.keys()):
        lacking, added = _difference(declared.get(program, []), now.get(program, []))
        gone += [f"{program}: {lacking}"] * bool(lacking)
        new += [f"{program}: {added}"] * bool(added)
    if gone or new:
        return "; ".join(gone) or "nothing more", "; ".join(new) or "not there"
    names = ", ".join(sections[:_SHOWN])
    return f"{names} as declared", f"{names} with other options that the programs do not write"
