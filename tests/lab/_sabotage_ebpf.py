"""Sabotages by bpf(2): programs and maps that no shell command reaches."""

from __future__ import annotations

import contextlib
import ctypes
import ipaddress
import os
import struct
from collections.abc import Callable, Iterator
from typing import Any

from cnibench.clusters.lab.datapaths.ila.kernel import sir_address
from cnibench.clusters.lab.deployment import LabDeployment
from cnibench.clusters.lab.ebpf import tc
from cnibench.clusters.lab.namespaces.netns import Namespace
from cnibench.system.bpf import call

_PROG_LOAD, _SCHED_CLS = 5, 3
# r0 = TC_ACT_OK; exit
_PASS = struct.pack("=BBhiBBhi", 0xB7, 0, 0, 0, 0x95, 0, 0, 0)
_LICENSE = ctypes.create_string_buffer(b"GPL")


@contextlib.contextmanager
def _passing() -> Iterator[int]:
    """The descriptor of a program that lets every packet pass as it is."""
    text = ctypes.create_string_buffer(_PASS, len(_PASS))
    request = struct.pack(
        "=IIQQIIQII",
        _SCHED_CLS,
        len(_PASS) // 8,
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
}
