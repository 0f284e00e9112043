"""All parts together, and the environment in which kind, kubectl, helm and podman work with
them.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from . import binaries, cache, images, machine, node, own, reroot, roots
from .command import run

NETWORK = "cnibench-e2e"


@dataclasses.dataclass(frozen=True)
class Parts:
    """Where everything is."""

    programs: Path
    """folder of kind, kubectl, helm"""
    node_image: str
    base: Path
    """image archives of the base and, agent and helper together, of each CNI"""
    flannel: Path
    cilium: Path
    charts: Mapping[str, Path]
    """the CNI's own helm charts, by name"""

    def environment(self) -> dict[str, str]:
        """What is added to the environment of cnibench, kind and podman."""
        return {
            "PATH": f"{self.programs}:{os.environ['PATH']}",
            **own.ENGINE,
            "KIND_EXPERIMENTAL_PODMAN_NETWORK": NETWORK,
        }


def build() -> Parts:
    """Builds what is missing; minutes when the cache is cold, a second when it is warm."""
    reroot.ensure()
    with (
        ThreadPoolExecutor() as pool
    ):  # what is fetched, packed and linked leaves CPUs to the compiler
        for each in [pool.submit(make) for make in (_compiled, _packed)]:
            each.result()
    parts = Parts(
        programs=_programs(binaries.kubernetes()),
        node_image=node.image(),
        base=images.base(),
        flannel=images.flannel(),
        cilium=images.cilium(),
        charts={"flannel": binaries.flannel() / "chart", "cilium": binaries.cilium() / "chart"},
    )
    _network(parts)
    return parts


def build_what_can_be() -> None:
    """The programs alone, which take the most time, where what packs them into images is not
    installed yet.
    """
    if lacking := _lacking():
        print(f"kind: only programs are built: {lacking}", flush=True)
        _compiled()
    else:
        build()


def _compiled() -> None:
    for make in (binaries.kubernetes, binaries.flannel, binaries.flannel_cni, binaries.cilium):
        make()


def _packed() -> None:
    """In the order in which the programs become ready; until then the locks of their parts are
    waited for.
    """
    for make in (roots.images, roots.node, machine.image, own.archive, node.image):
        make()


def _lacking() -> str:
    """Why images cannot be built by this user on this machine; '' when they can."""
    if os.geteuid():
        return "root is needed"
    absent = [
        program
        for program in ("podman", "mmdebstrap", "containerd")
        if shutil.which(program) is None
    ]
    return f"{', '.join(absent)} not installed" if absent else ""


def _programs(built: Path) -> Path:
    """Only the three that a user has: the rest of the folder must not hide the machine's own
    programs.
    """

    def link(where: Path) -> None:
        for name in ("kind", "kubectl", "helm"):
            (where / name).symlink_to(built / name)

    return cache.part("path", cache.key(built.name), link)


def _network(parts: Parts) -> None:
    """A network of IPv4 only, made beforehand: kind would ask for IPv6 too. And the folder that
    kind mounts into its nodes.
    """
    Path("/lib/modules").mkdir(exist_ok=True)
    env = parts.environment()
    with cache.lock("network"):
        if subprocess.run(
            ["podman", "network", "exists", NETWORK], env={**os.environ, **env}, check=False
        ).returncode:
            run("podman", "network", "create", "--driver", "bridge", NETWORK, env=env)
