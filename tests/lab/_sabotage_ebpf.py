"""Sabotages by bpf(2): programs and maps that no shell command reaches."""

from __future__ import annotations

import contextlib
import ctypes
import ipaddress
import os
import socket
import struct
from collections.abc import Callable, Iterator
from typing import Any

from cnibench.clusters.lab.datapaths.ila.kernel import sir_address
from cnibench.clusters.lab.deployment import LabDeployment
from cnibench.clusters.lab.ebpf import tc
from cnibench.clusters.lab.namespaces.netns import Namespace
from cnibench.system.bpf import call

_PROG_LOAD, _SCHED_CLS, _XDP = 5, 3, 6
_PASSES = {_SCHED_CLS: 0, _XDP: 2}  # TC_ACT_OK, XDP_PASS
_SETLINK, _IFLA_XDP, _NESTED = 19, 43, 0x8000
GENERIC, NATIVE = 2, 4  # XDP_FLAGS_SKB_MODE, XDP_FLAGS_DRV_MODE
_LICENSE = ctypes.create_string_buffer(b"GPL")


@contextlib.contextmanager
def _passing(kind: int = _SCHED_CLS, register: int = 1) -> Iterator[int]:
    """The descriptor of a program that lets every packet pass as it is; it sets a ``register`` to
    0 first, which makes its hash another one.
    """
    # rN = 0; r0 = verdict; exit
    instructions = (0xB7, register, 0, 0, 0xB7, 0, 0, _PASSES[kind], 0x95, 0, 0, 0)
    code = struct.pack("=BBhiBBhiBBhi", *instructions)
    text = ctypes.create_string_buffer(code, len(code))
    request = struct.pack(
        "=IIQQIIQII",
        kind,
        len(code) // 8,
        ctypes.addressof(text),
        ctypes.addressof(_LICENSE),
        0,
        0,
        0,
        0,
        0,
    )
    fd = call(_PROG_LOAD, request)[0]
    try:
        yield fd
    finally:
        os.close(fd)


def _replace(deployment: LabDeployment, ns: Namespace, at: str) -> None:
    """The program that translates what leaves the node is another one of the same name."""
    ns.run(["tc", "filter", "del", "dev", "eth0", "egress"])
    with _passing() as program:
        tc.attach(ns, "eth0", "egress", "ila_out", program)


def _before(deployment: LabDeployment, ns: Namespace, at: str) -> None:
    """One that runs before the CNI's."""
    with _passing() as program:
        tc.attach(ns, "eth0", "ingress", "first", program, priority=1)


def xdp(ns: Namespace, device: str, mode: int, register: int = 1) -> None:
    """Attaches an XDP program in place of the one that may be there."""
    with _passing(_XDP, register) as program, ns.inside():
        inner = struct.pack("=HHiHHI", 8, 1, program, 8, 3, mode)
        body = struct.pack("=BxHiII", 0, 0, socket.if_nametoindex(device), 0, 0)
        body += struct.pack("=HH", 4 + len(inner), _IFLA_XDP | _NESTED) + inner
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as kernel:
            kernel.send(struct.pack("=IHHII", 16 + len(body), _SETLINK, 5, 1, 0) + body)
            if code := struct.unpack_from("=i", kernel.recv(4096), 16)[0]:
                raise OSError(-code, os.strerror(-code))


def _generic(deployment: LabDeployment, ns: Namespace, at: str) -> None:
    """XDP in a Pod's or a node's device, by the kernel's generic hook."""
    xdp(ns, "eth0", GENERIC)


def _native(deployment: LabDeployment, ns: Namespace, at: str) -> None:
    """XDP in the driver of the server's veth pair, at its node's end."""
    xdp(ns, deployment.pair("inter")[1].host_end, NATIVE)


def _tables(deployment: LabDeployment, at: str) -> Any:
    return deployment.datapath._loaded[at].maps  # type: ignore[attr-defined]


def _locator(deployment: LabDeployment, ns: Namespace, at: str) -> None:
    """The server's locator is another node's, which does not exist."""
    _, server = deployment.pair("inter")
    sir = _packed(sir_address(server))
    _tables(deployment, at)["ila_to_locator"].update(sir, _packed("fd00:10:244:9::")[:8])


def _unmapped(deployment: LabDeployment, ns: Namespace, at: str) -> None:
    """The server has no locator: its packets cross the wire as they are."""
    _, server = deployment.pair("inter")
    _tables(deployment, at)["ila_to_locator"].delete(_packed(sir_address(server)))


def _packed(address: str) -> bytes:
    return ipaddress.IPv6Address(address).packed


CHANGES: dict[str, Callable[[LabDeployment, Namespace, str], None]] = {
    "replace": _replace,
    "before": _before,
    "locator": _locator,
    "unmapped": _unmapped,
    "xdp": _generic,
    "xdp in the driver": _native,
}
