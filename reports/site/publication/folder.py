"""Puts a finished site into a folder that may hold other things: only files that cnibench wrote are
replaced or removed.

The list ``.cnibench-site.json`` in the folder has the SHA-256 of every file that cnibench put
there. While files are put in place it has both the old and the new hash of each, so that after a
crash the next build still knows which files are its own.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import msgspec

from cnibench.errors import InputError, UsageError
from cnibench.system import scratch
from cnibench.system.files import check_relative, open_beneath, read_beneath

LIST = ".cnibench-site.json"
_SCHEMA = 1  # of the list
_OLD_LIST = "cnibench-site.json"  # of versions that kept no hashes
_PART = (  # a file being written; a crash may leave it, the next build replaces it
    ".cnibench-site.part"
)
_LARGEST_LIST = 64 * 1024 * 1024  # bytes
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NAMED = 5  # files named in one message


class _List(msgspec.Struct, kw_only=True):
    """``files``: path below the folder to the SHA-256 of each content that cnibench wrote there."""

    schema: int
    runs: list[str]
    files: dict[str, list[str]]


@dataclass(frozen=True)
class Placed:
    """Paths below the folder: ``kept`` were edited since cnibench wrote them, ``removed`` belonged
    to the site before.
    """

    kept: list[str]
    removed: list[str]
    bytes: int


def check(out: Path) -> None:
    """Raises UsageError when ``out`` can hold no site whatever is written, before the work of
    making it.
    """
    check_relative(out)
    if out.is_symlink() or (out.exists() and not out.is_dir()):
        raise UsageError(f"{out}: exists and is not a folder", "give --out another folder")
    if out.is_dir():
        _known(out)


@contextmanager
def drafted(out: Path) -> Iterator[Path]:
    """A folder beside ``out`` for the files of the site, removed afterwards. Raises InputError when
    something cannot be written meanwhile.
    """
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        scratch.remove_stale(near=out)  # of a site whose process was killed
        with scratch.folder(out) as draft:
            yield draft
    except OSError as error:
        raise InputError(
            f"{error.filename or out}: {error.strerror}",
            "set --out to a writable directory on a disk with free space",
        ) from None


def place(draft: Path, out: Path, runs: Sequence[str], *, force: bool = False) -> Placed:
    """Puts all files below ``draft`` into ``out`` and removes what an earlier site of cnibench had
    beyond them.

    Files that cnibench did not write stay. Its own files that were edited stay, too, unless
    ``force``. Raises UsageError, before anything is changed, when a link or a folder is where a
    file belongs, or (unless ``force``) somebody else's file; OSError when something cannot be
    written.
    """
    known = _known(out)
    wanted = {
        _utf8(path.relative_to(draft)): _sha256(os.open(path, os.O_RDONLY))
        for path in sorted(draft.rglob("*"))
        if path.is_file()
    }
    there = {name: _content(out, name) for name in {*wanted, *known}}
    kept = (
        []
        if force
        else [
            name
            for name in known
            if there[name] and there[name] not in {*known[name], wanted.get(name)}
        ]
    )
    if not force:
        _refuse_foreign(
            out,
            [
                name
                for name in wanted
                if there[name] not in ("", wanted[name]) and name not in known
            ],
        )
    change = [name for name in wanted if name not in kept and there[name] != wanted[name]]
    stale = sorted(name for name in known if name not in wanted and name not in kept)
    final = {name: known[name] if name in kept else [wanted[name]] for name in {*wanted, *kept}}
    out.mkdir(parents=True, exist_ok=True)
    with _open_folder(out) as root:
        both = {
            name: sorted({*known.get(name, ()), *final.get(name, ())}) for name in {*known, *final}
        }
        _write_list(root, runs, both)
        for name in change:
            _replace(root, name, draft / name)
        for name in stale:
            _remove(root, name)
        _write_list(root, runs, final)
    size = sum((draft / name).stat().st_size for name in wanted)
    return Placed(sorted(kept), [name for name in stale if there[name]], size)


def _known(out: Path) -> Mapping[str, list[str]]:
    """The files of the site that is there. Raises InputError for a list that cannot be trusted,
    UsageError for a site without one.
    """
    try:
        found = msgspec.json.decode(read_beneath(out, LIST, _LARGEST_LIST), type=_List)
    except FileNotFoundError:
        if os.path.lexists(out / _OLD_LIST):
            raise UsageError(
                f"{out}: this site was written by an older cnibench, which kept no list of its"
                " files",
                "give --out a new folder and move what is yours (.git, CNAME) there, or remove the"
                f" old pages and {_OLD_LIST} yourself",
            ) from None
        return {}
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(
            f"{out / LIST}: is not a list of a site: {error}", "give --out a new folder"
        ) from None
    if found.schema != _SCHEMA:
        raise InputError(
            f"{out / LIST}: schema {found.schema} is unknown",
            "use the version of cnibench that wrote it",
        )
    for name in found.files:
        if not _inside(name):
            raise InputError(
                f"{out / LIST}: '{name}' is not a path inside the site", "give --out a new folder"
            )
    return found.files


def _utf8(path: Path) -> str:
    try:
        path.as_posix().encode()
    except UnicodeEncodeError:
        raise InputError(
            f"{path!r}: the name of this file is not UTF-8", "leave --raw out, or rename the file"
        ) from None
    return path.as_posix()


def _inside(name: str) -> bool:
    path = PurePosixPath(name)
    return (
        bool(path.parts)
        and not path.is_absolute()
        and ".." not in path.parts
        and "\x00" not in name
        and path.as_posix() == name
    )


def _content(out: Path, name: str) -> str:
    """The SHA-256 of a file that is there, '' when none is. Raises UsageError for what is no file,
    or lies behind a link.
    """
    try:
        return _sha256(open_beneath(out, name))
    except FileNotFoundError:
        return ""
    except InputError as error:
        raise UsageError(
            error.message,
            "move it away, or give --out another folder; cnibench follows no links there",
        ) from None


def _sha256(descriptor: int) -> str:
    with open(descriptor, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _refuse_foreign(out: Path, names: Sequence[str]) -> None:
    if names:
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        raise UsageError(
            f"{out}: {', '.join(names[:_NAMED])}{more} already exists, and cnibench did not write"
            " it",
            "move it away, choose another folder with --out, or overwrite it with --force",
        )


@contextmanager
def _open_folder(path: Path) -> Iterator[int]:
    descriptor = os.open(path, _DIRECTORY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _parent(root: int, name: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
    """(descriptor of the folder that holds ``name``, its last part); no link is followed."""
    *folders, last = PurePosixPath(name).parts
    at = os.dup(root)
    try:
        for folder in folders:
            if make:
                try:
                    os.mkdir(folder, dir_fd=at)
                except FileExistsError:
                    pass
            inner = os.open(folder, _DIRECTORY, dir_fd=at)
            os.close(at)
            at = inner
        yield at, last
    finally:
        os.close(at)


def _replace(root: int, name: str, source: Path) -> None:
    """Either the old or the new file is there, whatever happens meanwhile."""
    with _part(root) as part, source.open("rb") as file, open(part, "wb") as into:
        shutil.copyfileobj(file, into)
        into.flush()
        os.fsync(into.fileno())
    with _parent(root, name, make=True) as (folder, last):
        os.replace(_PART, last, src_dir_fd=root, dst_dir_fd=folder)


@contextmanager
def _part(root: int) -> Iterator[int]:
    try:
        os.unlink(_PART, dir_fd=root)
    except FileNotFoundError:
        pass
    yield os.open(
        _PART,
        os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC,
        0o644,
        dir_fd=root,
    )


def _remove(root: int, name: str) -> None:
    """A file, and the folders that are empty without it; they may be gone already."""
    try:
        with _parent(root, name) as (folder, last):
            os.unlink(last, dir_fd=folder)
    except FileNotFoundError:
        pass
    for above in PurePosixPath(name).parents:
        if above.parts:
            try:
                with _parent(root, above.as_posix()) as (folder, last):
                    os.rmdir(last, dir_fd=folder)
            except FileNotFoundError:
                pass
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
                return


def _write_list(root: int, runs: Sequence[str], files: Mapping[str, Sequence[str]]) -> None:
    content = _List(
        schema=_SCHEMA, runs=list(runs), files={name: list(files[name]) for name in sorted(files)}
    )
    with _part(root) as part, open(part, "wb") as into:
        into.write(msgspec.json.format(msgspec.json.encode(content), indent=1) + b"\n")
        into.flush()
        os.fsync(into.fileno())
    os.replace(_PART, LIST, src_dir_fd=root, dst_dir_fd=root)
    os.fsync(root)
