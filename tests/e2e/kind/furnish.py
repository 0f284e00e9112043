"""What makes a Debian root file system a node of kind."""

from __future__ import annotations

import shutil
from pathlib import Path

from . import binaries
from .images import COLLECT

FILES = Path(__file__).parent / "files"
_PLUGINS = ("host-local", "loopback", "portmap", "ptp")  # what kind's own node image has: no bridge
MASKED = (  # what a container has no use for, or what would set values of the whole machine
    "systemd-logind.service",
    "systemd-udevd.service",
    "systemd-networkd.service",
    "systemd-resolved.service",
    "systemd-binfmt.service",
    "systemd-sysctl.service",
    "systemd-modules-load.service",
    "getty.target",
    "console-getty.service",
)
_UNWANTED = (
    "multi-user.target.wants/*",
    "local-fs.target.wants/*",
    "basic.target.wants/*",
    "timers.target.wants/*",
    "sockets.target.wants/*udev*",
    "sockets.target.wants/*initctl*",
    "sysinit.target.wants/systemd-tmpfiles-setup.service",
)
SETTINGS = {
    "/kind/version": binaries.KUBERNETES,
    "/etc/default/kubelet": (
        f"KUBELET_EXTRA_ARGS=--runtime-cgroups=/system.slice/containerd.service\n{COLLECT}\n"
    ),
    "/etc/systemd/journald.conf.d/kind.conf": "[Journal]\nReadKMsg=no\nStorage=volatile\n",
    "/etc/machine-id": "",
}
COPIED = {
    "entrypoint": ("/usr/local/bin/entrypoint", 0o755),
    "kubelet-cgroup": ("/usr/local/bin/kubelet-cgroup", 0o755),
    "kubelet.service": ("/etc/systemd/system/kubelet.service", 0o644),
    "containerd.service": ("/etc/systemd/system/containerd.service", 0o644),
    "containerd.toml": ("/etc/containerd/config.toml", 0o644),
}


def furnish(tree: Path, programs: Path) -> None:
    """Puts Kubernetes' programs, the units and the settings into the root file system in `tree`."""
    for program in ("kubelet", "kubeadm", "kubectl"):
        shutil.copy(programs / program, tree / "usr/bin" / program)
    (tree / "opt/cni/bin").mkdir(parents=True)
    for plugin in _PLUGINS:
        shutil.copy(programs / "cni" / plugin, tree / "opt/cni/bin" / plugin)
    units = tree / "etc/systemd/system"
    stock = tree / "lib/systemd/system"
    for unit in (
        *units.glob("*.wants/*"),
        *(unit for pattern in _UNWANTED for unit in stock.glob(pattern)),
    ):
        unit.unlink()
    for name, (to, mode) in COPIED.items():
        _write(tree, to, (FILES / name).read_bytes()).chmod(mode)
    for to, text in SETTINGS.items():
        _write(tree, to, text.encode())
    for unit in MASKED:
        (units / unit).symlink_to("/dev/null")
    wanted = units / "multi-user.target.wants"
    wanted.mkdir(exist_ok=True)
    for unit in ("containerd.service", "kubelet.service"):
        (wanted / unit).symlink_to(f"/etc/systemd/system/{unit}")


def _write(tree: Path, to: str, data: bytes) -> Path:
    path = tree / to.lstrip("/")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.write_bytes(data)
    return path
