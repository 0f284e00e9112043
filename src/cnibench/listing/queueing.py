"""Queueing disciplines of devices with their classes, and where filters can be attached to them."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from cnibench.listing.dumps import ROUTE, attributes, dump, number, word

_GETQDISC, _GETCLASS = 38, 42
_ROOT, _INGRESS, _EGRESS = 0xFFFFFFFF, 0xFFFFFFF2, 0xFFFFFFF3
# Without filters; of mq each child is a discipline of its own.
_NO_FILTERS = ("noqueue", "noop", "pfifo_fast", "pfifo", "bfifo", "mq", "fq", "tbf")
_CLASSES = ("htb", "hfsc", "drr", "qfq", "ets", "cbq")  # made by hand, with options of their own
_OPTIONS, _OF_HTB, _HTB = 2, 2, 16  # bytes of struct tc_htb_glob before its counter


class Place(NamedTuple):
    """Where a device can have filters: the parent by which the kernel lists them, and its name."""

    device: int
    parent: int
    name: str


def disciplines(names: Mapping[int, str]) -> tuple[list[str], list[Place]]:
    """The queueing disciplines and classes of these devices, and each place that can have
    filters.
    """
    found, places = list[str](), list[Place]()
    classful: dict[int, None] = {}
    for _, body in dump(ROUTE, _GETQDISC, bytes(20)):
        index, handle, parent = struct.unpack_from("=4xiII", body)
        given = dict(attributes(body[20:]))
        if index not in names:
            continue
        kind = word(given.get(1, b""))
        own = f"{handle >> 16:x}:" if handle >> 16 < 0x8000 else ""
        above = f"{parent:#x}" if parent >> 16 < 0x8000 or parent > 0xFFFF0000 else "own"
        blocks = "".join(
            f" block{kind_}={number(given[kind_])}" for kind_ in (13, 14) if kind_ in given
        )
        line = f"{names[index]} {kind} {own} parent {above} {_options(kind, given)}{blocks}"
        found.append(line.rstrip())
        if kind in ("clsact", "ingress"):
            places.append(Place(index, _INGRESS, "ingress"))
            places += [Place(index, _EGRESS, "egress")] * (kind == "clsact")
        elif kind not in _NO_FILTERS and (handle or parent == _ROOT):
            places.append(Place(index, handle, f"{kind} {own}".rstrip()))
        if kind in _CLASSES:
            classful[index] = None
    for index in classful:
        for line, place in _classes(index, names[index]):
            found.append(line)
            places.append(place)
    return sorted(found), places


def _options(kind: str, given: Mapping[int, bytes]) -> str:
    options = given.get(_OPTIONS, b"")
    if kind != "htb":
        return options.hex()
    return " ".join(
        f"{one}={(value[:_HTB] if one == _OF_HTB else value).hex()}"
        for one, value in attributes(options)
    )


def _classes(index: int, device: str) -> Iterator[tuple[str, Place]]:
    """Of a device, with the place of the filters of each."""
    for _, body in dump(ROUTE, _GETCLASS, struct.pack("=BxxxiIII", 0, index, 0, 0, 0)):
        handle, parent = struct.unpack_from("=8xII", body)
        given = dict(attributes(body[20:]))
        kind = word(given.get(1, b""))
        if kind in _CLASSES:
            name = f"{kind} class {_identity(handle)}"
            options = given.get(_OPTIONS, b"").hex()
            line = f"{device} {name} parent {_identity(parent)} {options}"
            yield line, Place(index, handle, name)


def _identity(handle: int) -> str:
    """As tc(8) writes it, without a major number that the kernel gave."""
    if handle == _ROOT:
        return "root"
    major = handle >> 16
    return f"{major:x}:{handle & 0xFFFF:x}" if major < 0x8000 else f":{handle & 0xFFFF:x}"
