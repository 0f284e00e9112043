"""Archives in cpio's format ``newc``, which the kernel unpacks as its first root
(Documentation/driver-api/early-userspace/buffer-format.rst).
"""

from __future__ import annotations

import stat
from collections.abc import Iterator, Mapping
from pathlib import Path


def pack(files: Mapping[str, tuple[int, bytes]], folders: set[str]) -> bytes:
    """An archive of these files (path without a leading slash: mode, content), of the folders that
    they are in, of ``folders``, and of /dev/console.
    """
    above = {str(parent) for path in files for parent in Path(path).parents} - {"."}
    return b"".join(_entries(files, sorted(above | folders | {"dev"})))


def _entries(files: Mapping[str, tuple[int, bytes]], folders: list[str]) -> Iterator[bytes]:
    number = 0
    for folder in folders:
        number += 1
        yield _entry(number, folder, stat.S_IFDIR | 0o755, b"")
    number += 1
    yield _entry(number, "dev/console", stat.S_IFCHR | 0o600, b"", device=(5, 1))
    for name, (mode, data) in files.items():
        number += 1
        yield _entry(number, name, stat.S_IFREG | mode, data)
    yield _entry(0, "TRAILER!!!", 0, b"")


def _entry(
    number: int, name: str, mode: int, data: bytes, device: tuple[int, int] = (0, 0)
) -> bytes:
    encoded = name.encode() + b"\0"
    links = 2 if stat.S_ISDIR(mode) else 1
    fields = (number, mode, 0, 0, links, 0, len(data), 0, 0, *device, len(encoded), 0)
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + encoded
    return head + bytes(-len(head) % 4) + data + bytes(-len(data) % 4)
