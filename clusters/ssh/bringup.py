"""From two bare machines to a cluster of Kubernetes without a CNI."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from cnibench.clusters.kubernetes.ownership import state
from cnibench.clusters.ssh import files
from cnibench.clusters.ssh.archives import of_control_plane
from cnibench.clusters.ssh.inspection.packages import packages
from cnibench.clusters.ssh.machine import Machine, on_both
from cnibench.clusters.ssh.sources import Source
from cnibench.errors import ClusterError
from cnibench.system import scratch

_BEGIN = 120.0  # s: a listing of all files
_COPY = 900.0  # s: of one file, over a slow line
_INSTALL = 600.0  # s: packages may have to be fetched
_ASK = 60.0  # s
_KUBEADM = 600.0  # s: images may have to be pulled
_PAUSE = "registry.k8s.io/pause:3.10.1"


@dataclass
class Cluster:
    """What was made: where its kubeconfig is, and what its nodes are called."""

    kubeconfig: Path
    nodes: tuple[str, str]


def begin(machines: Sequence[Machine], run: str) -> None:
    """The journals on both machines, with a list of what they have, before either is changed. Call
    ``hold`` for both first. Raises ClusterError when one has the journal of another run.
    """
    words = ",".join(str(machine.address) for machine in machines)

    def one(machine: Machine) -> None:
        done = machine.run("begin", state.owner(), run, words, timeout=_BEGIN, check=False)
        if done.returncode == 3:
            raise taken(machine)
        if done.returncode:
            raise ClusterError(
                f"{machine.address}: {done.stderr.strip() or 'nothing can be written to its disk'}",
                "is its disk full, or read-only?",
            )

    on_both(machines, one)


def hold(machine: Machine) -> None:
    """Marks it as in use until its connection is closed. Raises ClusterError when another run uses
    it, or its disk is full.
    """
    if not machine.hold():
        raise taken(machine)


def taken(machine: Machine) -> ClusterError:
    """Somebody was quicker."""
    return ClusterError(
        f"{machine.address}: a run of cnibench uses it",
        "wait for its end; cnibench doctor with the same --cluster says whose it is",
    )


def make(
    machines: Sequence[Machine],
    source: Source,
    images: Sequence[Path],
    families: tuple[int, ...],
    folder: Path,
    say: Callable[[str], None],
) -> Cluster:
    """The cluster; its kubeconfig is in ``folder``. Raises ClusterError, LimitError: both machines
    are then as far as they came, which their journals say.
    """
    seen = [machine.inspected for machine in machines]
    called = files.names(seen[0]["hostname"], seen[1]["hostname"])
    nodes = [files.Node(name, one["address"]) for name, one in zip(called, seen, strict=True)]
    archives = [*source.images(), *images]
    say(f"installing Kubernetes {source.version} and containerd from {source} on both machines")
    on_both(machines, lambda machine: _install(machine, source))
    say(f"loading {len(archives)} image archives")
    one, two = machines
    workers = [path for path in archives if not of_control_plane(path)]
    on_both(machines, lambda machine: _load(machine, archives if machine is one else workers))

    version = one.run("version", timeout=_ASK).stdout.strip()
    say(f"kubeadm init of {version} on {one.address}")
    _kubeadm(one, "init", files.init(nodes[0], version, families))
    admin = yaml.safe_load(one.run("read", "/etc/kubernetes/admin.conf", timeout=_ASK).stdout)
    say(f"kubeadm join on {two.address}")
    token, authority = join_words(one.run("join", timeout=_ASK).stdout)
    _kubeadm(two, "join", files.join(nodes[1], nodes[0], token, authority))
    return Cluster(_reachable(one, admin, folder), (nodes[0].name, nodes[1].name))


def join_words(command: str) -> tuple[str, str]:
    """(token, hash of the authority) out of what ``kubeadm token create`` prints. Raises
    ClusterError.
    """
    match = re.search(
        r"--token (\S+) --discovery-token-ca-cert-hash (sha256:[0-9a-f]{64})", command
    )
    if match is None:
        raise ClusterError(f"kubeadm printed no command to join: {command.strip()[:200]}")
    return match[1], match[2]


def _install(machine: Machine, source: Source) -> None:
    for folder, found in (("bin", source.programs()), ("cni", source.plugins())):
        for path in found:
            _copy(machine, path, f"{folder}/{path.name}")
    for name, text in (
        ("containerd.toml", files.CONTAINERD.replace("@PAUSE@", _PAUSE)),
        ("cnibench-containerd.service", files.CONTAINERD_UNIT),
        ("kubelet.service", files.KUBELET_UNIT),
    ):
        _write(machine, text, name)
    wanted = packages(machine.inspected, source)
    machine.run("install", " ".join(wanted), timeout=_INSTALL)


def _load(machine: Machine, archives: Sequence[Path]) -> None:
    for path in archives:
        machine.run("image", timeout=_COPY, file=path)


def _copy(machine: Machine, path: Path, to: str) -> None:
    machine.run("copy", to, str(path.stat().st_size), timeout=_COPY, file=path)


def _write(machine: Machine, text: str, to: str) -> None:
    with scratch.folder() as folder:
        path = folder / "file"
        path.touch(mode=0o600)
        path.write_text(text)
        _copy(machine, path, to)


def _kubeadm(machine: Machine, phase: str, config: str) -> None:
    _write(machine, config, "kubeadm.yaml")
    machine.run("kubeadm", phase, timeout=_KUBEADM)


def _reachable(machine: Machine, admin: dict[str, Any], folder: Path) -> Path:
    """A kubeconfig whose server is reached through our connection: nothing but ssh need be open to
    this machine.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    machine.connection.forward(port, files.API_PORT)
    admin["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{port}"
    path = folder / "kubeconfig"
    path.touch(mode=0o600)
    path.write_text(json.dumps(admin))
    return path
