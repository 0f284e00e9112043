"""How many processes and threads the containers that are nodes may have: as many as the machine's
kernel allows.

Podman gives each container 2048 unless its configuration says otherwise; a node with a hundred Pods
has more, for each Pod's shim alone is a dozen threads, and the Pod that comes too late ends with
"resource temporarily unavailable".
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from cnibench.clusters.kubernetes import images
from cnibench.system import process as programs

_ASK = 20.0  # s
_CGROUPS = Path("/sys/fs/cgroup")


def limit_of(table: str, container: str, root: Path = _CGROUPS) -> Path | None:
    """The file with the limit of a container's control group, out of /proc/PID/cgroup of a process
    in it (cgroups(7)); None: not known.

    A process may be in a group below; the container's own is the uppermost that has its ID in its
    name.
    """
    lines = [line.split(":", 2) for line in table.splitlines() if line.count(":") >= 2]
    version1 = next(
        (
            root / "pids" / path.lstrip("/")
            for _, names, path in lines
            if "pids" in names.split(",")
        ),
        None,
    )
    version2 = next(
        (root / path.lstrip("/") for number, names, path in lines if number == "0" and not names),
        None,
    )
    process = version1 or version2
    if process is None:
        return None
    own = [group for group in (process, *process.parents) if container in group.name]
    return own[-1] / "pids.max" if own else None


def unlimited(names: list[str]) -> None:
    """Takes the limit from these containers, which are ours. Where that may not be (engines of
    another user or machine) it stays.
    """
    argv = [images.engine().program, "inspect", "--format", "{{.Id}} {{.State.Pid}}", *names]
    for line in programs.run(argv, timeout=_ASK).stdout.splitlines():
        container, pid = line.split()
        with contextlib.suppress(OSError):
            file = limit_of(Path(f"/proc/{pid}/cgroup").read_text(encoding="ascii"), container)
            if file is not None:
                file.write_text("max", encoding="ascii")
