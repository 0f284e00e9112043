"""Image archives (the format of `docker save`), written without an engine."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

# files of an image carry one fixed time, so that the same input gives the same digest
_EPOCH = 1_700_000_000


def layer(to: Path, files: Mapping[str, Path]) -> Path:
    """A layer with these programs and folders: {path in the image: path here}."""
    with tarfile.open(to, "w") as tar:
        for name, source in files.items():
            tar.add(source, name.lstrip("/"), filter=_plain)
    return to


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mtime = _EPOCH
    return entry


@dataclasses.dataclass(frozen=True)
class Image:
    """A name, its layers (tar files, lowest first), and VARIABLE=VALUE for its programs."""

    name: str
    layers: Sequence[Path]
    entrypoint: Sequence[str] = ()
    environment: Sequence[str] = ()


def write(to: Path, *images: Image) -> None:
    """One archive of these images; a layer that several of them have is in it once."""
    digests = {path: _sha256(path) for image in images for path in image.layers}
    manifest, configs = [], {}
    for image in images:
        config = _config(image, [digests[path] for path in image.layers])
        name = f"{hashlib.sha256(config).hexdigest()}.json"
        configs[name] = config
        manifest.append(
            {
                "Config": name,
                "RepoTags": [image.name],
                "Layers": [f"{digests[path]}.tar" for path in image.layers],
            }
        )
    with tarfile.open(to, "w") as tar:
        for path, digest in digests.items():
            tar.add(path, f"{digest}.tar", filter=_plain)
        for name, config in configs.items():
            _bytes(tar, name, config)
        _bytes(tar, "manifest.json", json.dumps(manifest).encode())


def _config(image: Image, digests: Sequence[str]) -> bytes:
    path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    made = "2023-11-14T22:13:20Z"
    return json.dumps(
        {
            "architecture": {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()],
            "os": "linux",
            "created": made,
            "config": {
                "Env": [path, *image.environment],
                "Entrypoint": list(image.entrypoint) or None,
            },
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}" for digest in digests]},
            "history": [{"created": made} for _ in digests],
        }
    ).encode()


def _bytes(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = _plain(tarfile.TarInfo(name))
    entry.size = len(data)
    tar.addfile(entry, io.BytesIO(data))


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
