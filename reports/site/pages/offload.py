"""What the NICs do for tunnels, as the runs stored it, and which of the measured profiles that
suits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from cnibench.model.profile import Profile
from cnibench.offload import facts, tunnel_support
from cnibench.reports.document.parts import Table
from cnibench.reports.site.dataset import Material


@dataclass(frozen=True)
class Offload:
    """One machine's NICs; ``runs`` are those that stored the same. ``wires`` are the wires that the
    measured traffic crossed.
    """

    runs: list[str]
    wires: str
    nics: Table
    tunnels: Table
    profiles: Table
    notes: list[str]


def views(material: Material) -> list[Offload]:
    """One for each distinct answer; none where no run stored any."""
    known: dict[str, tuple[Mapping[str, Any], list[int]]] = {}
    for number, run in enumerate(material.runs):
        stored = run.alone.environment.get("offload")
        if isinstance(stored, Mapping) and _whole(stored):
            known.setdefault(repr(stored), (stored, []))[1].append(number)
    return [_view(material, stored, numbers) for stored, numbers in known.values()]


def _whole(stored: Mapping[str, Any]) -> bool:
    """Is all there that a page shows? Runs are data, and may be anybody's."""
    try:
        names = {tunnel.name for tunnel in tunnel_support.TUNNELS}
        return (
            all(
                {"node", "name", "driver", "firmware", "underlay", "problem"} <= set(nic)
                for nic in stored["nics"]
            )
            and all(
                tunnel_support.Verdict(**one).outcome in tunnel_support.ORDER
                and one["tunnel"] in names
                for one in stored["tunnels"]
            )
            and len(stored["nics"]) == len(stored["other"])
            and all({"checksum", "scaling"} <= set(one) for one in stored["other"])
        )
    except (KeyError, TypeError):
        return False


def _view(material: Material, stored: Mapping[str, Any], numbers: list[int]) -> Offload:
    nics = [
        [
            f"{nic['name']} of {nic['node']}",
            str(nic["driver"] or nic["problem"]),
            str(nic["firmware"] or "not reported"),
            "yes" if nic["underlay"] else "no",
            str(other["checksum"]),
            str(other["scaling"]),
        ]
        for nic, other in zip(stored["nics"], stored["other"], strict=True)
    ]
    tunnels = [
        [
            tunnel_support.tunnel(one["tunnel"]).title,
            f"{one['nic']} of {one['node']}",
            one["outcome"],
            one["reason"],
            one["command"] or "-",
        ]
        for one in stored["tunnels"]
    ]
    wires = sorted(
        {result.wire for number in numbers for result in material.runs[number].alone.results}
    )
    notes = [
        str(note)
        for note in [*stored.get("asymmetries", ()), *stored.get("notes", ())]
        if "--all" not in str(note)
    ]
    return Offload(
        [material.runs[number].id for number in numbers],
        ", ".join(wires),
        Table(
            ["NIC", "driver", "firmware", "reaches other nodes", "checksums", "receive queues"],
            nics,
            numbers=False,
        ),
        Table(["tunnel", "NIC", "outcome", "why", "turn it on"], tunnels, numbers=False),
        Table(
            ["profile", "place", "tunnel", "on these NICs"],
            _profiles(material, stored, numbers),
            numbers=False,
        ),
        notes,
    )


def _profiles(material: Material, stored: Mapping[str, Any], numbers: list[int]) -> list[list[str]]:
    known: dict[str, Profile] = {}
    for number in numbers:
        for label, item in material.readers[number].plan.profiles.items():
            try:
                known[material.names.text(label)] = Profile.model_validate(item)
            except ValidationError:  # of another version, or invented: it cannot be placed
                continue
    return [
        [
            one.profile,
            str(one.place),
            tunnel_support.tunnel(one.tunnel).title if one.tunnel else "none",
            one.outcome,
        ]
        for one in facts.ranked(stored, known)
    ]
