"""Makes the root directory the root of the mount namespace, too."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

from .command import run

_NEWNS = 0x00020000
_REC, _PRIVATE = 0x4000, 0x40000
_DETACH = 2


def ensure() -> None:
    """In a chroot, takes this process (and what it starts from now on) into a mount namespace whose
    root that directory is.

    What enters a container (`podman exec`) starts at the root of its mount namespace; in a chroot
    that is the root outside, as pivot_root(2) changes only the root directory of the caller.
    Elsewhere this does nothing.
    """
    which = ("findmnt", "--noheadings", "--output", "ID", "--mountpoint", "/")
    if run("nsenter", "--mount=/proc/self/ns/mnt", *which, limit=60) == run(*which, limit=60):
        return
    libc = ctypes.CDLL(None, use_errno=True)

    def call(name: str, *arguments: bytes | int | None) -> None:
        if getattr(libc, name)(*arguments):
            number = ctypes.get_errno()
            raise OSError(number, f"{name}: {os.strerror(number)}")

    call("unshare", _NEWNS)
    inside = os.open("/", os.O_PATH | os.O_DIRECTORY)
    namespace = os.open("/proc/thread-self/ns/mnt", os.O_RDONLY)
    try:
        folder = Path.cwd()
        call("setns", namespace, _NEWNS)
        call("mount", None, b"/", None, _REC | _PRIVATE, None)
        os.fchdir(inside)
        call("pivot_root", b".", b".")
        call("umount2", b".", _DETACH)
        os.chdir(folder)
    finally:
        os.close(inside)
        os.close(namespace)
