"""The files of a run directory that is being written: appended to, replaced, moved aside and
synced. Whatever fails there ends the run, with what is finished on the disk.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cnibench.errors import InputError, MeasureError, UsageError
from cnibench.rundir.chain import digest
from cnibench.rundir.schema import EVENTS, LOG, LONGEST_DOCUMENT, REPORT, SEAL, is_document
from cnibench.system.files import (
    make_beneath,
    open_beneath,
    read_beneath,
    remove_drafts,
    replace_beneath,
)

CHUNK = 1 << 20  # bytes that are read at once
_ROOM = 64 * 1024  # bytes


class FullError(MeasureError):
    """The run directory cannot be written any more; what is finished is kept, the run can be
    resumed.
    """


class RunFiles:
    """The files of the run directory ``path``, locked by a flock on events.jsonl. ``sizes`` are the
    committed bytes of each file of lines.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.sizes: dict[str, int] = {EVENTS: 0}
        self._open: dict[str, int] = {}

    def is_open(self, name: str) -> bool:
        return name in self._open

    def lock(self) -> None:
        try:
            fcntl.flock(self.descriptor(EVENTS), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise UsageError(
                f"{self.path}: another cnibench writes this run",
                "wait for it, or end it with Ctrl-C",
            ) from None
        except FullError as error:
            raise InputError(
                error.message, "copy the run to a folder that can be written, and resume the copy"
            ) from None
        except OSError as error:
            self.close()
            raise InputError(
                f"{self.path / EVENTS}: it cannot be locked: {error.strerror}",
                "copy the run to a local disk",
            ) from None

    def close(self) -> None:
        """Ends the writing and frees the lock; may be called twice."""
        while self._open:
            with suppress(OSError):  # all that was written had to be on the disk at once
                os.close(self._open.popitem()[1])

    def descriptor(self, name: str) -> int:
        if name not in self._open:
            with self.storing(self.path / name):
                opened = open_beneath(self.path, name, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            self._open[name] = _single(
                opened, self.path / name, "copy the run with 'cp -a', and resume the copy"
            )
        return self._open[name]

    def set_aside(self, name: str) -> str:
        """Moves what follows the committed lines to NAME.orphan-N; its name, '' when there is
        nothing.
        """
        descriptor, size = self._open[name], self.sizes.get(name, 0)
        if os.fstat(descriptor).st_size <= size:
            return ""
        orphan = _orphan(self.path, name)
        with self.storing(self.path / orphan):
            kept = open_beneath(self.path, orphan, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            with open(open_beneath(self.path, name), "rb") as source, open(kept, "wb") as target:
                source.seek(size)
                while piece := source.read(CHUNK):
                    target.write(piece)
                target.flush()
                os.fsync(target.fileno())
            self.sync_folder()
            os.ftruncate(descriptor, size)
            os.fsync(descriptor)
        return orphan

    def move_aside(self, name: str) -> str:
        """Renames a file that is not the run's and is in the way of one; it is not opened. Its new
        name, '' when there is none.
        """
        with self.storing(self.path / name):
            return aside(self.path, name)

    def end_line(self, name: str) -> None:
        """Writes the newline that the last line of the file has lost."""
        descriptor = self.descriptor(name)
        with self.storing(self.path / name):
            os.write(descriptor, b"\n")
            os.fsync(descriptor)

    def append(self, name: str, content: bytes) -> int:
        """Appends, and syncs; the size of the file then. When the disk takes only a part of it,
        none of it stays: it was not acknowledged.
        """
        data = memoryview(content)
        descriptor, before = self.descriptor(name), self.sizes.get(name, 0)
        try:
            if os.fstat(descriptor).st_size != before:
                raise FullError(
                    f"{self.path / name}: somebody else has changed it; the run ends",
                    f"cnibench verify {self.path}",
                )
            while data:
                data = data[os.write(descriptor, data) :]
            os.fsync(descriptor)
            if not before:
                self.sync_folder()
        except OSError as error:
            with suppress(
                OSError
            ):  # what stays is behind the last committed line: a resumed run moves it aside
                os.ftruncate(descriptor, before)
            raise self.failed(self.path / name, error) from None
        return before + len(content)

    def document(self, name: str, content: bytes) -> None:
        """A whole file at once: it is either the old or the new one, whatever happens meanwhile."""
        with self.storing(self.path / name):
            replace_beneath(self.path, name, content)

    def remove_drafts(self) -> None:
        """Those that a killed writer left of documents and of the report."""
        with self.storing(self.path):
            remove_drafts(self.path, lambda name: is_document(name) or name in (SEAL, REPORT))

    def digest(self, name: str) -> str:
        """The hash of a document as it is; '' when there is none."""
        with self.storing(self.path / name), suppress(FileNotFoundError):
            return digest(read_beneath(self.path, name, LONGEST_DOCUMENT))
        return ""

    def sync_folder(self, below: Path = Path()) -> None:
        at = make_beneath(self.path, below) if below.parts else _opened(self.path)
        try:
            os.fsync(at)
        finally:
            os.close(at)

    def room(self) -> None:
        """Raises FullError when the disk has no room for another sample: tools whose output is cut
        off there say so in many ways.
        """
        with self.storing(self.path):
            left = os.statvfs(self.path)
        if left.f_bavail * left.f_frsize < _ROOM:
            raise self.full()

    def full(self) -> FullError:
        """The error for a full disk."""
        return FullError(
            f"{self.path}: the disk is full; the run ends, every finished sample is kept",
            f"free disk space, then: cnibench run --resume {self.path}",
        )

    @contextmanager
    def storing(self, path: Path) -> Iterator[None]:
        """What fails there ends the run with a FullError."""
        try:
            yield
        except OSError as error:
            raise self.failed(path, error) from None

    def failed(self, path: Path, error: OSError) -> FullError:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return self.full()
        return FullError(
            f"{path}: {error.strerror}; the run ends",
            f"fix that, then: cnibench run --resume {self.path}",
        )


def aside(path: Path, name: str) -> str:
    """Renames whatever has this name in the run directory ``path`` to NAME.orphan-N, which is
    returned; '' when there is none. Raises OSError.
    """
    if not os.path.lexists(path / name):
        return ""
    orphan = _orphan(path, name)
    os.rename(path / name, path / orphan)
    at = _opened(path)
    try:
        os.fsync(at)
    finally:
        os.close(at)
    return orphan


def _orphan(path: Path, name: str) -> str:
    number = 1
    while os.path.lexists(path / (orphan := f"{name}.orphan-{number}")):
        number += 1
    return orphan


def open_log(path: Path) -> int:
    """A descriptor that appends to the log of the run directory ``path``. Only its owner may read
    it: it names machines and addresses.

    Raises FullError when it cannot be written, InputError when it is a link, has another hard link
    or is no regular file.
    """
    remedy = "remove it: a new one is written"
    try:
        opened = open_beneath(path, LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    except InputError as error:
        raise InputError(error.message, remedy) from None
    except OSError as error:
        raise FullError(
            f"{path / LOG}: {error.strerror}; the run ends",
            f"make it writable, then: cnibench run --resume {path}",
        ) from None
    return _single(opened, path / LOG, remedy)


def check_log(path: Path) -> None:
    """Raises as ``open_log`` does; makes nothing."""
    if os.path.lexists(path / LOG):
        os.close(open_log(path))


def _single(descriptor: int, path: Path, remedy: str) -> int:
    """The descriptor of a file that lines are appended to. One with a second hard link is closed:
    raises InputError.
    """
    if os.fstat(descriptor).st_nlink <= 1:
        return descriptor
    os.close(descriptor)
    raise InputError(
        f"{path}: has another hard link, in a copy of the run perhaps, and new lines would be in"
        " both",
        remedy,
    )


def _opened(path: Path) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
