"""Images inside a root file system that is not running."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from .command import Failed, run

_STORE = Path("var/lib/containerd")
_BLOBS = _STORE / "io.containerd.content.v1.content/blobs/sha256"
_SNAPSHOTS = _STORE / "io.containerd.snapshotter.v1.overlayfs/snapshots"
_UNPACKED = Path("kind/images")
_LAYER = 1 << 20  # bytes: what is larger is no manifest and no configuration


def bake(tree: Path, archives: list[Path]) -> None:
    """Puts images into the containerd of the root file system in `tree`, unpacked: what its nodes
    would otherwise pull.

    An engine copies /var of the image into a volume for each node. What is unpacked therefore lies
    elsewhere, and is read from the image by all nodes.
    """
    with _containerd(tree / _STORE) as address:
        for archive in archives:
            words = ["ctr", "--address", address, "--namespace", "k8s.io", "images", "import"]
            run(*words, "--snapshotter", "overlayfs", archive, limit=300)
    for blob in (tree / _BLOBS).iterdir():
        if blob.stat().st_size > _LAYER:
            blob.unlink()
    for snapshot in (tree / _SNAPSHOTS).iterdir():
        unpacked = _UNPACKED / snapshot.name
        (tree / unpacked).parent.mkdir(parents=True, exist_ok=True)
        (snapshot / "fs").rename(tree / unpacked)
        (snapshot / "fs").symlink_to(Path("/") / unpacked)


@contextlib.contextmanager
def _containerd(root: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="cnibench-e2e-") as scratch:
        config, address, log = (
            Path(scratch) / "config.toml",
            Path(scratch) / "sock",
            Path(scratch) / "log",
        )
        config.write_text(
            'version = 2\ndisabled_plugins = ["io.containerd.grpc.v1.cri"]\n[ttrpc]\n  address ='
            f' "{address}.ttrpc"\n'
        )
        with log.open("w") as output:
            folders = ["--root", str(root), "--state", f"{scratch}/state"]
            words = [
                "setpriv",
                "--pdeathsig",
                "KILL",
                "containerd",
                "--config",
                str(config),
                "--address",
                str(address),
                *folders,
            ]
            daemon = subprocess.Popen(words, stdout=output, stderr=subprocess.STDOUT)
        try:
            deadline = time.monotonic() + 60
            while subprocess.run(
                ["ctr", "--address", str(address), "version"], capture_output=True, check=False
            ).returncode:
                if daemon.poll() is not None or time.monotonic() > deadline:
                    raise Failed(f"containerd did not start:\n{log.read_text()[-3000:]}")
                time.sleep(0.2)
            yield address
        finally:
            daemon.terminate()
            daemon.wait(30)
