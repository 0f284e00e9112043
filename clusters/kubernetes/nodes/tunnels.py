"""The tunnel device that a node sends Pods' packets through."""

from __future__ import annotations

import fnmatch
import json

from cnibench.errors import CnibenchError
from cnibench.model.profile import Profile
from cnibench.testbed.place import Node

_KINDS = ("vxlan", "geneve", "ipip", "wireguard", "gre", "tun", "ip6tnl", "sit")


def find(node: Node, profile: Profile, family: int, elsewhere: str, underlay: str) -> str:
    """Its name, '' where none is found: the one that ``profile`` names; else the device of a
    tunnel's kind on the route to ``elsewhere``, a Pod's address on another node ('': none is
    known); else the only one. ``underlay`` is the node's own device.
    """
    pattern = profile.kubernetes.tunnel.get(family, "") if profile.kubernetes else ""
    try:
        links = json.loads(node.run(["ip", "-j", "-d", "link", "show", "up"], timeout=20).stdout)
        kinds = {
            str(link["ifname"]): str(link.get("linkinfo", {}).get("info_kind", ""))
            for link in links
        }
        if pattern:
            return next(iter(fnmatch.filter(sorted(kinds), pattern)), "")
        if not elsewhere:
            return ""
        said = node.run(["ip", "-j", "route", "get", elsewhere], timeout=20, check=False).stdout
        route = json.loads(said or "[]")
    except (CnibenchError, ValueError):
        return ""
    way = str(route[0].get("dev", "")) if route else ""
    if kinds.get(way) in _KINDS:
        return way
    if way == underlay:
        return ""
    tunnels = [name for name, kind in kinds.items() if kind in _KINDS]
    return tunnels[0] if len(tunnels) == 1 else ""
