"""A command that computes beside suites that measure: it has the CPU time that they leave.

``python tests/low_priority.py COMMAND...``. Without a session of its own, its priority would count
only among the processes of the session that it was started in (sched(7), "The autogroup feature").
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

LOWEST = 19


def main(command: list[str]) -> None:
    """Does not return."""
    with contextlib.suppress(PermissionError):  # it leads a group of processes already
        os.setsid()
    os.nice(LOWEST)
    with contextlib.suppress(OSError):  # a kernel without groups by session
        Path("/proc/self/autogroup").write_text(f"{LOWEST}\n", encoding="ascii")
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
