"""Attaching programs at a device: at tc (clsact, direct action) through netlink, which works on
every kernel since 4.5, or by TCX through bpf(2), since 6.6.
"""

from __future__ import annotations

import errno
import socket
import struct
from functools import cache

from cnibench.clusters.lab.namespaces import links
from cnibench.clusters.lab.namespaces.netns import Namespace
from cnibench.errors import ClusterError
from cnibench.system.bpf import call

_PARENT = {
    "ingress": 0xFFFFFFF2,
    "egress": 0xFFFFFFF3,
}  # TC_H_CLSACT with TC_H_MIN_INGRESS, TC_H_MIN_EGRESS
_TCX = {"ingress": 46, "egress": 47}  # BPF_TCX_INGRESS, BPF_TCX_EGRESS
_PROG_ATTACH, _PROG_QUERY = 8, 16
_USUAL = 2  # priority of a CNI's programs


@cache
def has_tcx() -> bool:
    """Does this kernel have TCX?"""
    loopback = socket.if_nametoindex("lo")
    try:
        call(_PROG_QUERY, struct.pack("=IIIIQIIQQQQ", loopback, _TCX["ingress"], *[0] * 9))
    except OSError:
        return False
    return True


def attach_tcx(ns: Namespace, device: str, hook: str, name: str, program: int) -> None:
    """The program (a descriptor) at ``hook`` (ingress, egress) of a device, until the device goes.
    Raises ClusterError.
    """
    index = links.index(ns, device)
    request = struct.pack("=IIIIIIQ", index, program, _TCX[hook], 0, 0, 0, 0)
    try:
        with ns.inside():
            call(_PROG_ATTACH, request)
    except OSError as error:
        raise ClusterError(f"{ns.name}: the program {name} at {device}: {error.strerror}") from None


def attach(
    ns: Namespace,
    device: str,
    hook: str,
    name: str,
    program: int,
    number: int = 0,
    priority: int = _USUAL,
) -> None:
    """The program (a descriptor) at ``hook`` (ingress, egress) of a device; it finds ``number`` (16
    bits) in ``skb->tc_classid``. Programs of a lower ``priority`` run first.

    Raises ClusterError.
    """
    from pyroute2.netlink.exceptions import NetlinkError

    index = links.index(ns, device)
    words = {"classid": number} if number else {}
    try:
        try:
            ns.ipr.tc("add", "clsact", index)
        except NetlinkError as error:  # another hook of this device has a program already
            if error.code != errno.EEXIST:
                raise
        ns.ipr.tc(
            "add-filter",
            "bpf",
            index,
            1,
            fd=program,
            name=name,
            parent=_PARENT[hook],
            direct_action=True,
            prio=priority,
            **words,
        )
    except NetlinkError as error:
        said = error.args[1] if len(error.args) > 1 else error
        raise ClusterError(f"{ns.name}: the program {name} at {device}: {said}") from None
