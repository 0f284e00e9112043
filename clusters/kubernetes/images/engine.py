"""podman or docker, as a program: what our images are built, kept and pushed with."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from cnibench.clusters.kubernetes.images.recipe import FOLDER, Recipe
from cnibench.errors import ClusterError, CnibenchError, MissingError, UsageError
from cnibench.system import process as programs
from cnibench.system import scratch

_DENIED = re.compile(r"unauthorized|authentication required|denied|no basic auth", re.I)
_BUILD = 1800.0  # s, for each platform
_SAVE = 300.0  # s
_ASK = 60.0  # s: podman waits for its lock while other containers are made


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

    def build(self, kind: str, image: str, recipe: Recipe) -> None:
        """Builds one under that name. podman gives the same bytes each time; docker dates the files
        by its clock. Raises UsageError, ClusterError.
        """
        several = len(recipe.platforms) > 1
        if several and self.program != "podman":
            raise UsageError(
                f"{self.program} is used for one platform at a time",
                "KIND_EXPERIMENTAL_PROVIDER=podman takes podman, which builds for several",
            )
        argv = [self.program, "build", "--network", "host", "--target", kind]
        argv += ["-f", str(FOLDER / "Containerfile"), *recipe.arguments(kind)]
        if recipe.platforms:
            argv += ["--platform", ",".join(recipe.platforms)]
        if recipe.fresh:
            argv.append("--no-cache")
        if self.program == "podman":
            argv += ["--timestamp", str(recipe.epoch)]
        if several:  # one of that name would get the new images in addition
            programs.run([self.program, "manifest", "rm", image], timeout=_ASK, check=False)
        argv += ["--manifest" if several else "--tag", image, str(FOLDER)]
        programs.run(argv, timeout=_BUILD * max(1, len(recipe.platforms)))

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

    def push(self, image: str) -> str:
        """To the registry that its name begins with; its digest there. Raises ClusterError."""
        try:
            return self._push(image)
        except ClusterError as error:
            if not _DENIED.search(error.message):
                raise
            host = image.partition("/")[0]
            raise ClusterError(
                f"the registry {host} does not let this user push {image}",
                f"{self.program} login {host}",
            ) from None

    def _push(self, image: str) -> str:
        if self.program == "podman":
            with scratch.folder() as folder:
                file = folder / "digest"
                argv = ["podman", "push", "--digestfile", str(file), image]
                if not programs.run(
                    ["podman", "manifest", "exists", image], timeout=_ASK, check=False
                ).returncode:
                    argv = ["podman", "manifest", "push", "--all", "--digestfile", str(file)]
                    argv += [image, f"docker://{image}"]
                programs.run(argv, timeout=_SAVE)
                return file.read_text().strip()
        programs.run([self.program, "push", image], timeout=_SAVE)
        argv = [self.program, "image", "inspect", "--format", '{{join .RepoDigests "\\n"}}', image]
        repository = image.rpartition(":")[0]
        for line in programs.run(argv, timeout=_ASK).stdout.splitlines():
            if line.startswith(f"{repository}@"):
                return line.rpartition("@")[2]
        raise ClusterError(f"{self.program} does not tell the digest of {image}")

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
        said = (done.stderr.strip() or done.stdout.strip()).rpartition("\n")[2]
        reasons.append(f"{program} does not answer: {said or f'exit status {done.returncode}'}")
    raise MissingError(
        f"no container engine: {'; '.join(reasons)}", "sudo apt-get install podman, or start docker"
    )
