"""The calling thread in another namespace, and back (setns(2) moves a thread, not a process)."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator
from typing import Literal

from cnibench.errors import ClusterError

Kind = Literal["net", "pid"]
CLONE_NEWPID, CLONE_NEWNET = 0x20000000, 0x40000000
_FLAGS = {"net": CLONE_NEWNET, "pid": CLONE_NEWPID}
_WORDS = {"net": "network", "pid": "PID"}
_libc = ctypes.CDLL(None, use_errno=True)


def enter(fd: int, kind: Kind = "net") -> None:
    """``fd`` is a namespace of that kind. Raises ClusterError."""
    if _libc.setns(fd, _FLAGS[kind]):
        raise ClusterError(
            f"a {_WORDS[kind]} namespace cannot be entered: {os.strerror(ctypes.get_errno())}"
        )


@contextlib.contextmanager
def inside(fd: int, kind: Kind = "net") -> Iterator[None]:
    """Of a network namespace: sockets, and files of /proc/thread-self/net, that are opened in the
    block stay there. Of a PID namespace: programs that are started in the block are there. Raises
    ClusterError.
    """
    home = os.open(f"/proc/thread-self/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        enter(fd, kind)
        yield
    finally:
        enter(home, kind)
        os.close(home)
