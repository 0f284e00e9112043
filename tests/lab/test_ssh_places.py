"""Pods of the lab on another machine: what holds their namespace is inside before anybody asks, and
a probe leaves no port of theirs in use.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cnibench.clusters.lab.namespaces.netns import Namespace
from cnibench.clusters.lab.remote.probes import Receiver, send_datagram, send_stream
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


@pytest.mark.parametrize("stream", [True, False])
def test_what_nothing_has_reached_can_be_waited_for_again_at_once(stream: bool) -> None:
    """The probe of a denied port, in the attestation before and after a measurement."""
    pod = Namespace("waits")
    try:
        for _ in range(3):
            waits = Receiver(pod, "127.0.0.1", 9, stream)
            waits.wait(1, 0.05)
            waits.close()
            assert (waits.got, waits.accepted) == (0, False)
        reached = Receiver(pod, "127.0.0.1", 9, stream)
        target = ("127.0.0.1", 9)
        failure = send_stream(pod, target, 100, 5) if stream else send_datagram(pod, target, 128)
        reached.wait(100, 5)
        reached.close()
        assert (failure, reached.got, reached.accepted) == ("", 100, True)
    finally:
        pod.remove()
