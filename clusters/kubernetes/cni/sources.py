"""What a CNI is installed from, charts and manifests, and by which SHA-256 that is known."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from cnibench.clusters.kubernetes.cni.pod_specs import Object
from cnibench.errors import InputError


@dataclass(frozen=True)
class Rendered:
    """Objects in the order in which they are applied; ``sources`` maps each chart and manifest that
    they come from to its SHA-256.
    """

    objects: list[Object]
    sources: dict[str, str]


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def of_path(path: Path) -> str:
    """The SHA-256 of a file. That of a folder is of the lines that sha256sum prints for its files,
    in the order of their paths below it. Raises OSError.
    """
    if not path.is_dir():
        return sha256(path.read_bytes())
    files = sorted(one.relative_to(path).as_posix() for one in path.rglob("*") if one.is_file())
    lines = "".join(f"{sha256((path / name).read_bytes())}  {name}\n" for name in files)
    return sha256(lines.encode())


def check(where: str, found: str, expected: str) -> None:
    """Raises InputError naming both when what was fetched is not what the profile names."""
    if found != expected:
        raise InputError(
            f"{where}: it is not the file that the profile names (sha256 {expected}), its sha256"
            f" is {found}",
            "has it been changed there?",
        )
