"""An agent out of an image: podman or docker pulls it, and the program is kept in memory, so that
nothing of it stays on the disk.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from cnibench.clusters.lab.fidelity.programs import check
from cnibench.errors import ClusterError, InputError, LimitError, MissingError
from cnibench.system import process

_LIMIT = 600.0  # s for a pull
_LINKS = 8  # that are followed


def is_file(agent: str) -> bool:
    """Does it name a file, not an image?"""
    return Path(agent).exists() or agent.startswith((".", "/")) or not set(agent) & set(":/")


@contextmanager
def program(agent: str, inside: str) -> Iterator[Path]:
    """The path of a program: of a file of that name, or of ``inside`` in the image of that name.
    Raises InputError, MissingError, ClusterError.
    """
    if is_file(agent):
        yield check(Path(agent))
        return
    runtime = next((found for name in ("podman", "docker") if (found := shutil.which(name))), None)
    if runtime is None:
        raise MissingError(
            f"{agent}: neither a file nor, without podman or docker, an image that can be pulled",
            "install podman, or name the program that the image contains",
        )
    try:
        process.run([runtime, "pull", "--quiet", agent], timeout=_LIMIT)
    except (ClusterError, LimitError) as error:
        raise ClusterError(
            f"{agent}: the image cannot be pulled: {error.message.rpartition(' | ')[2]}",
            "check the name and whether its registry can be reached, or name the program that the"
            " image contains",
        ) from None
    with tempfile.TemporaryFile() as archive:
        try:
            subprocess.run([runtime, "save", agent], stdout=archive, timeout=_LIMIT, check=True)
        except (subprocess.SubprocessError, OSError) as error:
            raise ClusterError(f"{agent}: the image cannot be read: {error}") from None
        archive.seek(0)
        content = extracted(archive, inside, agent)
    descriptor = os.memfd_create("agent", os.MFD_CLOEXEC)
    try:
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(content)
        os.fchmod(descriptor, 0o700)
        yield check(Path(f"/proc/{os.getpid()}/fd/{descriptor}"), f"{agent}: {inside}")
    finally:
        os.close(descriptor)


def placed(path: Path, folder: Path) -> Path:
    """The same program where processes of another PID namespace find it."""
    if not str(path).startswith("/proc/"):
        return path
    target = folder / "agent"
    with open(int(path.name), "rb", closefd=False) as source, target.open("wb") as file:
        source.seek(0)
        shutil.copyfileobj(source, file)
    target.chmod(0o700)
    return target


def extracted(archive: IO[bytes], inside: str, image: str) -> bytes:
    """The file ``inside`` of an image that ``save`` has written. Raises InputError."""
    wanted = inside.lstrip("/")
    try:
        with tarfile.open(fileobj=archive) as outer:
            (manifest, *_) = json.load(_member(outer, "manifest.json"))
            for _ in range(_LINKS):
                found = None
                for name in reversed(manifest["Layers"]):
                    with tarfile.open(fileobj=_member(outer, name)) as layer:
                        found = next(
                            (one for one in layer if one.name.lstrip("./") == wanted), None
                        )
                        if found is not None and found.isreg():
                            return _member(layer, found.name).read()
                    if found is not None:
                        break
                if found is None or not found.issym():
                    break
                wanted = os.path.normpath(os.path.join(os.path.dirname(wanted), found.linkname))
                wanted = wanted.lstrip("/")
    except (tarfile.TarError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{image}: not an image that can be read: {error}") from None
    raise InputError(
        f"{image}: {inside} is not in it", "is it the agent's image? Else name the program itself"
    )


def _member(archive: tarfile.TarFile, name: str) -> IO[bytes]:
    found = archive.extractfile(name)
    if found is None:
        raise ValueError(f"{name} is not a file")
    return found
