"""Whether a node's agent has what it needs is tried, by the exit status of a program."""

from __future__ import annotations

import subprocess
import sys

import pytest

from cnibench.clusters.kubernetes.nodes import privileges

MASK = f"{privileges._mask():x}"


def tried(*without: str) -> tuple[int, list[str]]:
    """What the program says beside a first process that lacks nothing; ``without`` are commands
    that take something from it.
    """
    script = '"$@"; echo "$?"'
    probe = [sys.executable, "-I", "-S", str(privileges._PROBE), MASK]
    argv = ["unshare", "--pid", "--fork", "--mount-proc", "sh", "-c", script, "sh"]
    done = subprocess.run(
        [*argv, *without, *probe], capture_output=True, text=True, timeout=30, check=True
    )
    *found, status = done.stdout.splitlines()
    return int(status), found


def test_all_capabilities_suffice() -> None:
    assert tried() == (0, [])


@pytest.mark.parametrize(
    ("name", "denied"),
    [
        ("sys_admin", {"listing eBPF programs", "the mount namespaces of others"}),
        ("sys_ptrace", {"the node's files", "the node's settings"}),
        ("net_admin", set()),
    ],
)
def test_one_that_is_missing_is_named(name: str, denied: set[str]) -> None:
    status, found = tried("setpriv", f"--bounding-set=-{name}", f"--inh-caps=-{name}")
    assert status == 1
    assert denied < set(found)
    assert found[-1].startswith("the capabilities ")
