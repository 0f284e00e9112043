"""The file itself: a ZIP archive of a run directory without raw output. Its comment is the seal:
the SHA-256 of everything before it, and the signature.

Any program for ZIP archives opens it. We read only archives as we write them: no encryption, no
links, nothing between the files, no names but those of a run directory (APPNOTE.TXT 6.3.10 of
PKWARE describes the format).
"""

from __future__ import annotations

import io
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

import msgspec

from cnibench.errors import InputError
from cnibench.rundir.chain import digest
from cnibench.rundir.schema import EVENTS, SEAL, is_document, is_lines
from cnibench.system.files import read_named

SUFFIX = ".cnibench"
CONTENTS = "bundle.json"  # which run, from which run directory, and its figures
STACKS = "stacks.json"  # the call stacks of its flame graphs
FORMAT, VERSION = "cnibench-bundle", 2  # 1: without call stacks

# Limits in bytes, of the file and of what it holds; real bundles shrink to a tenth or a fiftieth.
LARGEST_FILE, LARGEST_CONTENTS = 128 << 20, 512 << 20
MOST_RATIO, MOST_FILES = 200, 200
_SMALL = 1 << 20  # bytes of contents that any ratio is allowed for

_END = struct.Struct("<4s4H2LH")
_LOCAL, _CENTRAL = 30, 46  # bytes of a header without the name
_WHOLE = "take the bundle again from where it was published"
_DATE = (1980, 1, 1, 0, 0, 0)


class Seal(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The archive's comment. ``sha256`` is that of all bytes before the comment, with a comment's
    length of 0; ``signature`` is ssh-keygen's over ``message``, '' of an unsigned bundle.
    """

    format: str
    version: int
    sha256: str
    signature: str = ""


def safe_name(run: str) -> str:
    """The id of a run as the name of a file."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", run)[:100].lstrip(".") or "run"


def message(sha256: str, version: int = VERSION) -> str:
    """What is signed for an archive with that hash."""
    return f"{FORMAT} {version} sha256 {sha256}\n"


def packed(files: Mapping[str, bytes], before: bytes = b"") -> bytes:
    """The archive of these files, without a seal, behind those of the archive ``before``: the same
    files give the same bytes.
    """
    buffer = io.BytesIO(before)
    with zipfile.ZipFile(buffer, "a", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for name in sorted(files):
            info = zipfile.ZipInfo(name, _DATE)
            info.create_system, info.external_attr = 3, (stat.S_IFREG | 0o644) << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, files[name])
    return buffer.getvalue()


def sealed(archive: bytes, signature: str = "") -> bytes:
    """The bundle: the archive with its seal."""
    seal = Seal(format=FORMAT, version=VERSION, sha256=digest(archive), signature=signature)
    comment = msgspec.json.encode(seal)
    return archive[:-2] + struct.pack("<H", len(comment)) + comment


def read(path: Path) -> bytes:
    """The bytes of a bundle. Raises InputError when it cannot be read or is too large."""
    try:
        return read_named(path, LARGEST_FILE)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}", "check the path") from None


def opened(path: Path, data: bytes) -> tuple[Seal, dict[str, bytes]]:
    """The seal, and the files by their names. Raises InputError for what is no bundle, was changed,
    or is larger than a bundle may be; nothing is written.
    """
    archive, comment = _split(path, data)
    seal = _seal(path, comment)
    if digest(archive) != seal.sha256:
        raise InputError(f"{path}: it was changed: its bytes do not have the seal's hash", _WHOLE)
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as found:
            infos = found.infolist()
            _check(path, infos, archive)
            return seal, {info.filename: _content(path, found, info) for info in infos}
    except (
        zipfile.BadZipFile,
        zlib.error,
        struct.error,
        NotImplementedError,
        EOFError,
        ValueError,
        OverflowError,
    ) as error:
        raise InputError(f"{path}: not an archive that can be read: {error}", _WHOLE) from None


def summary(path: Path, data: bytes) -> tuple[Seal, dict[str, int]]:
    """The seal of a bundle that was just made, and its files with their sizes in bytes. Nothing is
    verified.
    """
    archive, comment = _split(path, data)
    with zipfile.ZipFile(io.BytesIO(archive)) as found:
        return _seal(path, comment), {info.filename: info.file_size for info in found.infolist()}


def _split(path: Path, data: bytes) -> tuple[bytes, bytes]:
    """(the archive with an empty comment, the comment)"""
    at = data.rfind(b"PK\5\6")
    if not data.startswith(b"PK\3\4") or at < 0 or len(data) < at + _END.size:
        if data.startswith(b"PK\3\4"):
            raise InputError(f"{path}: it is cut off", _WHOLE)
        raise InputError(f"{path}: not a bundle", f"'cnibench bundle RUN' writes *{SUFFIX}")
    _, disk, first, here, total, size, start, length = _END.unpack_from(data, at)
    if at + _END.size + length != len(data):
        raise InputError(f"{path}: it is cut off, or something was appended to it", _WHOLE)
    if disk or first or here != total or start + size != at or total == 0xFFFF:
        raise InputError(f"{path}: its list of files is not where it should be", _WHOLE)
    return data[: at + _END.size - 2] + b"\0\0", data[at + _END.size :]


def _seal(path: Path, comment: bytes) -> Seal:
    try:
        loose = msgspec.json.decode(comment, type=dict[str, object])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError):
        raise InputError(f"{path}: it has no seal", "is this a bundle of cnibench?") from None
    version = loose.get("version")
    if loose.get("format") != FORMAT or not isinstance(version, int) or version < 1:
        raise InputError(f"{path}: it has no seal", "is this a bundle of cnibench?")
    if version > VERSION:
        raise InputError(
            f"{path}: written by a newer cnibench (bundle version {version}, this one reads up to"
            f" {VERSION})",
            "install a newer cnibench",
        )
    try:
        seal = msgspec.convert(loose, Seal)
    except msgspec.ValidationError as error:
        raise InputError(f"{path}: its seal was changed: {error}", _WHOLE) from None
    if msgspec.json.encode(seal) != comment:
        raise InputError(
            f"{path}: its seal was changed: it is not in the form that cnibench writes", _WHOLE
        )
    return seal


def _check(path: Path, infos: list[zipfile.ZipInfo], archive: bytes) -> None:
    """Raises InputError unless these are files of a run, one behind the other, of a size that a
    bundle may have.
    """
    names = [info.filename for info in infos]
    if len(names) > MOST_FILES:
        raise InputError(f"{path}: more than {MOST_FILES} files", _WHOLE)
    at = 0
    for info in infos:
        name = info.filename
        shown = f"{name[:80]!a}"
        if not (name in (CONTENTS, STACKS, EVENTS, SEAL) or is_document(name) or is_lines(name)):
            raise InputError(f"{path}: {shown} is no file of a bundle", _WHOLE)
        if names.count(name) > 1:
            raise InputError(f"{path}: {shown} is there twice", _WHOLE)
        kind = stat.S_IFMT(info.external_attr >> 16)
        if info.create_system != 3 or kind != stat.S_IFREG:
            raise InputError(f"{path}: {shown} is a link or another special file", _WHOLE)
        if info.flag_bits or info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise InputError(f"{path}: {shown} is encrypted, or packed in an unknown way", _WHOLE)
        length = struct.unpack_from("<2H", archive, info.header_offset + _LOCAL - 4)
        if info.header_offset != at or info.extra or info.comment or length != (len(name), 0):
            raise InputError(f"{path}: something is hidden around {shown}", _WHOLE)
        at += _LOCAL + len(name) + info.compress_size
    listed = sum(_CENTRAL + len(name) for name in names)
    if at + listed + _END.size != len(archive):
        raise InputError(f"{path}: something is hidden behind its files", _WHOLE)
    contents = sum(info.file_size for info in infos)
    if contents > min(LARGEST_CONTENTS, max(_SMALL, MOST_RATIO * len(archive))):
        raise InputError(
            f"{path}: it would unpack to {contents:,} bytes, more than a bundle may have", _WHOLE
        )


def _content(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """A file of the archive; never more than the size that was checked."""
    with archive.open(info) as file:
        content = file.read(info.file_size)
        if len(content) != info.file_size or file.read(1):
            raise InputError(f"{path}: {info.filename} is not as long as the archive says", _WHOLE)
    return content
