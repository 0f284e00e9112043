"""Which profiles suit the NICs: those that need no tunnel, then those whose tunnel the weakest NIC
does best.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from cnibench.model.profile import Profile
from cnibench.offload.tunnel_support import ORDER, Outcome, Verdict

_TUNNEL_OF = {
    "vxlan": "vxlan",
    "ovs-vxlan": "vxlan",
    "evpn": "vxlan",
    "geneve": "geneve",
    "ipip": "ipip",
    "wireguard": "wireguard",
    "udp": "udp-userspace",
}
_TURNED_OFF = "turned off by the profile"
_AS: Outcome = "fixed-off"  # what that is like


@dataclass(frozen=True)
class Ranked:
    """``place`` from 1; equal places are equally well off. ``commands`` turn on what is off, each
    with its node.
    """

    profile: str
    place: int
    tunnel: str  # '' for none
    outcome: (
        str  # 'no tunnel', the worst outcome of the underlay NICs, or 'turned off by the profile'
    )
    commands: tuple[str, ...] = ()


def tunnel_of(profile: Profile) -> str | None:
    """The tunnel type that a profile crosses nodes in, '' for none; None when it does not say. What
    encrypts comes before what carries.
    """
    encryption = profile.features.encryption.lower()
    if encryption and "offered" not in encryption:
        for word, kind in (("ipsec", "esp"), ("wireguard", "wireguard")):
            if word in encryption:
                return kind
    carrier = _carrier(profile)
    return "vxlan-csum" if carrier == "vxlan" and profile.features.outer_checksum else carrier


def _carrier(profile: Profile) -> str | None:
    if profile.datapath is not None:
        encapsulation = profile.datapath.encapsulation
        return "" if encapsulation in ("none", "ila") else _TUNNEL_OF.get(encapsulation)
    if profile.features.mode != "overlay":
        return "" if profile.features.mode == "underlay" else None
    first = next(
        iter(profile.features.tunnels), ""
    )  # this mode's; the others are what the CNI could do, too
    return _TUNNEL_OF.get(first.lower())


def rank(profiles: Mapping[str, Profile], verdicts: Iterable[Verdict]) -> list[Ranked]:
    """Best first; profiles whose tunnel is unknown, and the host's own network, are left out.
    ``verdicts``: of the NICs between nodes.

    A profile that turns the feature off (flannel-off) is as well off as on a NIC that has none.
    """
    by_tunnel: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        by_tunnel.setdefault(verdict.tunnel, []).append(verdict)
    scored: list[tuple[int, str, str, str, tuple[str, ...]]] = []
    for name, profile in profiles.items():
        kind = tunnel_of(profile)
        if kind is None or profile.features.network_model == "host":
            continue
        if not kind:
            scored.append((0, name, "", "no tunnel", ()))
            continue
        of_it = by_tunnel.get(kind, [])
        worst = max((ORDER.index(verdict.outcome) for verdict in of_it), default=len(ORDER) - 1)
        if _turns_off(profile):
            worst = max(worst, ORDER.index(_AS))
            scored.append(
                (worst + 1, name, kind, _TURNED_OFF if ORDER[worst] == _AS else ORDER[worst], ())
            )
            continue
        commands = tuple(
            dict.fromkeys(
                f"{verdict.node}: {verdict.command}" for verdict in of_it if verdict.command
            )
        )
        scored.append((worst + 1, name, kind, ORDER[worst], commands))
    return _placed(sorted(scored))


def _turns_off(profile: Profile) -> bool:
    return profile.datapath is not None and profile.datapath.options.get("tunnel_offload") is False


def _placed(scored: Sequence[tuple[int, str, str, str, tuple[str, ...]]]) -> list[Ranked]:
    found: list[Ranked] = []
    for number, (score, name, kind, outcome, commands) in enumerate(scored):
        same = number and scored[number - 1][0] == score
        found.append(Ranked(name, found[-1].place if same else number + 1, kind, outcome, commands))
    return found
