"""What an agent needs that the user gives: found missing before anything is started."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from cnibench.clusters.lab.fidelity import image
from cnibench.clusters.lab.fidelity.adapter import Adapter, Object
from cnibench.errors import InputError, MissingError


def check(adapter: type[Adapter], agent: str, given: Iterable[Object]) -> None:
    """``agent`` is the program or image, ``given`` are the objects of manifests. Raises InputError,
    MissingError.
    """
    defined = {
        one["metadata"]["name"] for one in given if one["kind"] == "CustomResourceDefinition"
    }
    if absent := [name for name in adapter.definitions if name not in defined]:
        raise InputError(
            f"{adapter.name} needs CustomResourceDefinitions that no --manifest has:"
            f" {', '.join(absent)}",
            "name the CNI's own with --manifest; see docs/fidelity.md",
        )
    for name in adapter.beside:
        if not image.is_file(agent) or not (Path(agent).absolute().parent / name).exists():
            raise InputError(
                f"{agent}: {adapter.name} needs {name} in its folder",
                f"copy the program and {name} out of the image into one folder, and name the"
                " program there",
            )
    for name, package in adapter.runs.items():
        if shutil.which(name) is None:
            raise MissingError(
                f"{adapter.name} runs {name}, which is not here", f"sudo apt-get install {package}"
            )
