"""Sabotages of a namespace as such, at none of its devices: sockets that get a copy of its packets,
and programs that the kernel asks about each of them.
"""

from __future__ import annotations

import ctypes
import os
import socket
import struct
from collections.abc import Callable

from cnibench.clusters.lab.deployment import LabDeployment
from cnibench.clusters.lab.namespaces.netns import Namespace
from cnibench.system.bpf import call

_PROG_LOAD, _PROG_ATTACH, _LINK_CREATE = 5, 8, 28
_DISSECTOR, _AT_DISSECTOR = 22, 17  # kinds of programs (linux/bpf.h), and where they are attached
_LOOKUP, _AT_LOOKUP, _PASS = 30, 36, 1
_ETH_P_ALL, _NETFILTER = 3, 12  # linux/if_ether.h, linux/netlink.h
_ARPT, _INFO, _ENTRIES = 96, 68, 40  # ARPT_BASE_CTL, struct arpt_getinfo, arpt_get_entries
_LICENSE = ctypes.create_string_buffer(b"GPL")


def _program(kind: int, at: int, verdict: int) -> int:
    """The descriptor of a program that decides nothing else."""
    code = struct.pack("=BBhiBBhi", 0xB7, 0, 0, verdict, 0x95, 0, 0, 0)  # r0 = verdict; exit
    text = ctypes.create_string_buffer(code, len(code))
    request = struct.pack(
        "=IIQQ44xI", kind, 2, ctypes.addressof(text), ctypes.addressof(_LICENSE), at
    )
    return call(_PROG_LOAD, request)[0]


class _Held:
    """What ends with the deployment: it has nothing else to be closed by."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def __del__(self) -> None:
        os.close(self.fd)


def _hold(deployment: LabDeployment, fd: int) -> None:
    deployment.__dict__.setdefault("_sabotages", []).append(_Held(fd))


def _capture(deployment: LabDeployment, ns: Namespace, at: str) -> None:
    """As tcpdump has it."""
    with ns.inside(), socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as tap:
        tap.bind(("eth0", _ETH_P_ALL))
        _hold(deployment, tap.detach())


def _raw_socket(deployment: LabDeployment, ns: Namespace, at: str) -> None:
    with ns.inside(), socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_TCP) as raw:
        _hold(deployment, raw.detach())


def _conntrack_listener(deployment: LabDeployment, ns: Namespace, at: str) -> None:
    """As 'conntrack -E' has it: the kernel tells it of each connection."""
    with ns.inside(), socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETFILTER) as listener:
        listener.bind((0, 0x7))
        _hold(deployment, listener.detach())


def _socket_lookup(deployment: LabDeployment, ns: Namespace, at: str) -> None:
    """A program that is asked which socket each connection to the Pod is for."""
    program = _program(_LOOKUP, _AT_LOOKUP, _PASS)
    try:
        _hold(
            deployment, call(_LINK_CREATE, struct.pack("=IIII", program, ns.fd, _AT_LOOKUP, 0))[0]
        )
    finally:
        os.close(program)


def _flow_dissector(deployment: LabDeployment, ns: Namespace, at: str) -> None:
    """A program that is asked for a packet's flow in place of the kernel's own code."""
    program = _program(_DISSECTOR, 0, 0)
    try:
        with ns.inside():
            call(_PROG_ATTACH, struct.pack("=IIII", 0, program, _AT_DISSECTOR, 0))
    finally:
        os.close(program)


def arptables(ns: Namespace) -> None:
    """A rule before the policies of the table filter, as 'arptables-legacy -I INPUT -j ACCEPT' has
    it: that program is rarely there.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    with ns.inside(), socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) as sock:

        def get(option: int, request: bytes) -> bytes:
            buffer = ctypes.create_string_buffer(request, len(request))
            size = ctypes.c_uint(len(request))
            if libc.getsockopt(sock.fileno(), 0, _ARPT + option, buffer, ctypes.byref(size)):
                raise OSError(ctypes.get_errno(), "arptables")
            return buffer.raw

        info = get(0, b"filter".ljust(_INFO, b"\0"))
        hooks, *places, count, size = struct.unpack_from("=9I", info, 32)
        old = get(1, struct.pack("=32sI4x", b"filter", size) + bytes(size))[_ENTRIES:]
        rule = old[: struct.unpack_from("=H", old, 166)[0]]  # of the first entry, a policy
        entry, underflow = places[:3], [at + len(rule) for at in places[3:]]
        entry = [entry[0], *(at + len(rule) for at in entry[1:])]
        counters = ctypes.create_string_buffer(16 * count)
        replace = struct.pack("=32s3I", b"filter", hooks, count + 1, size + len(rule))
        replace += struct.pack("=7IQ", *entry, *underflow, count, ctypes.addressof(counters))
        sock.setsockopt(socket.SOL_IP, _ARPT, replace + rule + old)


def _arptables(deployment: LabDeployment, ns: Namespace, at: str) -> None:
    arptables(ns)


CHANGES: dict[str, Callable[[LabDeployment, Namespace, str], None]] = {
    "capture": _capture,
    "arptables": _arptables,
    "raw socket": _raw_socket,
    "conntrack listener": _conntrack_listener,
    "socket lookup": _socket_lookup,
    "flow dissector": _flow_dissector,
}
