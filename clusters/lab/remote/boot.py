"""Program: the first on a machine, sent over ssh, as root. It unpacks cnibench into memory of its
own, makes a tree of namespaces (clusters/lab/namespaces/tree.py) and becomes, in it, the program
that its arguments name. Standard library only.

Nothing of it is on the machine's disk, and all of it ends with this process, which ends when its
standard input does: the folder is a tmpfs that is mounted in a mount namespace of its own.

Read from standard input after the program itself: 8 digits, and a tar archive of so many bytes.
"""

from __future__ import annotations

import ctypes
import io
import os
import socket
import sys
import tarfile

FOLDER = "/mnt"  # where the tmpfs is, for these processes alone
LOCK = "\0cnibench-lab"  # an abstract name: it belongs to the machine, and ends with its holder
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_NEWNS = 0x00020000
_BIND, _REC, _PRIVATE = 4096, 16384, 1 << 18


def _mount(source: str, kind: str, target: str, flags: int, options: str = "") -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    words = [one.encode() for one in (source, target, kind)]
    if libc.mount(*words, ctypes.c_ulong(flags), options.encode()):
        raise SystemExit(f"{target} cannot be mounted: {os.strerror(ctypes.get_errno())}")


def _read(size: int) -> bytes:
    parts = []
    while size:
        part = os.read(0, min(size, 1 << 20))
        if not part:
            raise SystemExit("the connection ended")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def main(argv: list[str]) -> None:
    """``argv`` is the folder of the libraries ('-': they are in the archive), and what is run in
    the tree.
    """
    libraries, *argv = argv
    mark = socket.socket(socket.AF_UNIX)
    try:
        mark.bind(LOCK)
    except OSError:
        raise SystemExit("another run of cnibench's lab uses this machine") from None
    libc = ctypes.CDLL(None, use_errno=True)
    network = os.open("/proc/self/ns/net", os.O_RDONLY)
    if libc.unshare(_NEWNS):
        raise SystemExit(f"no mount namespace: {os.strerror(ctypes.get_errno())}")
    _mount("none", "", "/", _REC | _PRIVATE)
    _mount("tmpfs", "tmpfs", FOLDER, 0, "mode=755")
    with open(f"{FOLDER}/machine", "w", encoding="ascii"):
        pass
    _mount(f"/proc/self/fd/{network}", "", f"{FOLDER}/machine", _BIND)
    os.close(network)
    packed = io.BytesIO(_read(int(_read(8))))
    with tarfile.open(fileobj=packed) as archive:
        archive.extractall(f"{FOLDER}/code")
    paths = [f"{FOLDER}/code", *([libraries] if libraries != "-" else [])]
    sys.path[:0] = paths
    os.environ["CNIBENCH_PATHS"] = os.pathsep.join(paths)  # for the programs that follow
    os.environ["PATH"] = _PATH
    from cnibench.clusters.lab.namespaces import tree

    def become() -> int:
        os.execv(argv[0], argv)

    sys.exit(tree.carry(become))


if __name__ == "__main__":
    main(sys.argv[1:])
