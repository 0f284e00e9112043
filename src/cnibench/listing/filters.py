"""Filters at the queueing disciplines of devices, with their actions."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence

from cnibench.listing.dumps import ROUTE, attributes, dump, number, word
from cnibench.listing.queueing import Place

_GETFILTER = 46
_KIND, _OPTIONS, _CHAIN = 1, 2, 11  # include/uapi/linux/rtnetlink.h
# Of the options of each kind (linux/pkt_cls.h): which has its actions, which counts packets.
_ACTIONS = {
    "u32": 7,
    "flower": 3,
    "matchall": 2,
    "bpf": 1,
    "basic": 3,
    "fw": 4,
    "flow": 9,
    "route": 6,
    "cgroup": 1,
}
_COUNTS = {"u32": 9, "matchall": 4, "basic": 5}
# Which option of an action has the times of its installation and its last packet.
_TIMES = {"police": 6, "csum": 2, "nat": 2, "connmark": 2, "ct": 2, "ife": 2, "ctinfo": 2}


def filters(names: Mapping[int, str], places: Sequence[Place]) -> Iterator[tuple[str, int]]:
    """(what is at a filter's place, the number of its eBPF program or 0), in order."""
    for index, parent, where in places:
        for _, body in dump(ROUTE, _GETFILTER, struct.pack("=BxxxiIII", 0, index, 0, parent, 0)):
            handle, _, info = struct.unpack_from("=4x4xIII", body)
            given = dict(attributes(body[20:]))
            kind = word(given.get(_KIND, b""))
            words = [f"{names[index]} {where} {kind}"]
            words.append(f"priority {info >> 16} protocol {info & 0xFFFF:#06x} handle {handle:#x}")
            if chain := number(given.get(_CHAIN, b"")):
                words.append(f"chain {chain}")
            options, program = given.get(_OPTIONS, b""), 0
            if kind == "bpf":
                inner = dict(attributes(options))
                program = number(inner.get(11, b""))
                words.append(f"{word(inner.get(7, b''))} tag {inner.get(10, b'').hex()}")
                words.append(f"class {number(inner.get(3, b''))} flags {number(inner.get(8, b''))}")
                words += _actions(inner.get(_ACTIONS[kind], b""))
            else:
                words += _words(kind, options)
            yield " ".join(words), program


def _words(kind: str, options: bytes) -> Iterator[str]:
    for option, value in attributes(options):
        if option == _ACTIONS.get(kind):
            yield from _actions(value)
        elif option != _COUNTS.get(kind):
            yield f"{option}={value.hex()}"


def _actions(data: bytes) -> Iterator[str]:
    """In their order, without what they count and when."""
    for _, action in attributes(data):
        inner = dict(attributes(action))
        kind = word(inner.get(_KIND, b""))
        yield kind
        for option, value in attributes(inner.get(_OPTIONS, b"")):
            if option != _TIMES.get(kind, 1):
                yield f"{option}={value.hex()}"
