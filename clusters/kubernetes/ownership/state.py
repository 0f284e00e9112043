"""What this user keeps between commands: the owner ID that its runs write on clusters, and the
folders of its kind clusters.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import pwd
import re
import secrets
import shutil
import socket
from pathlib import Path
from typing import IO

from cnibench.errors import MissingError

PREFIX = "cnibench-"
_OWNER = re.compile(r"[a-z]+-[a-z]+-[0-9a-f]{6}")
_FIRST = (
    "amber",
    "brave",
    "calm",
    "clear",
    "cool",
    "deep",
    "early",
    "fair",
    "fine",
    "fresh",
    "gentle",
    "grand",
    "green",
    "happy",
    "kind",
    "late",
    "light",
    "lucky",
    "merry",
    "mild",
    "neat",
    "new",
    "noble",
    "plain",
    "proud",
    "quick",
    "quiet",
    "rapid",
    "sharp",
    "still",
    "warm",
    "wise",
)
_SECOND = (
    "ash",
    "badger",
    "beech",
    "birch",
    "crane",
    "cedar",
    "dove",
    "elm",
    "falcon",
    "finch",
    "fir",
    "fox",
    "hare",
    "hawk",
    "heron",
    "holly",
    "ibis",
    "larch",
    "lark",
    "lynx",
    "maple",
    "marten",
    "oak",
    "otter",
    "owl",
    "pine",
    "raven",
    "robin",
    "swan",
    "tern",
    "wren",
    "yew",
)


def folder() -> Path:
    """Where it is kept, private to the user. Raises MissingError where no such folder can be
    made.
    """
    path = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "cnibench"
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise MissingError(
            f"{path}: {error.strerror}", "set XDG_STATE_HOME to a folder that can be written"
        ) from None
    return path


def owner() -> str:
    """The ID of this user on this machine, ``WORD-WORD-HEX``: made once, and kept in this user's
    state.

    The first word stands for the user's name and the second for the machine's, so that colleagues
    can distinguish IDs; neither name can be read from them.
    """
    path = folder() / "owner"
    with contextlib.suppress(OSError):
        kept = path.read_text(encoding="ascii").strip()
        if is_owner(kept):
            return kept
    made = f"{_word(_user(), _FIRST)}-{_word(socket.gethostname(), _SECOND)}-{secrets.token_hex(3)}"
    draft = path.with_name(f"owner.{secrets.token_hex(4)}")
    try:
        draft.write_text(made + "\n", encoding="ascii")
        with contextlib.suppress(FileExistsError):  # another process was quicker: its ID counts
            os.link(draft, path)
        draft.unlink()
        return path.read_text(encoding="ascii").strip()
    except OSError as error:
        raise MissingError(
            f"{path}: {error.strerror}", "set XDG_STATE_HOME to a folder that can be written"
        ) from None


def is_owner(text: str) -> bool:
    """Is it spelt as the IDs of owners are?"""
    return _OWNER.fullmatch(text) is not None


def new_name() -> str:
    """Of a namespace of ours; no two runs have the same."""
    return PREFIX + secrets.token_hex(4)


def new_cluster() -> str:
    """Of a kind cluster of ours. The owner is in it: kind labels the containers with this name, and
    with nothing else.
    """
    return f"{PREFIX}{owner()}-{secrets.token_hex(3)}"


def owner_of(cluster: str) -> str:
    """Whose kind cluster it is, out of its name; '' when it is not one of cnibench."""
    match = re.fullmatch(rf"{PREFIX}({_OWNER.pattern})-[0-9a-f]{{6}}", cluster)
    return match[1] if match else ""


class Kept:
    """The folder of one kind cluster, with its kubeconfig. The kernel ends the lock with the
    process that uses it.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.folder = clusters() / name
        self.folder.mkdir(mode=0o700)
        self._lock: IO[bytes] = (self.folder / "lock").open("wb")
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "kubeconfig"

    def release(self, keep: bool = False) -> None:
        """Gives it up; with ``keep`` its kubeconfig stays for whoever looks at the cluster."""
        self._lock.close()
        if not keep:
            shutil.rmtree(self.folder, ignore_errors=True)


class Mark:
    """Says on this machine that the run which has a namespace lives: the kernel ends the lock with
    its process. Without room on the disk nothing is said.
    """

    def __init__(self, uid: str) -> None:
        """``uid`` is the namespace's."""
        self._file: IO[str] | None = None
        self._path = _mark(uid)
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(exist_ok=True, mode=0o700)
            file = self._path.open("w", encoding="ascii")
            fcntl.flock(file, fcntl.LOCK_EX)
            self._file = file
            file.write(_boot())  # only now: whoever finds nothing in it knows nothing
            file.flush()

    def close(self) -> None:
        """May be called twice."""
        if self._file is not None:
            self._file.close()
            unmark(self._path.name)


def ended(uid: str) -> bool:
    """Has the run ended that made the namespace of that UID on this machine? False where that is
    not known: of a run on another machine, or before this one was started.
    """
    try:
        with _mark(uid).open("r", encoding="ascii") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return file.read() == _boot() != ""
    except (OSError, UnicodeDecodeError):
        return False


def unmark(uid: str) -> None:
    """The namespace of that UID is gone."""
    with contextlib.suppress(OSError):
        _mark(uid).unlink()


def unmark_ended() -> None:
    """The namespaces of runs that were killed went with their clusters. What this forgets of a
    cluster that is still there costs ``clean`` half a minute there: it watches the Lease.
    """
    with contextlib.suppress(OSError):
        for path in _marks().iterdir():
            with path.open("rb") as file, contextlib.suppress(OSError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()


def _marks() -> Path:
    return folder() / "namespaces"


def _mark(uid: str) -> Path:
    return _marks() / re.sub(r"[^\w-]", "_", uid)[:64]


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def clusters() -> Path:
    """Where the folders of kind clusters are."""
    path = folder() / "clusters"
    path.mkdir(exist_ok=True, mode=0o700)
    return path


def known(name: str) -> bool:
    """Has this user the folder of such a kind cluster?"""
    return name.startswith(PREFIX) and (clusters() / name).is_dir()


def in_use(name: str) -> bool:
    """Does a process of this machine use that folder?"""
    try:
        with (clusters() / name / "lock").open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def forget(name: str) -> None:
    """Removes the folder of a kind cluster that is gone."""
    shutil.rmtree(clusters() / name, ignore_errors=True)


def _user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def _word(name: str, words: tuple[str, ...]) -> str:
    return words[hashlib.sha256(name.encode()).digest()[0] % len(words)]
