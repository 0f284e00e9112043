"""Between two cells: what the last one left in the kernel goes, so that the next one begins as the
first one did.

Connection tracking entries are removed by one ctnetlink message (IPCTNL_MSG_CT_DELETE without a
tuple: all of the namespace), closing TCP sockets by SOCK_DESTROY (sock_diag(7)), as ``ss --kill``
does. Where the kernel has neither, they stay and end by themselves; the workload that needs free
ports counts them itself.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import socket
import struct
from collections.abc import Iterator, Sequence

from cnibench.clusters.lab.namespaces.netns import Namespace
from cnibench.errors import ClusterError

_REQUEST, _ACK, _DUMP = 0x1, 0x4, 0x300
_NETFILTER, _SOCK_DIAG = 12, 4  # protocols of AF_NETLINK
_CT_DELETE = 1 << 8 | 2  # NFNL_SUBSYS_CTNETLINK, IPCTNL_MSG_CT_DELETE
_BY_FAMILY, _DESTROY = 20, 21
_ERROR, _DONE = 2, 3
_CLOSING = sum(
    1 << state for state in (4, 5, 6, 9, 11)
)  # FIN_WAIT1, FIN_WAIT2, TIME_WAIT, LAST_ACK, CLOSING (include/net/tcp_states.h)
_AT_ONCE = 256  # requests of one message
_ABSENT = (errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS, errno.EPROTONOSUPPORT)


def drain(namespaces: Sequence[Namespace]) -> None:
    """Removes the namespaces' closing TCP sockets and connection tracking entries. Raises
    ClusterError.
    """
    for step in (
        _close_sockets,
        _forget_connections,
    ):  # sockets first: what still sends would be tracked again
        for ns in namespaces:
            try:
                with ns.inside():
                    step()
            except OSError as error:
                raise ClusterError(
                    f"{ns.name}: connections of the last cell cannot be removed:"
                    f" {error.strerror or error}"
                ) from None


def _close_sockets() -> None:
    if _closing():
        for family in (socket.AF_INET, socket.AF_INET6):
            _destroy(family)


def _forget_connections() -> None:
    with _netlink(_NETFILTER) as sock:
        if sock is None:
            return
        sock.send(
            struct.pack("=IHHII", 20, _CT_DELETE, _REQUEST | _ACK, 1, 0) + bytes(4)
        )  # struct nfgenmsg: any family
        kind, number = struct.unpack_from("=4xH10xi", sock.recv(8192))
        if kind == _ERROR and number and -number not in _ABSENT:
            raise OSError(-number, os.strerror(-number))


def _closing() -> bool:
    """Are there TIME_WAIT sockets at all? Asking for a list of none costs more, in the tens of
    namespaces of a run.
    """
    with open("/proc/thread-self/net/sockstat", encoding="ascii") as file:
        found = re.search(r"^TCP: .*?\btw (\d+)", file.read(), re.MULTILINE)
    return found is None or found[1] != "0"


def _destroy(family: int) -> None:
    with _netlink(_SOCK_DIAG) as asking, _netlink(_SOCK_DIAG) as telling:
        if asking is None or telling is None:
            return
        head = struct.pack("=BBBBI", family, socket.IPPROTO_TCP, 0, 0, _CLOSING)
        asking.send(
            struct.pack("=IHHII", 72, _BY_FAMILY, _REQUEST | _DUMP, 1, 0) + head + bytes(48)
        )
        found = list(_listed(asking))
        request = struct.pack("=IHHII", 72, _DESTROY, _REQUEST, 2, 0) + head
        for start in range(0, len(found), _AT_ONCE):
            try:
                telling.send(b"".join(request + which for which in found[start : start + _AT_ONCE]))
            except OSError as error:
                # an answer to each that has ended meanwhile is more than the buffer holds
                if error.errno != errno.ENOBUFS:
                    raise


def _listed(sock: socket.socket) -> Iterator[bytes]:
    """struct inet_diag_sockid of each socket that the kernel lists."""
    while True:
        data, at = sock.recv(1 << 18), 0
        while at < len(data):
            length, kind = struct.unpack_from("=IH", data, at)
            if kind in (_ERROR, _DONE):
                return
            yield data[at + 20 : at + 68]
            at += (length + 3) & ~3


@contextlib.contextmanager
def _netlink(protocol: int) -> Iterator[socket.socket | None]:
    """A socket of the calling thread's namespace; None where the kernel has no such protocol."""
    try:
        sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol)
    except OSError as error:
        if error.errno in _ABSENT:
            yield None
            return
        raise
    with sock:
        sock.settimeout(5.0)
        sock.connect((0, 0))
        yield sock
