"""The node image: Debian's systemd and containerd, our Kubernetes, and the images of the control
plane, of the CNIs and of cnibench.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from . import bake, binaries, cache, furnish, images, own, roots
from .command import Failed, run

REPOSITORY = "localhost/cnibench-e2e/node"


def image() -> str:
    """The name of the node image in podman's storage, made when it is not there."""
    programs, root = binaries.kubernetes(), roots.node()
    archives = [
        *sorted(images.control_plane().glob("*.tar")),
        images.flannel(),
        images.cilium(),
        own.archive(),
    ]
    files = [
        Path(__file__),
        Path(bake.__file__),
        Path(furnish.__file__),
        *(furnish.FILES / name for name in furnish.COPIED),
    ]
    name = f"{REPOSITORY}:{binaries.KUBERNETES}-{cache.key(programs.name, [one.parent.name for one in archives], root.name, *files)}"  # noqa: E501
    with cache.lock("node"):
        if not exists(name):
            print("kind: node image ...", flush=True)
            began = time.monotonic()
            _make(name, root / "root.tar", programs, archives)
            _forget_others(name)
            print(f"kind: node image built in {time.monotonic() - began:.0f} s", flush=True)
    return name


def exists(name: str) -> bool:
    """Does podman have that image?"""
    return subprocess.run(["podman", "image", "exists", name], check=False).returncode == 0


def _forget_others(name: str) -> None:
    for other in run(
        "podman",
        "images",
        "--format",
        "{{.Repository}}:{{.Tag}}",
        "--filter",
        f"reference={REPOSITORY}",
    ).split():
        if other != name:
            with contextlib.suppress(Failed):  # a container still uses it
                run("podman", "rmi", other)


def _make(name: str, root: Path, programs: Path, archives: list[Path]) -> None:
    with unpacked(root) as tree:
        furnish.furnish(tree, programs)
        bake.bake(tree, archives)
        pack(tree, name)


@contextlib.contextmanager
def unpacked(root: Path) -> Iterator[Path]:
    """A folder with what is in the archive of a root file system, until the block ends. Whoever
    calls this is the only one with that archive (cache.lock).
    """
    prefix = f".{root.parent.name}."
    for stale in cache.folder().glob(f"{prefix}*"):  # of a builder that was killed
        shutil.rmtree(stale)
    with tempfile.TemporaryDirectory(dir=cache.folder(), prefix=prefix) as scratch:
        tree = Path(scratch) / "tree"
        tree.mkdir()
        run("tar", "--numeric-owner", "-C", tree, "-xpf", root)
        yield tree


def pack(tree: Path, name: str) -> None:
    """The root file system in ``tree`` as an image of podman's, which begins with systemd."""
    changes = [
        "ENV container=podman",
        "STOPSIGNAL SIGRTMIN+3",
        'ENTRYPOINT ["/usr/local/bin/entrypoint","/sbin/init"]',
    ]
    words = [word for change in changes for word in ("--change", change)]
    with subprocess.Popen(
        ["tar", "--numeric-owner", "-C", str(tree), "-c", "."], stdout=subprocess.PIPE
    ) as packing:
        assert packing.stdout
        run("podman", "import", "--quiet", *words, "-", name, stdin=packing.stdout.fileno())
    if packing.returncode:
        raise Failed(f"tar of {tree}: exit status {packing.returncode}")
