"""Which images the nodes of a kind cluster have from the beginning, out of their own image."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cnibench.clusters.kubernetes import images
from cnibench.system import process as programs

_ASK = 60.0  # s: podman waits for its lock while other containers are made


def absent(nodes: Sequence[str], wanted: Iterable[str]) -> list[str]:
    """Those that not all nodes have. A node that cannot be asked has none. Raises LimitError."""
    ask = ["ctr", "--namespace", "k8s.io", "images", "list", "--quiet"]
    engine = images.engine().program
    there = [
        programs.run([engine, "exec", node, *ask], timeout=_ASK, check=False) for node in nodes
    ]
    found = [set(done.stdout.split()) if done.returncode == 0 else set() for done in there]
    return [image for image in wanted if not all(image in names for names in found)]
