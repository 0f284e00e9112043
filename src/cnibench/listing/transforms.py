"""What encrypts or switches beside the routing table: IPsec, WireGuard and Open vSwitch."""

from __future__ import annotations

from collections.abc import Sequence

from cnibench.listing.devices import Device
from cnibench.listing.dumps import XFRM, address, attributes, dump
from cnibench.listing.namespace import Namespace

_GETSA, _GETPOLICY = 0x12, 0x15
_SA, _POLICY = 224, 168  # bytes of struct xfrm_usersa_info and xfrm_userpolicy_info
_XFRM_MARK = 21
_ALGORITHMS = (1, 2, 3, 18, 20)  # each begins with a name of 64 bytes; a key follows
_LIMIT = 10.0  # s


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
    """Ports, peers' ends and prefixes of WireGuard devices; their keys are drawn for each
    deployment.
    """
    found = []
    for device in devices:
        if device.kind == "wireguard":
            said = ns.run(["wg", "show", device.name, "dump"], timeout=_LIMIT).stdout.splitlines()
            for number, line in enumerate(said):
                words = line.split("\t")
                kept = words[2:] if not number else [*words[2:4], words[7]]
                found.append(f"{device.name} {' '.join(kept)}")
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
