"""What a run leaves word of outside its run directory: which clusters and namespaces are whose, so that a later clean can tell."""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
from pathlib import Path
from typing import IO

PREFIX = "cnibench-"


def folder() -> Path:
    """Where it is kept, private to the user."""
    path = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "cnibench" / "clusters"
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    return path


def new_name() -> str:
    """Of a cluster or namespace of ours; no two runs have the same."""
    return PREFIX + secrets.token_hex(4)


class Owned:
    """A name that this process owns; the kernel ends the lock with the process, however that ends."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.folder = folder() / name
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


def known(name: str) -> bool:
    """Did a run of this user, that left its state here, make it? Another's may run at this moment."""
    return name.startswith(PREFIX) and (folder() / name).is_dir()


def in_use(name: str) -> bool:
    """Does a running process own it?"""
    try:
        with (folder() / name / "lock").open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def forget(name: str) -> None:
    """What is kept of a name that nobody owns."""
    shutil.rmtree(folder() / name, ignore_errors=True)
