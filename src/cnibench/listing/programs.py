"""eBPF programs at the devices of a namespace, with the kernel's hash of each and the contents of
their maps.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from cnibench.listing.devices import Device
from cnibench.listing.dumps import number, word
from cnibench.system.bpf import call

_PROG_FD, _MAP_FD, _INFO, _QUERY = 13, 14, 15, 16
_NEXT_KEY, _LOOKUP = 4, 1
_HOOKS = {46: "tcx ingress", 47: "tcx egress", 54: "netkit primary", 55: "netkit peer"}
_OF_NAMESPACE = {17: "flow dissector", 36: "socket lookup"}  # no device's, but the namespace's own
_ARRAY, _PROG_ARRAY, _ARRAY_OF_MAPS = 2, 3, 12
_ARRAYS = (_ARRAY, _PROG_ARRAY, _ARRAY_OF_MAPS)
_PER_CPU, _LRU = (5, 6, 10), (9,)
_INFO_SIZE = 232
_MOST = 1 << 20  # entries of one map
_MOST_INDEXES = 256  # of an array: its indexes are the numbers of Pods
# Maps that change with every packet, and how much of an entry's value is not a counter.
_TABLES = ("cilium_ct4_glob", "cilium_ct6_glob", "cilium_metrics")
_KEPT = {"cilium_policy": 8, "policy": 8}


def attached(devices: Sequence[Device]) -> Iterator[tuple[str, int]]:
    """The same of programs that are not at a queueing discipline, those of the calling thread's
    namespace included. The kernel lists those of XDP with the device, and refuses BPF_PROG_QUERY of
    them.
    """
    ns = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        for hook, label in _OF_NAMESPACE.items():
            for program in _query(ns, hook):
                yield label, program
    finally:
        os.close(ns)
    for device in devices:
        for program in device.xdp:
            yield f"{device.name} xdp", program
        for hook, label in _HOOKS.items():
            for program in _query(device.number, hook):
                yield f"{device.name} {label}", program


def _query(where: int, hook: int) -> list[int]:
    """``where`` is the index of a device, or a descriptor of the namespace."""
    ids = (ctypes.c_uint32 * 16)()
    request = struct.pack(
        "=IIIIQIIQQQQ", where, hook, 0, 0, ctypes.addressof(ids), 16, 0, 0, 0, 0, 0
    )
    try:
        answer = call(_QUERY, request)[1]
    except OSError:
        return []
    return list(ids[: struct.unpack_from("=I", answer, 24)[0]])


def program_lines(
    programs: Sequence[int], devices: Mapping[int, str], with_maps: bool = True
) -> Iterator[str]:
    """The hash of each program and what is in its maps; none where the kernel does not let us."""
    seen: set[int] = set()
    for program in dict.fromkeys(filter(None, programs)):
        try:
            fd = call(_PROG_FD, struct.pack("=III", program, 0, 0))[0]
        except OSError:
            continue
        try:
            tag, name, maps = _program(fd)
        finally:
            os.close(fd)
        yield f"program {name} tag {tag}"
        for number_ in maps if with_maps else ():
            if number_ not in seen:
                seen.add(number_)
                yield from _map_lines(number_, devices)


def _info(fd: int, size: int, prefix: bytes = b"") -> bytes:
    buffer = ctypes.create_string_buffer(prefix, size)
    call(_INFO, struct.pack("=IIQ", fd, size, ctypes.addressof(buffer)))
    return buffer.raw


def _program(fd: int) -> tuple[str, str, list[int]]:
    """Hash, name and numbers of the maps of a program (struct bpf_prog_info)."""
    ids = (ctypes.c_uint32 * 64)()
    request = bytearray(_INFO_SIZE)
    struct.pack_into("=IQ", request, 52, 64, ctypes.addressof(ids))
    raw = _info(fd, _INFO_SIZE, bytes(request))
    count = struct.unpack_from("=I", raw, 52)[0]
    return raw[8:16].hex(), word(raw[64:80]), list(ids[:count])


def _map_lines(number_: int, devices: Mapping[int, str], above: str = "") -> Iterator[str]:
    fd = call(_MAP_FD, struct.pack("=III", number_, 0, 0))[0]
    try:
        raw = _info(fd, 80)
        kind, _, key_size, value_size, most, flags = struct.unpack_from("=6I", raw)
        name = above or word(raw[24:40])
        sizes = f"key {key_size} value {value_size} entries {most}"
        yield f"map {name} kind {kind} {sizes} flags {flags}"
        if name in _TABLES or kind in _PER_CPU or kind in _LRU:
            return
        found: list[str] = []
        keys = (
            (struct.pack("=I", index) for index in range(min(most, _MOST_INDEXES)))
            if kind in _ARRAYS
            else islice(_keys(fd, key_size), _MOST)
        )
        for key in keys:
            value = _lookup(fd, key, value_size)
            if value is None:
                continue
            if kind == _ARRAY_OF_MAPS:
                found += _map_lines(number(value), devices, f"{name}[{key.hex()}]")
            elif kind == _PROG_ARRAY:
                found.append(f"map {name} {key.hex()} {_tag(number(value))}")
            else:
                base = name.partition("[")[0]
                kept = value[: _KEPT.get(base, value_size)]
                shown = kept.hex()
                if name == "cilium_lxc":
                    shown = f"{devices.get(number(kept[:4]), '-')} {kept[4:].hex()}"
                if any(value) or kind != _ARRAY:
                    found.append(f"map {name} {key.hex()} {shown}")
        yield from sorted(found)
    finally:
        os.close(fd)


def _tag(program: int) -> str:
    fd = call(_PROG_FD, struct.pack("=III", program, 0, 0))[0]
    try:
        tag, name, _ = _program(fd)
    finally:
        os.close(fd)
    return f"{name} {tag}"


def _keys(fd: int, size: int) -> Iterator[bytes]:
    before: ctypes.Array[ctypes.c_char] | None = None
    found = ctypes.create_string_buffer(size)
    while True:
        at = 0 if before is None else ctypes.addressof(before)
        try:
            call(_NEXT_KEY, struct.pack("=IIQQQ", fd, 0, at, ctypes.addressof(found), 0))
        except OSError:
            return
        yield found.raw
        before = before or ctypes.create_string_buffer(size)
        before.raw = found.raw


def _lookup(fd: int, key: bytes, size: int) -> bytes | None:
    wanted = ctypes.create_string_buffer(key, len(key))
    value = ctypes.create_string_buffer(size)
    try:
        call(
            _LOOKUP,
            struct.pack("=IIQQQ", fd, 0, ctypes.addressof(wanted), ctypes.addressof(value), 0),
        )
    except OSError:
        return None
    return value.raw
