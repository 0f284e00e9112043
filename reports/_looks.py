"""What a CNI looks like in every chart, whichever others are in it: its colour and marker,
and the dashes and the lightness of its modes.

Every colour has a contrast of 3:1 with light and with dark pages. A profile that is not listed has
the mode that the hash of its name gives, a CNI that is not listed one of _UNLISTED.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_DASHES = ((1, 0), (9, 4), (4, 3), (10, 3, 2, 3), (2, 2))


@dataclass(frozen=True)
class Look:
    """``shape`` and ``dash`` are those of Vega."""

    color: str
    shape: str
    dash: tuple[int, ...]


@dataclass(frozen=True)
class _Cni:
    """``modes`` are profiles: the first is drawn with a whole line in the first colour, the next
    ones with a dash each, and then the same in the next colour.
    """

    shape: str
    colors: tuple[str, str, str]
    modes: tuple[str, ...] = ()
    also: tuple[str, ...] = field(default=())  # other names of the same CNI


_MOST = 3 * len(_DASHES)  # modes of a CNI that differ
_CNIS = {
    "flannel": _Cni(
        "circle",
        ("#0072b2", "#3e99dc", "#1e80c1"),
        (
            *("flannel", "flannel-host-gw", "flannel-off", "flannel-ipip", "flannel-wireguard"),
            *("flannel-udp", "flannel-k3s"),
        ),
        ("flannel-k3s",),
    ),
    "calico": _Cni(
        "square",
        ("#d55e00", "#a74c10", "#e97025"),
        (
            *("calico-wp-xsub", "calico-wp-ipip", "calico-wp-vxlan", "calico-bare-xsub"),
            *("calico-default", "calico-np-xsub", "calico-np-ipip", "calico-np-vxlan"),
            *("calico-bare-ipip", "calico-ebpf", "calico-nftables", "calico-manifest"),
            "calico-wireguard",
        ),
    ),
    "cilium": _Cni(
        "triangle-up",
        ("#009e73", "#027554", "#088b65"),
        (
            *("cilium", "cilium-native", "cilium-geneve", "cilium-wireguard", "cilium-kpr"),
            *("cilium-default", "cilium-ipsec", "cilium-netkit", "cilium-bigtcp"),
        ),
    ),
    "kube-router": _Cni(
        "triangle-down",
        ("#cc79a7", "#9a4c79", "#b0608d"),
        ("kube-router", "kube-router-ipip", "kube-router-default"),
    ),
    "weave": _Cni(
        "cross",
        ("#88518c", "#b97fbd", "#9f66a3"),
        ("weave", "weave-npc", "weave-encrypted", "weave-sleeve"),
    ),
    "antrea": _Cni("triangle-right", ("#aa4429", "#df7458", "#c35b3f"), ("antrea",)),
    "kindnet": _Cni(
        "triangle-left", ("#9583fa", "#6953c5", "#7c68dc"), ("kindnet", "kindnetd"), ("kindnetd",)
    ),
    "docker": _Cni(
        "circle",
        ("#fc5858", "#c71f2d", "#e03c41"),
        ("bridge-static", "swarm-vxlan", "swarm-vxlan-filter"),
        ("docker-swarm",),
    ),
    "ovn-kubernetes": _Cni("square", ("#ca2352", "#fc587a", "#de3b62"), ("ovn-kubernetes",)),
    "aws-vpc-cni": _Cni("triangle-down", ("#327860", "#5ba086", "#42876e"), ("aws-vpc-cni",)),
    "evpn": _Cni("cross", ("#457cfd", "#295cda", "#6190f7"), ("evpn-vxlan", "evpn-mpls")),
    "ila": _Cni("triangle-up", ("#be3da6", "#e361c8", "#af2d98"), ("ila", "ila-ebpf")),
    "macvlan": _Cni("triangle-left", ("#5a8b26", "#477117", "#6ea03e"), ("macvlan",)),
    "none": _Cni(
        "triangle-right", ("#7a7a7a", "#939393", "#666666"), ("veth-baseline", "host", "xdp")
    ),
}
_UNLISTED = (
    _Cni("circle", ("#ae59db", "#933dbf", "#c36ef1")),
    _Cni("cross", ("#6851c3", "#9582f8", "#7d68dc")),
    _Cni("triangle-up", ("#1c9fba", "#057084", "#0e869d")),
)
_NAMED = {name: cni for first, cni in _CNIS.items() for name in (first, *cni.also)}


def looks(profiles: Mapping[str, Mapping[str, Any]]) -> dict[str, Look]:
    """The look of each label, whose profile is given as a run's plan has it.

    It follows from the label and the profile alone, except where two would look alike: then the one
    that is not listed, or whose label is the later one, takes the CNI's next mode that is free.
    """
    cnis = {label: _cni(label, profile) for label, profile in profiles.items()}
    taken: set[tuple[_Cni, int]] = set()
    found = {}
    for label in sorted(profiles, key=lambda one: (not _listed(one, profiles[one]), one)):
        cni = cnis[label]
        first = _mode(label, profiles[label], cni)
        free = ((first + step) % _MOST for step in range(_MOST))
        mode = next((one for one in free if (cni, one) not in taken), first)
        taken.add((cni, mode))
        found[label] = Look(
            cni.colors[mode // len(_DASHES)], cni.shape, _DASHES[mode % len(_DASHES)]
        )
    return {label: found[label] for label in profiles}


def listed() -> dict[str, Look]:
    """The looks of the profiles that are listed here."""
    return looks({mode: {"cni": cni} for cni, one in _CNIS.items() for mode in one.modes})


def _cni(label: str, profile: Mapping[str, Any]) -> _Cni:
    name = str(profile.get("cni") or label)
    return _NAMED.get(name) or _UNLISTED[_hash(name) % len(_UNLISTED)]


def _listed(label: str, profile: Mapping[str, Any]) -> bool:
    return label in _cni(label, profile).modes and profile.get("name", label) == label


def _mode(label: str, profile: Mapping[str, Any], cni: _Cni) -> int:
    return cni.modes.index(label) if _listed(label, profile) else _hash(label) % _MOST


def _hash(text: str) -> int:
    """The same in each process."""
    return zlib.crc32(text.encode(errors="surrogatepass"))
