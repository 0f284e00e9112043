"""Pods of the lab on another machine: what holds their namespace is inside before anybody asks."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from cnibench.clusters.ssh.lab.places import SidePlace
from cnibench.system import process


class _Busy:
    """A connection to this machine, whose programs take a while to enter a namespace."""

    there = SimpleNamespace(python="python3")

    def spawn(self, argv: Sequence[str], stdout: Path | None, stderr: Path | None) -> Any:
        return process.spawn(["sh", "-c", 'sleep 0.3; exec "$@"', "sh", *argv])

    def read(self, path: str) -> str:
        return Path(path).read_text()


def test_a_pod_has_a_process_only_when_it_is_inside() -> None:
    """A counter was made in the machine's own namespace when nsenter had not entered the Pod's."""
    with subprocess.Popen(
        ["unshare", "--net", "sh", "-c", "echo; exec sleep 60"], stdout=-1
    ) as pod:
        assert pod.stdout is not None
        pod.stdout.readline()
        place = SidePlace("a0", cast("Any", _Busy()), f"/proc/{pod.pid}/ns/net")
        try:
            assert os.readlink(f"/proc/{place.pid}/ns/net") == os.readlink(place.netns)
        finally:
            place.leave()
            pod.kill()
