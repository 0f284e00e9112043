"""The two images: their names, by digest where they were published, and how they are given to a
cluster that has no registry.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path

from cnibench import __version__
from cnibench.clusters.kubernetes.images import recipe
from cnibench.clusters.kubernetes.images.engine import Engine, engine
from cnibench.clusters.kubernetes.images.recipe import Recipe
from cnibench.errors import InputError, MissingError

__all__ = [
    "KINDS",
    "Engine",
    "Recipe",
    "archive",
    "engine",
    "missing",
    "name",
    "need",
    "record",
    "reference",
]

KINDS = ("workload", "agent")
# no registry has that name: what is not loaded is not silently fetched from a stranger
_HOME = "localhost/cnibench"
_RELEASED = recipe.FOLDER / "published.json"  # which the release makes


def name(kind: str, registry: str = "") -> str:
    """The image's name; its tag changes with what it is built from, so that an old one is never
    taken for it.
    """
    digest = hashlib.sha256(b"\0".join(recipe.content())).hexdigest()[:8]
    return f"{registry.rstrip('/') or _HOME}/{kind}:{__version__}-{digest}"


def reference(kind: str, registry: str = "") -> str:
    """What a Pod names: with the digest that it has in that registry, where it is known. Raises
    InputError.
    """
    image = name(kind, registry)
    digest = (_read(_RELEASED) | _read(_recorded())).get(image) if registry else None
    return f"{image}@{digest}" if digest else image


def record(image: str, digest: str) -> None:
    """Keeps the digest of an image that was pushed. Raises InputError."""
    path = _recorded()
    part = path.with_name(f"{path.name}.{os.getpid()}")
    part.write_text(json.dumps(_read(path) | {image: digest}, indent=1, sort_keys=True) + "\n")
    part.replace(path)


def _read(path: Path) -> dict[str, str]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise InputError(f"{path} is damaged", "remove it; images are then pulled by their tags")
    return found


def _recorded() -> Path:
    return _folder() / "pushed.json"


def _folder() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "cnibench" / "images"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def archive(engine: Engine, images: Sequence[str]) -> Path:
    """An archive of those images, made once and kept beside others in the user's cache. Raises
    ClusterError.
    """
    ids = [engine.id(image) for image in images]
    digest = hashlib.sha256("\n".join([*images, *ids]).encode()).hexdigest()[:16]
    folder = _folder()
    path = folder / f"{digest}.tar"
    if not path.exists():
        for old in sorted(folder.glob("*.tar"), key=lambda one: one.stat().st_mtime)[:-4]:
            old.unlink(missing_ok=True)
        engine.save(images, path)
    return path


def missing(engine: Engine, registry: str = "") -> list[str]:
    """Names of ours that the engine has not."""
    return [image for image in (name(kind, registry) for kind in KINDS) if not engine.has(image)]


def need(engine: Engine) -> list[str]:
    """Ours, when the engine has them. Raises MissingError."""
    if absent := missing(engine):
        raise MissingError(
            f"{engine.program} does not have the image {', '.join(absent)}", "cnibench images build"
        )
    return [name(kind) for kind in KINDS]
