"""Builds all parts in the background while other suites run, with the CPU time that nobody else
wants.

Whoever needs the parts before they are there waits for the one that is being built (cache.lock) and
builds the rest itself.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from . import cache

LOG = "ahead.log"  # in the cache's folder: what the last builder said
# The nice value of its session: the others come first, but those of tests/low_priority.py come
# after it. Without it the session has as much time as all tests together (sched(7), "The autogroup
# feature").
_GROUP = 10
_ENDING = 20.0  # s that programs are given to clear up


def begin(owner: int) -> None:
    """Starts the builder and returns. It ends with the process ``owner``, however that ends."""
    cache.folder().mkdir(parents=True, exist_ok=True)
    words = [sys.executable, str(Path(__file__).parent), "--ahead-of", str(owner)]
    with (cache.folder() / LOG).open("w") as log:
        subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def attend(owner: int, build: Callable[[], object]) -> None:
    """In the builder, which leads a process group: carries ``build`` out in a child, and ends the
    group when ``owner`` ends first.
    """
    try:
        gone = os.pidfd_open(owner)
    except ProcessLookupError:
        return
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # ours to the group
    os.nice(19)
    with contextlib.suppress(OSError):  # a kernel without groups by session
        Path("/proc/self/autogroup").write_text(f"{_GROUP}\n", encoding="ascii")
    with contextlib.suppress(PermissionError):  # a container's seccomp
        os.sched_setscheduler(
            0, os.SCHED_IDLE, os.sched_param(0)
        )  # and what is started inherits it
    child = os.fork()
    if child == 0:
        _build(build)
    done = os.pidfd_open(child)
    if done in select.select([gone, done], [], [])[0]:
        os.waitpid(child, 0)
        return
    os.killpg(0, signal.SIGTERM)
    os.waitpid(child, 0)
    deadline = time.monotonic() + _ENDING
    while time.monotonic() < deadline and _others():
        time.sleep(0.1)
    os.killpg(0, signal.SIGKILL)


def _build(build: Callable[[], object]) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        build()
    finally:
        sys.stdout.flush()
        os._exit(0)


def _others() -> bool:
    """Does anybody but us live in our process group?"""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state, _, group = (folder / "stat").read_text().rpartition(")")[2].split()[:3]
        except (OSError, ValueError):  # ended meanwhile
            continue
        if int(group) == os.getpgrp() and state != "Z" and folder.name != str(os.getpid()):
            return True
    return False
