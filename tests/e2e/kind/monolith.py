"""Cilium's agent for a kernel that was built without modules."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from . import cache

_ASKED, _ANSWERED = b"/proc/modules", b"/cni//modules"


def agent(built: Path) -> Mapping[str, Path]:
    """The agent's files in its image. It ends at once where /proc/modules is not there at all: then
    it reads an empty list elsewhere.
    """
    if Path("/proc/modules").exists():
        return {"usr/bin/cilium-agent": built}

    def build(where: Path) -> None:
        program = built.read_bytes()
        if _ASKED not in program:
            raise ValueError(f"{built} does not read {_ASKED.decode()}")
        (where / "cilium-agent").write_bytes(program.replace(_ASKED, _ANSWERED))
        shutil.copymode(built, where / "cilium-agent")
        (where / "modules").touch()

    made = cache.part("cilium-agent", cache.key(built.parent.name, Path(__file__)), build)
    return {
        "usr/bin/cilium-agent": made / "cilium-agent",
        _ANSWERED.decode().replace("//", "/").lstrip("/"): made / "modules",
    }
