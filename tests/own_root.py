"""For programs of tests that make a user namespace, which the kernel refuses to who is in a chroot (EPERM of unshare(2))."""

from __future__ import annotations

import ctypes
import os

_CLONE_NEWNS = 0x00020000
_MS_BIND, _MS_MOVE, _MS_REC, _MS_PRIVATE = 4096, 8192, 16384, 1 << 18
_libc = ctypes.CDLL(None, use_errno=True)


def own_root() -> None:
    """Out of a chroot without leaving its files: they become the root of a mount namespace of our own. Does nothing where there is none.

    Entering a mount namespace leaves a chroot (setns(2)); then as switch_root(8) does.
    """
    folder = os.getcwd()
    _done(_libc.unshare(_CLONE_NEWNS))
    root = os.open("/", os.O_PATH | os.O_DIRECTORY)
    here = os.open("/proc/self/ns/mnt", os.O_RDONLY)
    _done(_libc.setns(here, _CLONE_NEWNS))
    os.close(here)
    os.fchdir(root)
    os.close(root)
    path = os.getcwd()
    _mount("none", "/", _MS_REC | _MS_PRIVATE)
    if path != "/":
        _mount(path, path, _MS_BIND | _MS_REC)
        os.chdir(path)
        _mount(path, "/", _MS_MOVE)
        os.chroot(".")
    os.chdir(folder)


def _mount(source: str, target: str, flags: int) -> None:
    _done(_libc.mount(source.encode(), target.encode(), None, ctypes.c_ulong(flags), None))


def _done(status: int) -> None:
    if status:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
