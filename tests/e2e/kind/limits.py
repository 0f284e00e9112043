"""Settings of the whole machine: a limit that several clusters at the same time would reach, and
what an agent of Cilium sets.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from . import cache

_INSTANCES = Path("/proc/sys/fs/inotify/max_user_instances")
# All nodes are the same user's. A control plane has 27, a worker 14, an agent of Cilium some more;
# Linux allows 128.
_ENOUGH = 512
# As Cilium sets them, for ever. They are set before the first test: one suite's Cilium must not
# change them while another suite compares what its machines have before and after.
_CILIUM = {"kernel/timer_migration": "0\n", "kernel/unprivileged_bpf_disabled": "1\n"}


@contextmanager
def raised() -> Iterator[None]:
    """The limit is at least what clusters need; the last process that needs it sets it back."""
    for name, value in _CILIUM.items():
        file = Path("/proc/sys", name)
        if file.read_text(encoding="ascii") != value:
            file.write_text(value, encoding="ascii")
    own = os.getpid()
    _change(lambda users: [*users, own])
    try:
        yield
    finally:
        _change(lambda users: [one for one in users if one != own])


def _change(change: Callable[[list[int]], list[int]]) -> None:
    """Who needs the limit, without those that have ended, and the limit that follows."""
    users_file = cache.folder() / "inotify.json"  # the value before, and who needs more
    users_file.parent.mkdir(parents=True, exist_ok=True)
    with users_file.open("a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        now = int(_INSTANCES.read_text(encoding="ascii"))
        before, users = json.loads(file.read() or f"[{now}, []]")
        users = change([one for one in users if Path(f"/proc/{one}").exists()])
        _INSTANCES.write_text(f"{max(before, _ENOUGH) if users else before}\n", encoding="ascii")
        file.truncate(0)
        if users:
            file.write(json.dumps([before, users]))
