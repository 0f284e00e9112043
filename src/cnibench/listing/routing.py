"""Routes of all tables, routing rules, permanent neighbours and forwarding entries."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator, Mapping

from cnibench.listing.dumps import ROUTE, address, attributes, dump, mac, number

_GETROUTE, _GETNEIGH, _GETRULE, _GETNEXTHOP = 26, 30, 34, 106
_MPLS = 28
_CLONED = 0x200
_MULTICAST = 5  # ff00::/8, which the kernel adds some time after a device is up
_PERMANENT, _NOARP = 0x80, 0x40
_PROXY, _LEARNED = 0x08, 0x10
_TYPES = {1: "unicast", 2: "local", 3: "broadcast", 6: "blackhole", 7: "unreachable"}
_NAMES = {6: "metric", 15: "table", 20: "pref", 21: "encap-type", 16: "mark"}
_OF_ADDRESSES, _KERNEL = (2, 4), 2  # types local and anycast; protocol
_SELF = 0x2
_GROUPS = "33:33:"  # the start of the MAC of an IPv6 multicast group
_METRICS = {
    2: "mtu",
    3: "window",
    4: "rtt",
    7: "cwnd",
    8: "advmss",
    11: "initcwnd",
    13: "rto_min",
    14: "initrwnd",
    15: "quickack",
    16: "congctl",
}


def routes(names: Mapping[int, str]) -> list[str]:
    """Routes of IPv4, IPv6 and MPLS; none that the kernel only remembers, and of IPv6 none that it
    made of an address: it adds and renews them some time later.
    """
    found = []
    objects = _nexthop_objects(names)
    for family in (socket.AF_INET, socket.AF_INET6, _MPLS):
        for _, body in dump(ROUTE, _GETROUTE, struct.pack("=B11x", family)):
            kind, length, source, tos, _, proto, scope, type_, flags = struct.unpack_from(
                "=8BI", body
            )
            if kind != family or flags & _CLONED or type_ == _MULTICAST:
                continue
            given = attributes(body[12:])
            of_address = type_ in _OF_ADDRESSES and proto == _KERNEL
            if of_address and family == socket.AF_INET6 and not _tuned(given):
                continue
            target = dict(given).get(1)
            words = [f"{address(target)}/{length}" if target else "default"]
            words += [f"type {_TYPES.get(type_, type_)}", f"proto {proto}", f"scope {scope}"]
            words += [f"from /{source}"] * bool(source) + [f"tos {tos}"] * bool(tos)
            words += [f"flags {flags & ~0x10:#x}"] * bool(flags & ~0x10)
            words += _route_words(given, names, objects)
            if f"dev {_GONE}" not in words:
                found.append(" ".join(words))
    return sorted(found)


_GONE = "-"  # a device that is not listed


def _tuned(given: list[tuple[int, bytes]]) -> bool:
    """Has somebody given it metrics? A congestion control does not count: the lab sets it again
    whenever the kernel has renewed the route.
    """
    metrics = attributes(dict(given).get(8, b""))
    return any(_METRICS.get(kind) != "congctl" for kind, _ in metrics)


def _route_words(
    given: list[tuple[int, bytes]], names: Mapping[int, str], objects: Mapping[int, str]
) -> Iterator[str]:
    for kind, data in given:
        if kind == 30:
            yield f"nexthop ({objects.get(number(data), 'unknown')})"
        elif kind == 4:
            yield f"dev {names.get(number(data), _GONE)}"
        elif kind == 5:
            yield f"via {address(data)}"
        elif kind == 7:
            yield f"src {address(data)}"
        elif kind == 8:
            for metric, value in attributes(data):
                name = _METRICS.get(metric, metric)
                yield f"{name} {number(value) if len(value) == 4 else value.hex()}"
        elif kind in _NAMES:
            yield f"{_NAMES[kind]} {number(data)}"
        elif kind in (9, 18, 19, 22):  # next hops, gateway of another family, labels, encapsulation
            yield f"attribute{kind} {data.hex()}"


def nexthops(names: Mapping[int, str]) -> list[str]:
    """Next hop objects, by what they are: a daemon numbers them in the order in which it learned
    of them.
    """
    return sorted(_nexthop_objects(names).values())


def _nexthop_objects(names: Mapping[int, str]) -> dict[int, str]:
    """Number to what it is; a group is its members (struct nexthop_grp of
    include/uapi/linux/nexthop.h) with their weights.
    """
    given = [dict(attributes(body[8:])) for _, body in dump(ROUTE, _GETNEXTHOP, bytes(8))]
    found = {number(one[1]): _nexthop_words(one, names) for one in given}
    for one in given:
        if members := one.get(2):
            parts = [
                f"({found.get(id, 'unknown')}) weight {weight + 1}"
                for id, weight in struct.iter_unpack("=IBxxx", members)
            ]
            found[number(one[1])] = " ".join(["group", *sorted(parts), found[number(one[1])]])
    return found


def _nexthop_words(given: Mapping[int, bytes], names: Mapping[int, str]) -> str:
    words = [f"dev {names.get(number(given[5]), _GONE)}"] if 5 in given else []
    words += [f"{kind}={data.hex()}" for kind, data in given.items() if 2 < kind < 12 and kind != 5]
    return " ".join(words)


def rules(names: Mapping[int, str]) -> list[str]:
    """Routing rules in the order in which the kernel asks them."""
    del names
    found = []
    for family in (socket.AF_INET, socket.AF_INET6):
        for _, body in dump(ROUTE, _GETRULE, struct.pack("=B11x", family)):
            head = struct.unpack_from("=8BI", body)
            if head[0] != family:
                continue
            words = [f"ipv{4 if family == socket.AF_INET else 6} {head[1:]}"]
            for kind, data in attributes(body[12:]):
                label = {6: "priority", 10: "fwmark", 15: "table", 16: "fwmask"}.get(kind, kind)
                words.append(f"{label} {number(data) if len(data) == 4 else data.hex()}")
            found.append(" ".join(words))
    return found


def neighbours(names: Mapping[int, str]) -> list[str]:
    """Neighbours and forwarding entries that were put there, proxied ones included; none that the
    kernel learned.
    """
    found = []
    for family in (0, socket.AF_BRIDGE):
        for _, body in dump(ROUTE, _GETNEIGH, struct.pack("=B11x", family)):
            kind, index, state, flags = struct.unpack_from("=BxxxiHB", body)
            static = state & (_PERMANENT | _NOARP) or flags & (_PROXY | _LEARNED)
            if not static or index not in names:
                continue
            if kind != socket.AF_BRIDGE and state & _NOARP and not state & _PERMANENT:
                continue  # multicast and devices without ARP: made when a packet asks for them
            given = attributes(body[12:])
            if kind == socket.AF_BRIDGE and flags == _SELF and _joined(dict(given)):
                continue
            label = "fdb" if kind == socket.AF_BRIDGE else "neighbour"
            words = [label, names[index], f"state {state:#x} flags {flags:#x}"]
            for attribute, data in given:
                if attribute == 1:
                    words.append(address(data))
                elif attribute == 2:
                    words.append(mac(data))
                elif attribute in (8, 9):
                    role = "device" if attribute == 8 else "master"
                    words.append(f"{role} {names.get(number(data), data.hex())}")
                elif attribute in (5, 6, 7, 10):
                    words.append(f"{attribute}={data.hex()}")
            found.append(" ".join(words))
    return sorted(found)


def _joined(given: Mapping[int, bytes]) -> bool:
    """Is it a multicast group that a device receives? The kernel joins those of an address some
    time after the address is there. An entry with a destination is one of a tunnel.
    """
    return 1 not in given and mac(given.get(2, b"")).startswith(f"mac={_GROUPS}")


def proxies(names: Mapping[int, str]) -> list[str]:
    """Addresses that the namespace answers for on behalf of others."""
    found = []
    for family in (socket.AF_INET, socket.AF_INET6):
        head = struct.pack("=BxxxiHBB", family, 0, 0, _PROXY, 0)
        for _, body in dump(ROUTE, _GETNEIGH, head):
            index, _, flags = struct.unpack_from("=4xiHB", body)
            if flags & _PROXY and index in names:
                given = dict(attributes(body[12:]))
                found.append(f"proxy {names[index]} {address(given.get(1, b''))}")
    return sorted(found)
