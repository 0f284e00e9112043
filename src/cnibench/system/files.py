"""Opening files that somebody else may have written: regular files only, no links below a folder,
never more than a limit.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from cnibench.errors import InputError

_ONLY_REGULAR = (
    os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
)  # a FIFO without a writer must not block the open
_PIECE = 1 << 20  # bytes
_DRAFT = re.compile(r"\.(.+)\.[0-9a-f]{8}\.new")


def open_beneath(
    folder: Path, name: str | Path, flags: int = os.O_RDONLY, mode: int = 0o644
) -> int:
    """A descriptor of the regular file ``name`` below ``folder``, no component of which is a
    symbolic link.

    ``folder`` itself was named by the user and may be reached by a link. Raises FileNotFoundError
    when there is no such file, InputError when ``name`` leaves the folder, is or passes a link, or
    is not a regular file; OSError for the rest.
    """
    parts = _inside(folder, name)
    at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts[:-1]:
            inner = _open_one(
                folder, name, part, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, 0, at
            )
            os.close(at)
            at = inner
        return _regular(
            _open_one(folder, name, parts[-1], flags | _ONLY_REGULAR, mode, at),
            os.path.join(folder, name),
        )
    finally:
        os.close(at)


def open_named(path: Path) -> int:
    """A descriptor for reading a file that the user named; links are followed, only a regular file
    is opened.

    Raises InputError when it is something else, OSError when it cannot be opened.
    """
    return _regular(os.open(path, os.O_RDONLY | _ONLY_REGULAR), path, "is this the right file?")


def read_beneath(folder: Path, name: str | Path, limit: int) -> bytes:
    """All bytes of ``open_beneath``'s file. Raises InputError above ``limit`` bytes, and as
    ``open_beneath``.
    """
    return _read(open_beneath(folder, name), os.path.join(folder, name), limit)


def read_named(path: Path, limit: int) -> bytes:
    """All bytes of ``open_named``'s file. Raises InputError above ``limit`` bytes, and as
    ``open_named``.
    """
    return _read(open_named(path), path, limit)


def output_file(path: Path) -> int:
    """A descriptor of a new, empty file that only its owner may read: output names programs,
    addresses and machines.
    """
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)


def write_private(path: Path, content: str | bytes) -> None:
    """Writes a whole file as ``output_file`` makes it."""
    with open(output_file(path), "wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)


def make_private(folder: Path) -> None:
    """Nobody but the owner reads ``folder`` and what is below it; what is gone or a link stays as
    it is.
    """
    for _, _, names, at in os.fwalk(folder):
        os.fchmod(at, 0o700)
        for name in names:
            try:
                file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | _ONLY_REGULAR, dir_fd=at)
            except OSError:
                continue
            try:
                os.fchmod(file, 0o600)
            finally:
                os.close(file)


def _open_one(folder: Path, name: str | Path, part: str, flags: int, mode: int, at: int) -> int:
    try:
        return os.open(part, flags | os.O_NOFOLLOW, mode, dir_fd=at)
    except OSError as error:
        if isinstance(error, FileNotFoundError):
            raise
        if _is_link(part, at):
            raise InputError(
                f"{folder / name}: is a symbolic link, or passes one",
                "copy the files themselves, not links to them",
            ) from None
        special = not flags & os.O_DIRECTORY and _is_special(part, at)
        if special or isinstance(error, NotADirectoryError | IsADirectoryError):
            raise InputError(
                f"{folder / name}: is not a regular file", "take the file from a complete copy"
            ) from None
        raise


def _is_link(part: str, at: int) -> bool:
    try:
        return stat.S_ISLNK(os.stat(part, dir_fd=at, follow_symlinks=False).st_mode)
    except OSError:
        return False


def _is_special(part: str, at: int) -> bool:
    """A socket or a device without a driver cannot be opened at all."""
    try:
        return not stat.S_ISREG(os.stat(part, dir_fd=at, follow_symlinks=False).st_mode)
    except OSError:
        return False


def _regular(
    descriptor: int, path: str | Path, remedy: str = "take the file from a complete copy"
) -> int:
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise InputError(f"{path}: is not a regular file", remedy)


def _read(descriptor: int, path: str | Path, limit: int) -> bytes:
    data = bytearray()
    with open(descriptor, "rb") as file:
        # in pieces: read(limit + 1) takes that much memory before it reads anything
        while len(data) <= limit and (piece := file.read(_PIECE)):
            data += piece
    if len(data) > limit:
        raise InputError(
            f"{path}: is larger than {limit:,} bytes", "is this really a file of that kind?"
        )
    return bytes(data)


def working_directory_is_gone() -> bool:
    """Was the folder removed that relative paths begin in?"""
    try:
        os.getcwd()
    except OSError:
        return True
    return False


def check_relative(path: Path) -> None:
    """Raises InputError when ``path`` is relative to a working directory that is gone."""
    if not path.is_absolute() and working_directory_is_gone():
        raise InputError("the working directory is gone", "change into a folder that exists")


def make_beneath(folder: Path, name: str | Path, mode: int = 0o777) -> int:
    """A descriptor of the folder ``name`` below ``folder``, made with ``mode`` where it is missing;
    no component may be a symbolic link.

    Raises InputError when one is, or is no folder; OSError for the rest.
    """
    parts = _inside(folder, name)
    at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts:
            try:
                os.mkdir(part, mode, dir_fd=at)
            except FileExistsError:
                pass
            inner = _open_one(
                folder, name, part, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, 0, at
            )
            os.close(at)
            at = inner
        return os.dup(at)
    finally:
        os.close(at)


def replace_beneath(folder: Path, name: str, data: bytes) -> None:
    """Writes the file ``name`` in ``folder``: it is the old or the new one, whatever happens; a
    link there is replaced.

    Raises InputError as ``open_beneath``, OSError when it cannot be written; then nothing is left.
    """
    _inside(folder, name)
    import secrets  # it takes longer than all that a shell's completion needs of this module

    draft = f".{name}.{secrets.token_hex(4)}.new"
    at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            descriptor = os.open(
                draft,
                os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC,
                0o644,
                dir_fd=at,
            )
            with open(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.rename(draft, name, src_dir_fd=at, dst_dir_fd=at)
        except OSError:
            with suppress(FileNotFoundError):
                os.unlink(draft, dir_fd=at)
            raise
        os.fsync(at)
    finally:
        os.close(at)


def remove_drafts(folder: Path, ours: Callable[[str], bool]) -> None:
    """Removes what ``replace_beneath`` left when it was killed, for the files that are ``ours``.
    Nobody else may be writing there. Raises OSError.
    """
    at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for entry in os.listdir(at):
            draft = _DRAFT.fullmatch(entry)
            if (
                draft
                and ours(draft[1])
                and stat.S_ISREG(os.stat(entry, dir_fd=at, follow_symlinks=False).st_mode)
            ):
                os.unlink(entry, dir_fd=at)
    finally:
        os.close(at)


def _inside(folder: Path, name: str | Path) -> tuple[str, ...]:
    text = os.fspath(name)
    parts = tuple(part for part in text.split("/") if part not in ("", "."))
    if not parts or text.startswith("/") or ".." in parts or "\0" in text:
        raise InputError(
            f"{folder}: '{name}' is not a path inside this folder",
            "copy the folder again from where it was written",
        )
    return parts
