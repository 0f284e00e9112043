"""What this machine's NICs do for tunnels, as plain values: for ``cnibench offload``, and for
env.json, which the site shows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cnibench.model.profile import Profile
from cnibench.offload import rank, reading, tunnel_support
from cnibench.offload.nic import Nic

LIMITS = (
    "a feature that is on is necessary, not sufficient: the driver decides for each packet, and"
    " does not report it. 'cnibench offload --verify' measures it."
)
_USUAL_PORTS = (
    8472,
    4789,
)  # of flannel and Cilium (Linux's old default), and IANA's, which the others use


def examine(every: bool = False) -> dict[str, Any]:
    """``judged`` of this machine."""
    return judged(reading.here(), reading.vxlan_ports(), every)


def judged(nics: Sequence[Nic], ports: Sequence[int], every: bool = False) -> dict[str, Any]:
    """{nics[...], tunnels[...], other[...], vxlan_ports, asymmetries[...], notes[...]}; ``every``:
    software devices too.

    ``ports``: of the VXLAN devices that are there.
    """
    shown = [nic for nic in nics if every or nic.hardware or nic.underlay]
    used = {"vxlan": tuple(ports) or _USUAL_PORTS}
    verdicts = [
        tunnel_support.judge(nic, tunnel, used.get(tunnel.udp, ()))
        for nic in shown
        for tunnel in tunnel_support.TUNNELS
    ]
    return {
        "nics": [_nic(nic) for nic in shown],
        "tunnels": [dataclasses.asdict(verdict) for verdict in verdicts],
        "other": [dataclasses.asdict(tunnel_support.spread(nic)) for nic in shown],
        "vxlan_ports": list(ports),
        "asymmetries": tunnel_support.asymmetries(_between(shown, verdicts))
        + tunnel_support.unlike(shown),
        "notes": _notes(nics, shown),
    }


def stored() -> dict[str, Any]:
    """The same for a run's environment: without each single feature, and empty where nothing can be
    asked.
    """
    try:
        found = examine()
    except Exception as error:  # never the reason why a run does not start
        return {"notes": [f"the NICs could not be asked: {error}"]}
    return short(found)


def short(found: Mapping[str, Any]) -> dict[str, Any]:
    """What ``judged`` found, as a run's environment keeps it."""
    return {**found} | {
        "nics": [
            {key: value for key, value in nic.items() if key not in ("features", "bus")}
            for nic in found["nics"]
        ]
    }


def obtainable(profiles: Mapping[str, Profile], lab: bool) -> dict[str, Profile]:
    """Those that can be had there: with a model in the lab, with an installation on a cluster."""
    return {
        name: one
        for name, one in profiles.items()
        if (one.datapath if lab else one.kubernetes and not one.kubernetes.installed_by)
    }


def ranked(found: Mapping[str, Any], profiles: Mapping[str, Profile]) -> list[rank.Ranked]:
    """Which of ``profiles`` suit the NICs between the nodes best, out of what ``examine`` or
    ``stored`` gave.
    """
    under = {(nic["node"], nic["name"]) for nic in found["nics"] if nic["underlay"]}
    verdicts = [tunnel_support.Verdict(**one) for one in found["tunnels"]]
    return rank.rank(
        profiles, [one for one in verdicts if not under or (one.node, one.nic) in under]
    )


def _between(
    shown: Sequence[Nic], verdicts: Iterable[tunnel_support.Verdict]
) -> list[tunnel_support.Verdict]:
    """Those of the NICs that reach other nodes; of all where none is known to."""
    under = {(nic.node, nic.name) for nic in shown if nic.underlay}
    return [one for one in verdicts if not under or (one.node, one.nic) in under]


def _notes(nics: Sequence[Nic], shown: Sequence[Nic]) -> list[str]:
    notes = [LIMITS]
    if not shown:
        notes.append("there is no NIC here; --all shows the software devices")
    if any(nic.virtual for nic in shown if nic.hardware or nic.underlay):
        notes.append(
            "these are devices of a virtual machine: the results say nothing about the NICs of"
            " other nodes"
        )
    if len({nic.node for nic in nics}) < 2:
        notes.append(
            "only one node was examined; both ends of a tunnel matter: examine the others, too"
        )
    return notes


def _nic(nic: Nic) -> dict[str, Any]:
    facts = dataclasses.asdict(nic) | {"virtual": nic.virtual}
    del facts["features"]
    return facts | {
        "features": {name: dataclasses.asdict(feature) for name, feature in nic.features.items()}
    }
