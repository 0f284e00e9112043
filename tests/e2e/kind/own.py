"""cnibench's own two images, built as its users build them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from cnibench.clusters.kubernetes import images as product

from . import cache, furnish, images
from .command import run

ENGINE = {
    "CONTAINERS_CONF": str(furnish.FILES / "containers.conf"),
    "KIND_EXPERIMENTAL_PROVIDER": "podman",
}
"""What podman needs in its environment, and whatever calls it: kind and cnibench."""


def archive() -> Path:
    """Archive of both, which podman has, too."""
    base = images.base()
    names = [product.name(kind) for kind in product.KINDS]

    def build(where: Path) -> None:
        run("podman", "load", "--quiet", "-i", base, env=ENGINE, limit=300)
        cnibench = Path(sys.executable).with_name("cnibench")
        # --force: one of that name may have an older base
        run(cnibench, "images", "build", "--force", "--base", images.BASE, env=ENGINE)
        product.Engine("podman").save(names, where / "own.tar")

    made = cache.part("images-own", cache.key(names, base.parent.name), build) / "own.tar"
    with cache.lock("own"):
        absent = [["podman", "image", "exists", name] for name in names]
        if any(subprocess.run(argv, check=False).returncode for argv in absent):
            run("podman", "load", "--quiet", "-i", made, env=ENGINE, limit=300)
    return made
