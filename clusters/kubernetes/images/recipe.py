"""What our images are built from: the files of this folder, a base image, and Debian's packages at
one time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from cnibench.errors import UsageError
from cnibench.registry import packages_of

FOLDER = Path(__file__).parent
SNAPSHOT = "20260918T000000Z"  # when the base in the Containerfile was made
_FILES = ("Containerfile", "install.sh", "sbom.py")
_TIME = "%Y%m%dT%H%M%SZ"
_PLATFORM = re.compile(r"linux/[a-z0-9]+(/v[0-9]+)?")


@dataclass(frozen=True)
class Recipe:
    """``base``: an image, '' for the one in the Containerfile. ``snapshot``: the time of
    snapshot.debian.org that packages are taken from, '' for the base's own package sources.
    ``fresh``: no layer of an earlier build is taken.
    """

    base: str = ""
    snapshot: str = SNAPSHOT
    platforms: tuple[str, ...] = ()
    fresh: bool = False

    @classmethod
    def of(cls, base: str, snapshot: str | None, platforms: str, fresh: bool) -> Recipe:
        """From options. Another base has its own package sources unless a time is given. Raises
        UsageError.
        """
        taken = ("" if base else SNAPSHOT) if snapshot is None else snapshot
        names = tuple(dict.fromkeys(one.strip() for one in platforms.split(",") if one.strip()))
        for name in names:
            if not _PLATFORM.fullmatch(name):
                raise UsageError(f"--platform {name[:60]} is not known", "linux/amd64,linux/arm64")
        recipe = cls(base, taken, names, fresh)
        if taken:
            _ = recipe.epoch
        return recipe

    @property
    def epoch(self) -> int:
        """The time that files and users have, in s. Raises UsageError."""
        try:
            made = datetime.strptime(self.snapshot or SNAPSHOT, _TIME)
        except ValueError:
            raise UsageError(
                f"--snapshot {self.snapshot[:60]} is no time of snapshot.debian.org",
                f"for example {SNAPSHOT}",
            ) from None
        return int(made.replace(tzinfo=UTC).timestamp())

    def arguments(self, kind: str) -> list[str]:
        """Build arguments."""
        given = {"SOURCE_DATE_EPOCH": str(self.epoch), "SNAPSHOT": self.snapshot}
        if kind == "workload":
            given["WORKLOADS"] = " ".join(workloads())
        if self.base:
            given["BASE"] = self.base
        return [
            word for name, value in given.items() for word in ("--build-arg", f"{name}={value}")
        ]


def workloads() -> list[str]:
    """The Debian packages of all workloads, those of other installed packages too."""
    return sorted(set(packages_of("workloads").values()))


def content() -> Iterator[bytes]:
    """What decides what is in the images, but for the base and the time."""
    for file in _FILES:
        yield (FOLDER / file).read_bytes()
    yield " ".join(workloads()).encode()
