"""What is in an archive of images, and which of the two nodes runs it."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

_CONTROL_PLANE = frozenset(("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"))
_MOST = 1 << 20  # bytes of a manifest


def of_control_plane(archive: Path) -> bool:
    """Does only the control plane's node run its images? False when its format is not known (that
    of ``docker save`` is, uncompressed).
    """
    names = _names(archive)
    return bool(names) and names <= _CONTROL_PLANE


def _names(archive: Path) -> set[str]:
    """Without registry and tag; none when it cannot be said of every image in it."""
    try:
        with tarfile.open(archive, "r:") as tar:
            file = tar.extractfile("manifest.json")
            images = json.loads(file.read(_MOST)) if file else []
        tags = [image["RepoTags"] for image in images]
        if not all(tags):
            return set()
        return {tag.rpartition("/")[2].partition(":")[0] for each in tags for tag in each}
    except (OSError, tarfile.TarError, KeyError, TypeError, ValueError, AttributeError):
        return set()
