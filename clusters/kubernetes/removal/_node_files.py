"""Program: lists, archives, removes and keeps files of a node for cnibench. Standard library only;
sent over the connection, asked in JSON on its standard input, answers in JSON.

It sees the node's files as the node does (chroot), and no link is ever followed: a folder on the
way that is one ends the way.
"""

from __future__ import annotations

import base64
import fnmatch
import io
import json
import os
import stat
import sys
import tarfile
from collections.abc import Iterator
from typing import Any

MOST = 100_000  # paths in a list
LARGEST = 1 << 26  # bytes of a file that is read
ENTRY = 1024  # bytes that an archive has for each entry, at most, beside its data
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Files:
    """``kept`` are paths that stay, whatever is asked."""

    def __init__(self, kept: list[str]) -> None:
        self.kept = set(kept)
        self.failed: list[str] = []

    def matches(self, pattern: str) -> Iterator[tuple[int, str, str]]:
        """(descriptor of the folder, its path, name) of all that is there; * and ? stand for
        anything within a name.
        """
        if not pattern.startswith("/") or ".." in pattern.split("/"):
            raise ValueError(f"{pattern}: not a path that can be looked for")
        root = os.open("/", FOLDER)
        try:
            yield from self._matches(root, "", pattern.strip("/").split("/"))
        finally:
            os.close(root)

    def _matches(self, folder: int, path: str, parts: list[str]) -> Iterator[tuple[int, str, str]]:
        try:
            names = (
                sorted(fnmatch.filter(os.listdir(folder), parts[0]))
                if set(parts[0]) & set("*?[")
                else [parts[0]]
            )
        except OSError:
            return
        for name in names:
            try:
                mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
            except OSError:
                continue
            if len(parts) == 1:
                yield folder, path, name
            elif stat.S_ISLNK(mode):
                self.failed.append(f"{path}/{name} is a link, which is not followed")
            elif stat.S_ISDIR(mode):
                inner = os.open(name, FOLDER, dir_fd=folder)
                try:
                    yield from self._matches(inner, f"{path}/{name}", parts[1:])
                finally:
                    os.close(inner)

    def below(self, folder: int, path: str, name: str) -> Iterator[tuple[int, str, str]]:
        """It and all that is in it, on its file system: (descriptor of the folder, path, name).
        What goes meanwhile is left out.
        """
        own = f"{path}/{name}"
        try:
            mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
            inner = os.open(name, FOLDER, dir_fd=folder) if stat.S_ISDIR(mode) else -1
        except FileNotFoundError:
            return
        yield folder, own, name
        if inner >= 0:
            try:
                if os.fstat(inner).st_dev == os.fstat(folder).st_dev:
                    for each in os.listdir(inner):
                        yield from self.below(inner, own, each)
            finally:
                os.close(inner)

    def remove(self, folder: int, path: str, name: str) -> bool:
        """True when nothing of it is left."""
        own = f"{path}/{name}"
        try:
            if not stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                if own in self.kept:
                    return False
                os.unlink(name, dir_fd=folder)
                return True
            inner = os.open(name, FOLDER, dir_fd=folder)
            try:
                if os.fstat(inner).st_dev != os.fstat(folder).st_dev:
                    self.failed.append(f"{own} is of another file system")
                    return False
                left = [each for each in os.listdir(inner) if not self.remove(inner, own, each)]
            finally:
                os.close(inner)
            if left or own in self.kept:
                return False
            os.rmdir(name, dir_fd=folder)
            return True
        except FileNotFoundError:
            return True
        except OSError as error:
            self.failed.append(f"{own}: {error.strerror}")
            return False

    def rename(self, folder: int, path: str, name: str, new: str) -> None:
        """Nothing that has the new name is replaced, no link is made another file's name."""
        if f"{path}/{name}" in self.kept or not stat.S_ISREG(
            os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
        ):
            return
        try:
            os.link(name, new, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
            os.unlink(name, dir_fd=folder)
        except OSError as error:
            self.failed.append(f"{path}/{name}: {error.strerror}")


def below_all(patterns: list[str], kept: list[str]) -> Iterator[tuple[int, str, str]]:
    """All that ``patterns`` match and all below, each once, except ``kept``."""
    files, seen = Files([]), set(kept)
    for pattern in patterns:
        for match in files.matches(pattern):
            for folder, path, name in files.below(*match):
                if path not in seen:
                    seen.add(path)
                    yield folder, path, name
                if len(seen) > MOST + len(kept):
                    raise ValueError(f"{pattern}: more than {MOST} files")


def listed(asked: dict[str, Any]) -> dict[str, Any]:
    return {"found": [path for _, path, _ in below_all(asked["patterns"], asked["kept"])]}


def archived(asked: dict[str, Any]) -> dict[str, Any]:
    """The list, and a tar archive of it in base64, in the order of ``patterns``. Files larger than
    ``largest`` bytes, what is more than ``most`` bytes together, and what is no file, link or
    folder on a disk are ``unsaved``, each with the reason.
    """
    found = list[str]()
    unsaved = dict[str, str]()
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for folder, path, name in below_all(asked["patterns"], asked["kept"]):
            found.append(path)
            try:
                info, data = entry(folder, path, name, asked["largest"])
            except (OSError, ValueError) as error:
                unsaved[path] = getattr(error, "strerror", None) or str(error)
                continue
            if buffer.tell() + len(data) + ENTRY > asked["most"]:
                unsaved[path] = f"more than {asked['most']} bytes together"
            else:
                archive.addfile(info, io.BytesIO(data))
    tar = base64.b64encode(buffer.getvalue()).decode()
    return {"found": found, "tar": tar, "unsaved": unsaved}


def entry(folder: int, path: str, name: str, largest: int) -> tuple[tarfile.TarInfo, bytes]:
    """Of one file, link or folder. Raises OSError, and ValueError for what is not saved."""
    if path.startswith("/sys/"):
        raise ValueError("an object of the kernel")
    info = tarfile.TarInfo(path.lstrip("/"))
    about, data = os.stat(name, dir_fd=folder, follow_symlinks=False), b""
    if stat.S_ISDIR(about.st_mode):
        info.type = tarfile.DIRTYPE
    elif stat.S_ISLNK(about.st_mode):
        info.type, info.linkname = tarfile.SYMTYPE, os.readlink(name, dir_fd=folder)
    elif stat.S_ISREG(about.st_mode):
        descriptor = os.open(
            name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder
        )
        with os.fdopen(descriptor, "rb") as file:
            about = os.fstat(descriptor)
            data = file.read(largest + 1) if stat.S_ISREG(about.st_mode) else b""
        if len(data) > largest:
            raise ValueError(f"{about.st_size} bytes")
    if not (info.isdir() or info.issym() or stat.S_ISREG(about.st_mode)):
        raise ValueError("a socket, pipe or device")
    info.mode, info.mtime, info.size = stat.S_IMODE(about.st_mode), about.st_mtime, len(data)
    info.uid, info.gid = about.st_uid, about.st_gid
    return info, data


def removed(asked: dict[str, Any]) -> dict[str, Any]:
    """``patterns`` with all below go, except ``kept``; what ends in ``backups`` gets its name back;
    ``empty`` folders go if they are.
    """
    files = Files(asked["kept"])
    for pattern in asked["patterns"]:
        for match in files.matches(pattern):
            files.remove(*match)
    ending = asked["backups"]
    for folder, path, name in files.matches(f"/etc/cni/net.d/*{ending}") if ending else ():
        files.rename(folder, path, name, name.removesuffix(ending))
    for pattern in asked["empty"]:
        for folder, path, name in files.matches(pattern):
            if f"{path}/{name}" not in files.kept:
                try:
                    os.rmdir(name, dir_fd=folder)
                except OSError:
                    pass  # somebody has something in it, or it is no folder
    return {"failed": files.failed}


def networks(asked: dict[str, Any]) -> dict[str, Any]:
    """The names of the networks of the CNI configurations among ``patterns``."""
    found = set[str]()
    for folder, path, name in below_all(asked["patterns"], asked["kept"]):
        if path.startswith("/etc/cni/net.d/"):
            about = parsed(folder, name)
            found |= {str(about["name"])} if "name" in about else set()
    return {"found": sorted(found)}


def results(asked: dict[str, Any]) -> dict[str, Any]:
    """What libcni keeps of Pods of these ``networks`` (libcni/api.go) whose network namespaces are
    all gone, except ``kept``.
    """
    found = list[str]()
    for folder, path, name in Files([]).matches("/var/lib/cni/results/*"):
        about = parsed(folder, name)
        result = about.get("result")
        devices = result.get("interfaces") if isinstance(result, dict) else None
        spaces = [about.get("netns")]
        spaces += [one.get("sandbox") for one in devices or () if isinstance(one, dict)]
        named = [one for one in spaces if isinstance(one, str) and one.startswith("/")]
        own = (
            about.get("networkName") in asked["networks"] and f"{path}/{name}" not in asked["kept"]
        )
        if own and named and not any(map(os.path.exists, named)):
            found.append(f"{path}/{name}")
    return {"found": found}


def parsed(folder: int, name: str) -> dict[str, Any]:
    """An object in a file; {} for anything else."""
    try:
        descriptor = os.open(
            name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder
        )
        with os.fdopen(descriptor, "rb") as file:
            about = json.loads(file.read(LARGEST))
    except (OSError, ValueError, RecursionError):
        return {}
    return about if isinstance(about, dict) else {}


def parent(path: str) -> tuple[int, str]:
    """(descriptor of a file's folder, made where it is not there, the file's name)."""
    *parts, name = path.strip("/").split("/")
    folder = os.open("/", FOLDER)
    for part in parts:
        try:
            os.mkdir(part, 0o700, dir_fd=folder)
        except FileExistsError:
            pass
        inner = os.open(part, FOLDER, dir_fd=folder)
        os.close(folder)
        folder = inner
    return folder, name


def saved(asked: dict[str, Any]) -> dict[str, Any]:
    """``text`` is on the disk under ``path``, or what was there before is."""
    folder, name = parent(asked["path"])
    part = f".{name}.{os.getpid()}"
    descriptor = os.open(
        part,
        os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC,
        0o600,
        dir_fd=folder,
    )
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(asked["text"])
        file.flush()
        os.fsync(file.fileno())
    os.rename(part, name, src_dir_fd=folder, dst_dir_fd=folder)
    os.fsync(folder)
    return {}


def loaded(asked: dict[str, Any]) -> dict[str, Any]:
    """The text of ``path``, None when there is no such file."""
    files = Files([])
    for folder, _, name in files.matches(asked["path"]):
        descriptor = os.open(
            name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder
        )
        with os.fdopen(descriptor, encoding="utf-8") as file:
            return {"text": file.read(LARGEST)}
    return {"text": None}


def main() -> None:
    asked = json.load(sys.stdin)
    os.chroot(asked["root"])
    os.chdir("/")
    work = {
        "list": listed,
        "archive": archived,
        "remove": removed,
        "save": saved,
        "load": loaded,
        "networks": networks,
        "results": results,
    }
    print(json.dumps(work[asked["do"]](asked)))


if __name__ == "__main__":
    main()
