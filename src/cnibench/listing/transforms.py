"""What encrypts, translates or switches beside the routing table: IPsec, WireGuard, ILA and Open
vSwitch.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from cnibench.listing.devices import Device
from cnibench.listing.dumps import GENERIC, XFRM, address, attributes, dump, family, number
from cnibench.listing.namespace import Namespace

_GETSA, _GETPOLICY = 0x12, 0x15
_SA, _POLICY = 224, 168  # bytes of struct xfrm_usersa_info and xfrm_userpolicy_info
_XFRM_MARK = 21
_ALGORITHMS = (1, 2, 3, 18, 20)  # each begins with a name of 64 bytes; a key follows
_LIMIT = 10.0  # s
_ILA_GET = 3  # include/uapi/linux/ila.h
_ILA = {1: "locator", 3: "match", 5: "dev", 7: "csum-mode", 8: "ident-type", 9: "hook-type"}
_IFINDEX = 5


def ipsec() -> list[str]:
    """States and policies without keys, lifetimes and counters."""
    found = []
    for _, body in dump(XFRM, _GETSA, b""):
        selector, target, spi, proto = body[:56], body[56:72], body[72:76], body[76]
        source, rest = body[80:96], body[208:217]
        words = [f"state {_end(source)} {_end(target)} spi {spi.hex()} proto {proto}"]
        words += [selector.hex(), rest.hex()]
        for kind, data in attributes(body[_SA:]):
            if kind in _ALGORITHMS:
                words.append(data[:64].rstrip(b"\0").decode(errors="replace"))
            elif kind in (4, 5, 17, _XFRM_MARK, 24, 26):
                words.append(f"{kind}={data.hex()}")
        found.append(" ".join(words))
    for _, body in dump(XFRM, _GETPOLICY, b""):
        words = ["policy", body[:56].hex(), body[152:156].hex(), body[160:166].hex()]
        words += [
            f"{kind}={data.hex()}"
            for kind, data in attributes(body[_POLICY:])
            if kind in (5, _XFRM_MARK)
        ]
        found.append(" ".join(words))
    return sorted(found)


def _end(data: bytes) -> str:
    return address(data[:4]) if not any(data[4:]) else address(data)


def wireguard(ns: Namespace, devices: Sequence[Device]) -> list[str]:
    """Ports, peers' ends and prefixes of WireGuard devices, and which peers have a preshared key;
    the keys themselves are drawn for each deployment.
    """
    found = []
    for device in devices:
        if device.kind == "wireguard":
            said = ns.run(["wg", "show", device.name, "dump"], timeout=_LIMIT).stdout.splitlines()
            for peer, line in enumerate(said):
                words = line.split("\t")
                if not peer:
                    kept = words[2:]
                else:
                    preshared = "no" if words[1] == "(none)" else "a"
                    kept = [*words[2:4], words[7], f"with {preshared} preshared key"]
                found.append(f"{device.name} {' '.join(kept)}")
    return sorted(found)


def translations(names: Mapping[int, str]) -> list[str]:
    """Entries of the ILA translation table, which the kernel asks before the routes."""
    ila = family("ila")
    if ila is None:
        return []
    found = []
    for _, body in dump(GENERIC, ila, struct.pack("=BBH", _ILA_GET, 1, 0)):
        given = dict(attributes(body[4:]))
        words = [
            f"{name} {names.get(number(given[kind]), '-')}"
            if kind == _IFINDEX
            else f"{name} {given[kind].hex()}"
            for kind, name in _ILA.items()
            if kind in given
        ]
        found.append(" ".join(words))
    return sorted(found)


def flows(ns: Namespace, devices: Sequence[Device]) -> list[str]:
    """Flows of Open vSwitch's datapaths without their counters."""
    found = []
    for device in devices:
        if device.kind == "openvswitch" and device.name != "ovs-system":
            said = ns.run(["ovs-dpctl", "dump-flows", device.name], timeout=_LIMIT).stdout
            for line in said.splitlines():
                match, _, rest = line.partition(", packets:")
                found.append(f"{device.name} {match} {rest[rest.find('actions:') :]}")
    return sorted(found)
