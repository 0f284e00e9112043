"""The image of a bare machine: Debian with systemd and sshd, nothing of Kubernetes."""

from __future__ import annotations

import shutil
from pathlib import Path

from . import cache, furnish, node, roots

_IMAGE = "localhost/cnibench-e2e/machine"
_SERVERS = ("nginx.service", "netperf.service", "iperf3.service")  # that packages would start


def image() -> str:
    """Its name in podman's storage, made when it is not there."""
    root = roots.machine()
    files = [Path(__file__), Path(node.__file__), furnish.FILES / "entrypoint"]
    name = f"{_IMAGE}:{cache.key(root.name, *files)}"
    with cache.lock("machine"):
        if not node.exists(name):
            with node.unpacked(root / "root.tar") as tree:
                _furnish(tree)
                node.pack(tree, name)
    return name


def _furnish(tree: Path) -> None:
    """What makes a container of a root file system, which runs systemd and sshd."""
    units = tree / "etc/systemd/system"
    for unit in units.glob("timers.target.wants/*"):
        unit.unlink()
    for unit in (*furnish.MASKED, *_SERVERS):
        (units / f"{unit}").symlink_to("/dev/null")
    shutil.copy(furnish.FILES / "entrypoint", tree / "usr/local/bin/entrypoint")
    (tree / "usr/local/bin/entrypoint").chmod(0o755)
    journal = tree / "etc/systemd/journald.conf.d/container.conf"
    journal.parent.mkdir(parents=True, exist_ok=True)
    journal.write_text("[Journal]\nReadKMsg=no\nStorage=volatile\n")
    (tree / "etc/machine-id").write_text("")
