"""A chroot's root made the root of a mount namespace: the kernel lets nobody in a chroot make a
user namespace (user_namespaces(7)).
"""

from __future__ import annotations

import contextlib
import ctypes
import os

_CLONE_NEWNS = 0x00020000
_MS_BIND, _MS_REC, _MS_PRIVATE = 4096, 16384, 1 << 18
_MNT_DETACH = 2
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}  # no libc wraps it
_libc = ctypes.CDLL(None, use_errno=True)


def own_root() -> None:
    """Makes the calling thread's root the root of its mount namespace, which must be its own (just
    unshared); nothing where it is that already. Where the kernel refuses, the chroot stays what it
    was. Needs root.
    """
    number = _PIVOT_ROOT.get(os.uname().machine)
    if number is None:
        return
    here, folder = os.open("/", os.O_PATH | os.O_DIRECTORY), os.getcwd()
    namespace = os.open("/proc/thread-self/ns/mnt", os.O_RDONLY)
    try:
        if _libc.setns(
            namespace, _CLONE_NEWNS
        ):  # root and working directory become the namespace's own (setns(2))
            return
        if not os.path.samestat(os.stat("/"), os.fstat(here)):
            os.fchdir(here)
            if not _pivoted(number, os.getcwd()):
                os.fchdir(here)
                os.chroot(".")
        with contextlib.suppress(OSError):
            os.chdir(folder)
    finally:
        os.close(here)
        os.close(namespace)


def _pivoted(number: int, path: str) -> bool:
    """Whether ``path``, seen from the namespace's root, is its root now, and what was above is gone
    from it.
    """
    where = path.encode()
    if _libc.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None):
        return False
    if _libc.mount(where, where, None, _MS_BIND | _MS_REC, None):
        return False
    os.chdir(path)  # into the mount just made
    if _libc.syscall(number, b".", b"."):
        _libc.umount2(where, _MNT_DETACH)
        return False
    _libc.umount2(
        b".", _MNT_DETACH
    )  # the old root lies on top of the new one there (pivot_root(2))
    os.chdir("/")
    return True
