"""The processes of a datapath: started in a node's namespace, watched, ended with the
deployment; and those of them that are programs of cnibench.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from cnibench.clusters.lab.namespaces import tree
from cnibench.clusters.lab.namespaces.netns import Namespace
from cnibench.errors import ClusterError, MissingError
from cnibench.system import process as programs
from cnibench.system.guest import patience
from cnibench.system.process import Process, ending

_FOLDER = Path(__file__).parents[1] / "programs"
_HOME = tree.HOME / "daemons"
# e_machine of ELF
MACHINES = {"x86_64": 62, "aarch64": 183, "riscv64": 243, "ppc64le": 21, "s390x": 22}
_STEP = 0.01  # s between two looks at a condition


def program(name: str) -> str:
    """The path of ``clusters/lab/programs/NAME`` as a program that can be run (a wheel keeps no
    execute bit). Raises MissingError.
    """
    source, target = _FOLDER / f"{name}.elf", _HOME / name
    try:
        head = source.open("rb").read(20)
    except OSError:
        raise MissingError(
            f"the compiled program {source.name} is not there",
            "install gcc and libc6-dev and install cnibench again",
        ) from None
    wanted = MACHINES.get(os.uname().machine)
    if len(head) < 20 or (
        wanted and struct.unpack_from("<H" if head[5] == 1 else ">H", head, 18)[0] != wanted
    ):
        raise MissingError(
            f"{source.name} is made for another kind of machine",
            "install gcc and install cnibench from its sources",
        )
    _HOME.mkdir(exist_ok=True)
    made = target.with_suffix(f".{os.getpid()}")
    shutil.copyfile(source, made)
    made.chmod(0o755)
    made.replace(target)
    return str(target)


class Daemons:
    """The processes of one deployment, by name; ``folder`` is theirs, in the tree's own tmpfs."""

    def __init__(self, deployment: int) -> None:
        self.folder = _HOME / f"s{deployment}"
        self._running: dict[str, Process] = {}

    def file(self, name: str) -> Path:
        """A file of that name in the folder, which is made when it is not there."""
        self.folder.mkdir(parents=True, exist_ok=True)
        return self.folder / name

    def start(
        self,
        name: str,
        ns: Namespace,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        most: int = programs.MOST_OUTPUT,
    ) -> None:
        """Starts one in ``ns``; what it says goes to a log of its name. ``env`` is added to ours,
        and no file that it writes gets longer than ``most`` bytes. Raises MissingError.
        """
        log = self.file(f"{name}.log")
        self._running[name] = programs.spawn(
            ns.enter(argv),
            stdout=log,
            stderr=self.file(f"{name}.err"),
            env={"LANG": "C", "LC_ALL": "C", **(env or {})},
            most=most,
        )

    def pids(self) -> dict[str, int]:
        """Name to process number."""
        return {name: process.pid for name, process in self._running.items()}

    def alive(self, lines: int = 1) -> str:
        """'' while all of them run, else which one ended, how, and the last lines that it wrote."""
        for name, process in self._running.items():
            status = process.poll()
            if status is not None:
                return f"{name} {ending(status)}{self.last_words(name, lines)}"
        return ""

    def last_words(self, name: str, number: int = 1) -> str:
        """The last lines of its log, after a colon; '' when it said nothing."""
        lines = [
            line.strip()
            for end in ("log", "err")
            for line in _text(self.file(f"{name}.{end}")).splitlines()
            if line.strip()
        ]
        return f": {' | '.join(lines[-number:])}" if lines else ""

    def wait(
        self,
        what: str,
        ready: Callable[[], bool],
        limit: float,
        remedy: str = "",
        *,
        lines: int = 1,
    ) -> None:
        """Until ``ready()``. Raises ClusterError when that takes more than ``limit`` seconds (more
        under emulation) or a daemon dies, with the last ``lines`` that it wrote.
        """
        deadline = time.monotonic() + limit * patience()
        while not ready():
            died = self.alive(lines)
            if died:
                raise ClusterError(f"{what}: {died}", remedy)
            if time.monotonic() > deadline:
                said = "".join(
                    f"; {name}{words}"
                    for name in self._running
                    if (words := self.last_words(name, lines))
                )
                raise ClusterError(f"{what}: not within {limit:g} s{said}", remedy)
            time.sleep(_STEP)

    def stop(self) -> None:
        """Ends all of them, the last first, and removes their files. May be called twice."""
        while self._running:
            self._running.popitem()[1].kill()
        shutil.rmtree(self.folder, ignore_errors=True)


def has_device(ns: Namespace, name: str) -> bool:
    """Is there such a device now? (links.index() would remember.)"""
    with ns.inside(), contextlib.suppress(OSError):
        return bool(socket.if_nametoindex(name))
    return False


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
