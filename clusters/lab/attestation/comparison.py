"""Compares what the kernel has of a deployment with what its profile declares.

The declaration is the profile, its options and the builder. It is carried out a second time, in
namespaces of its own that nothing else touches, and the listing of that reference is what is
expected. A reference is made once for each profile, options and set of Pods, and removed at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from cnibench.clusters.lab.namespaces.netns import Namespace
from cnibench.listing import netfilter
from cnibench.listing.difference import SHOWN, common, difference, sections_of
from cnibench.listing.listing import Listing, listing
from cnibench.model.cell import Attestation

if TYPE_CHECKING:
    from cnibench.clusters.lab.deployment import LabDeployment

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
                place: netfilter.texts(ns, sections_of(found, place)) for place, ns in there.items()
            }
        finally:
            reference.remove()
        _references[key] = _Reference(found, texts)
    return _references[key]


def _compared(
    deployment: LabDeployment, place: str, ns: Namespace, expected: _Reference, now: Listing
) -> Attestation:
    declared, present = sections_of(expected.listing, place), sections_of(now, place)
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
        gone, new = difference(before, after)
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


def _filters(
    sections: Sequence[str], ns: Namespace, declared: Mapping[str, Sequence[str]], present: Listing
) -> tuple[str, str]:
    """A difference of packet filters, as their own programs write them."""
    now = netfilter.texts(ns, present)
    gone: list[str] = []
    new: list[str] = []
    for program in sorted(declared.keys() | now.keys()):
        lacking, added = difference(declared.get(program, []), now.get(program, []))
        gone += [f"{program}: {lacking}"] * bool(lacking)
        new += [f"{program}: {added}"] * bool(added)
    if gone or new:
        return "; ".join(gone) or "nothing more", "; ".join(new) or "not there"
    names = ", ".join(sections[:SHOWN])
    return f"{names} as declared", f"{names} with other options that the programs do not write"
