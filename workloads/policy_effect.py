"""The time until a policy takes effect: datagrams flow to a Pod, a policy denies their port, and the last one that arrives is waited for.

The datagrams are iperf3's; what arrives is read from the receiver's /proc/net/snmp over and over, so that the figure is as fine as the
readings follow each other (``resolution`` of the record). In the lab the time is that of loading the rules or the map, and only that: there
is no API server whose news a daemon would have to hear of first. On a cluster it counts from the request to that server.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from cnibench.cluster import Pod
from cnibench.errors import LimitError, MeasureError
from cnibench.exec import Process
from cnibench.profile import Strict
from cnibench.situation import Findings, Situation
from cnibench.task import Task
from cnibench.workload import Workload
from cnibench.workloads import _common

PORT = 5401
_RATE, _LENGTH = 4_000_000, 100  # bit/s, bytes: 5000 datagrams a second
_FLOW = 20  # datagrams that have to arrive before the policy is made
_QUIET = 0.6  # s without a datagram (3000 are sent): the policy has taken effect, and the sender is not merely waiting for a CPU
_LIMIT = 30.0  # s
_RUNS = 120  # s that iperf3 is told to send; it is ended before


class Params(Strict):
    """None of its own: policies that stand already are the condition ``policy.entries``."""


class PolicyEffect(Workload):
    name = "policy-effect"
    title = "time until a policy takes effect"
    tools = ("iperf3",)
    Params = Params
    primary = "policy_effect"
    cpp = False
    transport = "udp"
    noise = 0.1  # one short event a sample; nobody published repeats of it
    collected = False
    several = False

    def seconds(self, params: Mapping[str, Any], duration: float, warmup: float) -> float:
        return 2.0

    @contextmanager
    def serve(self, s: Situation) -> Iterator[None]:
        port = PORT + s.cell.pair
        with _common.serving(s, ["iperf3", f"-{s.cell.ip}", "-s", "-B", s.listen, "-p", str(port)], port):
            try:
                yield
            finally:
                s.standing.deny(None)

    def warm_up(self, s: Situation) -> None:
        """Nothing becomes warm: each sample is one event."""

    def start(self, s: Situation) -> Process:
        """The event itself, before the window: the flow is left running, denied, and its end is not waited for."""
        port = PORT + s.cell.pair
        argv = [
            "iperf3", f"-{s.cell.ip}", "-u", "-c", s.target, "-p", str(port), "-b", str(_RATE), "-l", str(_LENGTH),
            "-t", str(_RUNS), "-i", "0",
        ]  # fmt: skip
        with _common.start(s, argv) as sender:
            told = _observe(s, port, sender)
        (s.raw / "effect.json").write_text(json.dumps(told) + "\n", encoding="utf-8")
        return Task("policy-effect")

    def findings(self, s: Situation) -> Findings:
        told = json.loads((s.raw / "effect.json").read_text(encoding="utf-8"))
        found = Findings()
        found.add("policy_effect", told["effect"])
        found.records.append(("policy_effect", told))
        return found


def _observe(s: Situation, port: int, sender: Process) -> dict[str, float]:
    """Waits for the flow, denies it, waits until nothing arrives. Raises LimitError, MeasureError."""
    deny = s.standing.denial(port)
    end = time.monotonic() + _LIMIT
    first = _arrived(s.server, s.cell.ip)
    while (now := _arrived(s.server, s.cell.ip)) < first + _FLOW:
        _go_on(s, sender, end, "no datagram arrives before the policy is made")
        time.sleep(0.002)
    asked = time.monotonic()
    deny()
    loaded = last = time.monotonic()
    gaps, readings = 0.0, 0
    while last - loaded < _LIMIT:
        before, seen = last, now
        while (now := _arrived(s.server, s.cell.ip)) == seen:
            if time.monotonic() - last > _QUIET:
                return {"effect": last - asked, "load": loaded - asked, "resolution": gaps / max(readings, 1)}
            _go_on(s, sender, end, "datagrams still arrive")
        last = time.monotonic()
        gaps, readings = gaps + last - before, readings + 1
    raise LimitError(f"the policy did not take effect within {_LIMIT:.0f} s: UDP port {port} is still open")


def _go_on(s: Situation, sender: Process, end: float, otherwise: str) -> None:
    if sender.poll() is not None:
        out, err = _common.outputs(s)
        raise MeasureError(f"iperf3 ended with {sender.poll()}: {_common.tail(err or out) or 'no word'}")
    if time.monotonic() > end:
        raise LimitError(f"{otherwise}, for {_LIMIT:.0f} s")


def _arrived(pod: Pod, ip: int) -> int:
    """Datagrams that the Pod's UDP has received so far."""
    if ip == 6:
        for line in pod.read_text("/proc/net/snmp6").splitlines():
            if line.startswith("Udp6InDatagrams"):
                return int(line.split()[1])
    heads, values = (line.split() for line in pod.read_text("/proc/net/snmp").splitlines() if line.startswith("Udp:"))
    return int(values[heads.index("InDatagrams")])


PROVIDER = PolicyEffect()
