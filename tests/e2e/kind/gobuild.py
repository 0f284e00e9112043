"""Programs from pinned Go modules, and files that lie in those modules."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from . import cache
from .command import run
from .toolchain import go

MODULES = Path(__file__).parent / "go"
_LIMIT = 5400.0  # s: half an hour on two CPUs that do something else as well


def part(
    name: str,
    module: str,
    programs: Mapping[str, str],
    stamps: Mapping[str, str],
    *,
    tags: str = "",
    cgo: bool = False,
    sources: tuple[str, Mapping[str, str]] = ("", {}),
) -> Path:
    """A folder with `programs` ({name: package}), built in go/`module`, and files of a module
    (`sources`: its path, {name: path in it}).

    `stamps` are string variables set at link time. With `cgo` the programs are linked statically.
    """
    folder = MODULES / module
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    env = {
        # Go's own caches stay where this user has them, so that a rebuild costs seconds.
        "CGO_ENABLED": str(int(cgo)),
        "GOFLAGS": f"{os.environ.get('GOFLAGS', '')} -buildvcs=false -mod=readonly".strip(),
        "GOTOOLCHAIN": "local",
    }
    ldflags = " ".join(
        [
            "-s -w",
            *(f"-X {variable}={value}" for variable, value in stamps.items()),
            *(["-extldflags=-static"] if cgo else []),
        ]
    )

    def build(where: Path) -> None:
        with tempfile.TemporaryDirectory(
            dir=where
        ) as scratch:  # all at once: one is linked while another is compiled
            words = [
                "build",
                "-trimpath",
                "-tags",
                tags,
                "-gcflags=all=-dwarf=false",
                "-ldflags",
                ldflags,
                "-o",
                f"{scratch}/",
            ]
            run(go(), *words, *programs.values(), cwd=folder, env=env, limit=_LIMIT)
            for program, package in programs.items():
                (where / program).parent.mkdir(exist_ok=True)
                shutil.move(Path(scratch) / _executable(package), where / program)
        if sources[0]:
            _copy(
                Path(
                    run(
                        go(), "list", "-m", "-f", "{{.Dir}}", sources[0], cwd=folder, env=env
                    ).strip()
                ),
                sources[1],
                where,
            )

    return cache.part(
        f"bin-{name}",
        cache.key(dict(programs), dict(stamps), tags, cgo, sources[0], dict(sources[1]), *files),
        build,
    )


def _executable(package: str) -> str:
    """What go calls a package's program: the last element of its path that is not a major
    version.
    """
    return re.sub(r"/v\d+$", "", package).rpartition("/")[2]


def _copy(module: Path, sources: Mapping[str, str], where: Path) -> None:
    for name, source in sources.items():
        to = where / name
        to.parent.mkdir(exist_ok=True)
        if (module / source).is_dir():
            shutil.copytree(module / source, to)
        else:
            shutil.copy(module / source, to)
            to.chmod(0o755)  # modules carry no modes
    for path in where.rglob("*"):  # and the module cache is read-only
        path.chmod(path.stat().st_mode | 0o200)
