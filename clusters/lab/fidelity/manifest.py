"""Manifests that the user names: objects for the API server."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import yaml

from cnibench.clusters.lab.fidelity.adapter import Object
from cnibench.errors import InputError
from cnibench.system.files import read_named

_LARGEST = 16 << 20  # bytes: Calico's definitions have 0.5 MB


def objects(paths: Sequence[Path]) -> list[Object]:
    """Those of all files, in their order. Raises InputError naming the file and what was
    expected.
    """
    found: list[Object] = []
    for path in paths:
        try:
            documents = list(yaml.safe_load_all(read_named(path, _LARGEST)))
        except OSError as error:
            raise InputError(f"{path}: {error.strerror}", "check the path") from None
        except (yaml.YAMLError, RecursionError) as error:
            line = str(error).splitlines()[0]
            raise InputError(f"{path}: not YAML: {line}", "name a manifest") from None
        for one in (one for one in documents if one is not None):
            if not _is_object(one):
                raise InputError(
                    f"{path}: expected objects with apiVersion, kind and metadata.name",
                    "name a manifest as for kubectl apply",
                )
            found.append(one)
    return found


def _is_object(one: object) -> bool:
    if not isinstance(one, dict) or not isinstance(one.get("metadata"), dict):
        return False
    names = (one.get("apiVersion"), one.get("kind"), one["metadata"].get("name"))
    return all(isinstance(name, str) for name in names)
