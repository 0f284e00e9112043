"""The two images: what is in them, their names, how they are built and given to a cluster that has
no registry.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from cnibench import __version__
from cnibench.errors import CnibenchError, MissingError
from cnibench.registry import packages_of
from cnibench.system import process as programs

KINDS = ("workload", "agent")
_HERE = Path(__file__).parent
# no registry has that name: what is not loaded is not silently fetched from a stranger
_HOME = "localhost/cnibench"
_BUILD = 1800.0  # s
_SAVE = 300.0  # s
_ASK = 60.0  # s: podman waits for its lock while other containers are made


def containerfile(kind: str) -> Path:
    return _HERE / f"Containerfile.{kind}"


def name(kind: str, registry: str = "") -> str:
    """The image's name; its tag changes with what is in it, so that an old one is never taken for
    it.
    """
    content = containerfile(kind).read_bytes() + " ".join(_arguments(kind)).encode()
    return f"{registry.rstrip('/') or _HOME}/{kind}:{__version__}-{hashlib.sha256(content).hexdigest()[:8]}"  # noqa: E501


def _arguments(kind: str) -> list[str]:
    """Build arguments: the Debian packages of all workloads, those of other installed packages
    too.
    """
    if kind != "workload":
        return []
    return ["--build-arg", f"WORKLOADS={' '.join(sorted(set(packages_of('workloads').values())))}"]


@dataclass(frozen=True)
class Engine:
    """podman or docker, as a program."""

    program: str

    def has(self, image: str) -> bool:
        """Is it there? Raises nothing for an engine that has stopped: it has none then."""
        try:
            return (
                programs.run(
                    [self.program, "image", "inspect", "--format", "{{.Id}}", image],
                    timeout=_ASK,
                    check=False,
                ).returncode
                == 0
            )
        except CnibenchError:
            return False

    def build(self, kind: str, base: str = "", registry: str = "") -> str:
        """Builds one; its name. Raises ClusterError."""
        image = name(kind, registry)
        argv = [
            self.program,
            "build",
            "--network",
            "host",
            "-t",
            image,
            "-f",
            str(containerfile(kind)),
        ]
        argv += _arguments(kind)
        if base:
            argv += ["--build-arg", f"BASE={base}"]
        programs.run([*argv, str(_HERE)], timeout=_BUILD)
        return image

    def save(self, images: Sequence[str], path: Path) -> None:
        """All of them in one archive. Raises ClusterError."""
        many = (
            ["--multi-image-archive", "--format", "docker-archive"]
            if self.program == "podman"
            else []
        )
        part = path.with_name(path.name + ".part")
        part.unlink(missing_ok=True)
        try:
            programs.run([self.program, "save", *many, "-o", str(part), *images], timeout=_SAVE)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)

    def push(self, image: str) -> None:
        """To the registry that its name begins with. Raises ClusterError."""
        programs.run([self.program, "push", image], timeout=_SAVE)

    def id(self, image: str) -> str:
        return programs.run(
            [self.program, "image", "inspect", "--format", "{{.Id}}", image], timeout=_ASK
        ).stdout.strip()


@cache
def engine() -> Engine:
    """The one that KIND_EXPERIMENTAL_PROVIDER names, else docker or podman, whichever answers.
    Raises MissingError.
    """
    named = os.environ.get("KIND_EXPERIMENTAL_PROVIDER", "")
    reasons = []
    for program in (named,) if named else ("docker", "podman"):
        if shutil.which(program) is None:
            reasons.append(f"{program} is not installed")
            continue
        try:
            done = programs.run([program, "info"], timeout=_ASK, check=False)
        except CnibenchError as error:
            reasons.append(f"{program}: {error.message}")
            continue
        if done.returncode == 0:
            return Engine(program)
        reasons.append(
            f"{program} does not answer:"
            f" {(done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]}"
        )
    raise MissingError(
        f"no container engine: {'; '.join(reasons)}", "sudo apt-get install podman, or start docker"
    )


def archive(engine: Engine, images: Sequence[str]) -> Path:
    """An archive of those images, made once and kept beside others in the user's cache. Raises
    ClusterError.
    """
    ids = [engine.id(image) for image in images]
    digest = hashlib.sha256("\n".join([*images, *ids]).encode()).hexdigest()[:16]
    folder = (
        Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cnibench" / "images"
    )
    folder.mkdir(parents=True, exist_ok=True)
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
