"""Pods of kind's nodes, entered from this machine: their programs are its processes, and their
network namespaces are of its kernel.

A program there has the Pod's files, network and PID namespace, so that it ends with the Pod at
the latest. It is in the Pod's cgroup2 for the eBPF programs that CNIs attach there, and in none of
its other control groups: they set no limits, for our Pods have none, and some kernels refuse
real-time priority there.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from cnibench.clusters.kubernetes.connection.gateway import Gateway
from cnibench.clusters.kubernetes.nodes.places import KubernetesPod
from cnibench.clusters.kubernetes.pods.background import FIND
from cnibench.errors import ClusterError
from cnibench.system import namespaces
from cnibench.system import process as programs
from cnibench.system.namespaces import Kind
from cnibench.system.process import Done, Process

_LIMIT = 30.0  # s
_OF_NETWORK = "/proc/net/"
_PLAIN = {"LANG": "C", "LC_ALL": "C"}
# Joins a control group (its first argument; '': none), then becomes the rest of its arguments.
JOIN = '[ -z "$1" ] || echo $$ > "$1" || exit; shift; exec "$@"'


class LocalPod(KubernetesPod):
    """``pid`` is that of its container's first process on this machine."""

    local = True

    def __init__(self, pod: KubernetesPod, pid: int) -> None:
        """Its connection is its own, and is never opened."""
        connection = pod.gateway
        own = Gateway(connection.access, connection.namespace, pod.pod, connection.what)
        super().__init__(pod.pod, pod.node, own, pod.addresses, not pod.interface)
        self.pid = pid
        self._cgroup = cgroup(*map(self._read, (f"{pid}/cgroup", "self/cgroup", "self/mounts")))

    def spawn(
        self, argv: Sequence[str], *, stdout: Path | None = None, stderr: Path | None = None
    ) -> Process:
        with self._inside("pid"):
            return programs.spawn(self._entering(argv), stdout=stdout, stderr=stderr, env=_PLAIN)

    def run(
        self, argv: Sequence[str], *, timeout: float, input: str | None = None, check: bool = True
    ) -> Done:
        with self._inside("pid"):
            return programs.run(
                self._entering(argv), timeout=timeout, input=input, check=check, env=_PLAIN
            )

    def read_text(self, path: str) -> str:
        if path.startswith(_OF_NETWORK):
            return self._read(f"{self.pid}/net/{path.removeprefix(_OF_NETWORK)}")
        return self.run(["cat", path], timeout=_LIMIT).stdout

    def entered(self) -> AbstractContextManager[None]:
        return self._inside("net")

    @contextmanager
    def _inside(self, kind: Kind) -> Iterator[None]:
        try:
            fd = os.open(f"/proc/{self.pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise self._dead(error) from None
        try:
            with namespaces.inside(fd, kind):
                yield
        finally:
            os.close(fd)

    def _read(self, name: str) -> str:
        """A file of /proc."""
        try:
            return Path("/proc", name).read_text(encoding="utf-8")
        except OSError as error:
            raise self._dead(error) from None

    def _dead(self, error: OSError) -> ClusterError:
        return ClusterError(f"the Pod {self.name} cannot be entered, has it died? {error.strerror}")

    def _entering(self, argv: Sequence[str]) -> list[str]:
        inside = ["nsenter", "-t", str(self.pid), "-m", "-n", "--", *argv]
        return ["sh", "-c", JOIN, "sh", self._cgroup, *inside]


def on_this_machine(pods: Mapping[str, KubernetesPod]) -> list[LocalPod]:
    """These Pods, by their UID. Raises ClusterError when they are on another machine, where a
    container engine's own virtual machine is one.
    """
    finding = [sys.executable, "-I", "-S", "-c", FIND]
    done = programs.run(finding, timeout=_LIMIT, input=json.dumps(list(pods)))
    found = {str(uid): int(pid) for uid, pid in json.loads(done.stdout).items()}
    if absent := [pod.name for uid, pod in pods.items() if uid not in found]:
        raise ClusterError(
            f"the Pod {absent[0]} has no process on this machine",
            "use --method windows where the container engine runs on another machine, or in a VM",
        )
    return [LocalPod(pod, found[uid]) for uid, pod in pods.items()]


def cgroup(pod: str, own: str, mounts: str) -> str:
    """The cgroup.procs of a Pod's cgroup2, '' when its programs are in it anyway, or there is none.
    ``pod`` and ``own`` are /proc/PID/cgroup of the Pod and of this program, ``mounts`` is
    /proc/mounts (cgroups(7)).
    """
    wanted = _unified(pod)
    where = [line.split()[1] for line in mounts.splitlines() if line.split()[2] == "cgroup2"]
    if not where or wanted in ("", _unified(own)):
        return ""
    return f"{where[0]}{wanted.rstrip('/')}/cgroup.procs"


def _unified(text: str) -> str:
    return next((line[3:] for line in text.splitlines() if line.startswith("0::")), "")
