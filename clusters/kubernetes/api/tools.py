"""The programs that clusters are made and talked to with: are they there, and new enough?"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass

from cnibench.errors import CnibenchError
from cnibench.system import process as programs
from cnibench.testbed.cluster import Problem


@dataclass(frozen=True)
class Tool:
    """``least`` is the oldest version that is known to have what we use."""

    least: tuple[int, int]
    argv: tuple[str, ...]
    remedy: str


_TOOLS = {
    "helm": Tool(
        (3, 8), ("version", "--short"), "install helm 3: https://helm.sh/docs/intro/install/"
    ),
    "kind": Tool(
        (0, 20),
        ("version",),
        "go install sigs.k8s.io/kind@v0.33.0, or see"
        " https://kind.sigs.k8s.io/docs/user/quick-start/",
    ),
}


def version(text: str) -> tuple[int, int] | None:
    """The first X.Y in what a program says of itself."""
    match = re.search(r"\bv?(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else None


def problems(*names: str) -> list[Problem]:
    """What of these is missing or too old on this machine."""
    found = []
    for name in names:
        tool = _TOOLS[name]
        if shutil.which(name) is None:
            found.append(Problem("", f"the program {name} is not installed", tool.remedy))
            continue
        try:
            said = version(programs.run([name, *tool.argv], timeout=20, check=False).stdout)
        except CnibenchError as error:
            found.append(Problem("", f"{name} does not work: {error.message}", tool.remedy))
            continue
        if said is None:
            found.append(Problem("", f"{name} does not report its version", tool.remedy))
        elif said < tool.least:
            least = ".".join(map(str, tool.least))
            found.append(
                Problem(
                    "",
                    f"{name} is too old: it takes {name} {least} or newer (here is"
                    f" {said[0]}.{said[1]})",
                    tool.remedy,
                )
            )
    return found
