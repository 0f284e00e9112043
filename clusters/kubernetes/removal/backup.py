"""Manifests of what is removed, from which it can be made again."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from pathlib import Path

import yaml

from cnibench.clusters.kubernetes.api.operations import Object
from cnibench.clusters.kubernetes.api.rest import Rest
from cnibench.clusters.kubernetes.removal.inventory import Thing, defined_by
from cnibench.clusters.kubernetes.removal.selection import Belongings

_KEPT = ("name", "namespace", "labels", "annotations")
_FIRST = ("Namespace", "CustomResourceDefinition")


def save(rest: Rest, found: Belongings, folder: Path, name: str) -> list[Path]:
    """Writes them to new files that only the user can read, for there are secrets among them; the
    files, in the order of their use. What was saved before stays.

    Objects of definitions that are in the first file are in a second one: kubectl takes them only
    when those are known. Raises OSError, ClusterError.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    things = [*found.explicit, *found.dependents]
    custom = [one for one in things if any(defined_by(each, [one]) for each in found.definitions)]
    plain = [one for one in things if one not in custom]
    plain.sort(
        key=lambda one: _FIRST.index(one.kind.kind) if one.kind.kind in _FIRST else len(_FIRST)
    )
    name = _unused(folder, name)
    paths = [_write(rest, plain, folder / f"{name}.yaml")]
    if custom:
        paths.append(_write(rest, custom, folder / f"{name}-custom-resources.yaml"))
    return paths


def _unused(folder: Path, name: str) -> str:
    """The name, or NAME-2, NAME-3, ...: a run may remove a CNI of others and one of its own that
    have the same name, and may need two attempts for one.
    """
    names = (f"{name}-{number}" if number > 1 else name for number in itertools.count(1))
    return next(one for one in names if not (folder / f"{one}.yaml").exists())


def restore_hint(paths: Sequence[Path]) -> str:
    """Where they are and how they are brought back, in words."""
    first = ", the first one first," if len(paths) > 1 else ""
    return (
        f"its manifests are in {' and '.join(map(str, paths))}: kubectl apply --server-side"
        f" -f{first} brings it back"
    )


def _write(rest: Rest, things: Sequence[Thing], path: Path) -> Path:
    with os.fdopen(
        os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600),
        "w",
        encoding="utf-8",
    ) as file:
        os.fchmod(file.fileno(), 0o600)
        for one in things:
            item = rest.get(one.path)
            if item is not None and item["metadata"]["uid"] == one.uid:
                file.write(
                    "---\n"
                    + yaml.dump(
                        _plain(item),
                        sort_keys=False,
                        Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper),
                    )
                )
        file.flush()
        os.fsync(file.fileno())
    return path


def _plain(item: Object) -> Object:
    """Without what the API server writes, and refuses in an object that is made."""
    ours = {key: value for key, value in item["metadata"].items() if key in _KEPT}
    return {
        key: ours if key == "metadata" else value for key, value in item.items() if key != "status"
    }
