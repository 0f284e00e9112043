"""A bundle's archive that was changed by somebody who knows how to seal it, and does not sign."""

from __future__ import annotations

import io
import re
import stat
import struct
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cnibench.reports.bundle import container
from tests.unit._bundles import Files, refusal
from tests.unit._tampering import FILES, PLAN, SAMPLES


def archive(more: Callable[[zipfile.ZipFile], None], files: Files = FILES) -> bytes:
    buffer = io.BytesIO(container.packed(files))
    with zipfile.ZipFile(buffer, "a", zipfile.ZIP_DEFLATED) as found, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of zipfile, for a name that is there twice
        more(found)
    return container.sealed(buffer.getvalue())


def member(
    name: str, content: bytes = b"x", mode: int = stat.S_IFREG | 0o644, **change: Any
) -> bytes:
    info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
    info.create_system, info.external_attr = 3, mode << 16
    info.compress_type = zipfile.ZIP_DEFLATED
    for key, value in change.items():
        setattr(info, key, value)
    return archive(lambda found: found.writestr(info, content, compress_type=info.compress_type))


def patched(offset: int, form: str, value: int, *, central: bool) -> bytes:
    """The number of the first file's header there replaced, in the list of files or before it."""
    data = bytearray(container.packed(FILES))
    at = data.index(b"PK\1\2") if central else 0
    struct.pack_into(form, data, at + offset, value)
    return container.sealed(bytes(data))


def between(at: bytes) -> bytes:
    """Some bytes hidden in front of the first ``at`` behind the first file; the list is mended."""
    data = container.packed(FILES)
    place = data.index(at, 4)
    grown = bytearray(data[:place] + b"hidden" + data[place:])
    end = grown.rindex(b"PK\5\6")
    start = struct.unpack_from("<L", grown, end + 16)[0]
    struct.pack_into("<L", grown, end + 16, start + 6)
    return container.sealed(bytes(grown))


def bomb() -> bytes:
    return archive(lambda found: None, FILES | {"zero.jsonl": bytes(24 << 20)})


CONTAINER: dict[str, tuple[Callable[[], bytes], str]] = {
    "a file outside": (lambda: member("../evil.jsonl"), "no file of a bundle"),
    "a file at the root": (lambda: member("/etc/cron.d/evil"), "no file of a bundle"),
    "a file in a folder": (lambda: member("raw/a/0/stdout"), "no file of a bundle"),
    "a backslash in a name": (lambda: member("..\\evil.jsonl"), "no file of a bundle"),
    "a folder": (lambda: member("raw/", b"", stat.S_IFDIR | 0o755), "no file of a bundle"),
    "an unknown file": (lambda: member("README"), "no file of a bundle"),
    "a script's name": (lambda: member("<script>.jsonl"), "no file of a bundle"),
    "a name that turns its direction": (lambda: member("\u202elnosj.x"), "no file of a bundle"),
    "a name of 10 kB": (lambda: member("x" * 10_000 + ".jsonl"), "no file of a bundle"),
    "a name with a zero": (lambda: member("x.jsonl").replace(b"x.jsonl", b"x\0jsonl"), "."),
    "a link": (lambda: member("link.jsonl", b"/etc/passwd", stat.S_IFLNK | 0o777), "link"),
    "a FIFO": (lambda: member("fifo.jsonl", b"", stat.S_IFIFO | 0o644), "link or another special"),
    "a device": (lambda: member("zero.jsonl", b"", stat.S_IFCHR | 0o644), "link or another"),
    "a file of another system": (lambda: member("x.jsonl", create_system=0), "link or another"),
    "a file twice": (lambda: member(SAMPLES, FILES[SAMPLES]), "there twice"),
    "two plans": (lambda: member(PLAN, FILES[PLAN]), "there twice"),
    "bzip2": (lambda: member("x.jsonl", compress_type=zipfile.ZIP_BZIP2), "unknown way"),
    "a comment on a file": (lambda: member("x.jsonl", comment=b"hello"), "hidden|not where"),
    "an extra field": (lambda: member("x.jsonl", extra=b"\x01\x99\0\0"), "hidden"),
    "marked as encrypted": (lambda: patched(8, "<H", 1, central=True), "encrypted"),
    "a size behind the file": (lambda: patched(8, "<H", 8, central=True), "encrypted"),
    "another checksum": (
        lambda: patched(16, "<L", 1, central=True),
        "cannot be read|not an archive",
    ),
    "a longer file than there is": (lambda: patched(24, "<L", 999_999, central=True), "long|read"),
    "a shorter file than there is": (lambda: patched(24, "<L", 10, central=True), "long|read"),
    "a file of 4 GiB": (lambda: patched(24, "<L", 0xFFFFFFFE, central=True), "unpack to"),
    "a file that begins elsewhere": (lambda: patched(42, "<L", 7, central=True), "hidden|read"),
    "another name in front of a file": (
        lambda: patched(30, "<B", 66, central=False),
        "read|hidden",
    ),
    "a hidden field in front of a file": (lambda: patched(28, "<H", 4, central=False), "hidden"),
    "bytes between the files": (lambda: between(b"PK\3\4"), "hidden|read"),
    "bytes behind the files": (lambda: between(b"PK\1\2"), "hidden"),
    "a bomb of zeros": (bomb, "unpack to"),
    "three hundred files": (
        lambda: archive(lambda found: None, FILES | {f"x{n}.jsonl": b"" for n in range(300)}),
        "more than 200 files",
    ),
}


@pytest.mark.parametrize("name", CONTAINER)
def test_changed_archives(name: str, tmp_path: Path) -> None:
    make, words = CONTAINER[name]
    assert re.search(words, refusal(tmp_path, make()))
