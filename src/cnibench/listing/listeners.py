"""Sockets that cost packets or connections time because they are there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

_NET = Path("/proc/thread-self/net")
_ALL = 0x0003  # ETH_P_ALL of include/uapi/linux/if_ether.h
_PROTOCOLS = {6: "TCP", 17: "UDP"}
# Netlink protocols, and the groups that are told of connections: NFNLGRP_CONNTRACK_NEW, _UPDATE and
# _DESTROY of include/uapi/linux/netfilter/nfnetlink_compat.h; all of sock_diag(7).
_TOLD = {12: ("conntrack", 0x7), 4: ("sockets that end", 0xFFFFFFFF)}


def listeners(names: Mapping[int, str]) -> list[str]:
    """Those of the calling thread's namespace: packet sockets that receive all protocols, as
    tcpdump's does, raw sockets of TCP and UDP, and netlink sockets that are told of connections, as
    that of 'conntrack -E' is. Packet sockets of single protocols, which DHCP clients and probes
    open now and then, are not among them.
    """
    found = []
    for words in _sockets("packet"):  # sk RefCnt Type Proto Iface ...
        index = int(words[4])
        if int(words[3], 16) == _ALL and (not index or index in names):
            where = names[index] if index else "all devices"
            found.append(f"a packet socket on {where}")
    for file in ("raw", "raw6"):  # sl local_address ..., whose port is the protocol
        for words in _sockets(file):
            protocol = _PROTOCOLS.get(int(words[1].rpartition(":")[2], 16))
            found += [f"a {file} socket of {protocol}"] * bool(protocol)
    for words in _sockets("netlink"):  # sk Eth Pid Groups ...
        what, groups = _TOLD.get(int(words[1]), ("", 0))
        found += [f"a netlink socket about {what}"] * bool(int(words[3], 16) & groups)
    return sorted(found)


def _sockets(file: str) -> Iterator[list[str]]:
    """The lines of a table without its head; none where the kernel has no such sockets."""
    try:
        lines = (_NET / file).read_text(encoding="ascii").splitlines()
    except FileNotFoundError:
        return
    yield from (line.split() for line in lines[1:])
