"""The time until a policy takes effect: datagrams flow to a Pod, a policy denies their port, and
the last one that arrives is waited for.

Each datagram is a flow of its own, from another source port: many CNIs let packets of a flow that
they know (conntrack's ESTABLISHED) by before they look at their policies, so that one flow would go
on whatever is denied. What arrives is counted by the receiver's kernel and read from its
/proc/net/snmp over and over, so that the figure is as fine as the readings follow each other
(``resolution`` of the record). In the lab the time is that of loading the rules or the map, and
only that: there is no API server whose news a daemon would have to hear of first. On a cluster it
counts from the request to that server.
"""

from __future__ import annotations

import json
import math
import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from cnibench.errors import LimitError, MeasureError
from cnibench.model.profile import Strict
from cnibench.run.sample_context import Measurements, SampleContext
from cnibench.run.task import Task
from cnibench.run.workload import Workload
from cnibench.system.files import write_private
from cnibench.system.guest import patience
from cnibench.system.process import Process, ending
from cnibench.testbed.capabilities.policies import Policies
from cnibench.testbed.place import Pod
from cnibench.workloads import _common

PORT = 5401
_GAP, _SHARE = (
    0.0002,
    0.0004,
)  # s between datagrams; of the time that the sender has run, where that is more
# datagrams: that have to arrive before the policy is made, and have to be sent in vain before it
# counts as in effect
_FLOW = 20
_QUIET = 0.6  # s without a datagram
_ARRIVING = 0.1  # s that a datagram may be on its way
_BEGINS, _LIMIT = (
    30.0,
    30.0,
)  # s until datagrams are sent and arrive; until the policy has taken effect
# s after which the sender ends by itself; it is ended before, and loading many rules may take long
# under emulation
_RUNS = 600.0
_SOURCES = range(1024, 65536)
_UNCONNECTED = "07"  # a UDP socket's state in /proc/net/udp (TCP_CLOSE of include/net/tcp_states.h)

# Nobody reads the socket: the kernel counts what overflows its (least) buffer at once, and no
# program has to be woken for it.
_RECEIVE = """
import signal, socket, sys
one = socket.socket(socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET, socket.SOCK_DGRAM)
one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
one.bind((sys.argv[1], int(sys.argv[2])))
signal.pause()
"""
# One that is late is sent at once, and none in bursts to catch up. A source port in use is left
# out, the next one is tried.
_SEND = """
import socket, sys, time
target, port, first, low, high = sys.argv[1], *map(int, sys.argv[2:6])
gap, share, seconds = map(float, sys.argv[6:9])
family = socket.AF_INET6 if ":" in target else socket.AF_INET
data, said, number = bytes(100), "", 0
began = due = now = time.monotonic()
while now - began < seconds:
    if now < due:
        time.sleep(due - now)
        now = time.monotonic()
    with socket.socket(family, socket.SOCK_DGRAM) as one:
        try:
            one.bind(("", low + (first + number) % (high - low)))
            one.sendto(data, (target, port))
        except OSError as error:
            if str(error) != said:
                said = str(error)
                print(said, file=sys.stderr, flush=True)
    number += 1
    due = max(due + max(gap, (now - began) * share), now)
    now = time.monotonic()
"""


class Params(Strict):
    """None of its own: policies that exist already are the condition ``policy.entries``."""


class PolicyEffect(Workload):
    """A sample begins with the source ports after those of the one before: datapaths remember a
    flow for half a minute and longer.
    """

    name = "policy-effect"
    title = "time until a policy takes effect"
    tools = {}
    needs = (Policies,)
    Params = Params
    primary = "policy_effect"
    cpp = False
    transport = "udp"
    noise = 0.1  # one short event a sample; nobody published repeats of it
    collected = False
    several = False

    def __init__(self) -> None:
        self._first = random.randrange(len(_SOURCES))

    def seconds(self, params: Mapping[str, Any], duration: float, warmup: float) -> float:
        return 2.0

    @contextmanager
    def serve(self, s: SampleContext) -> Iterator[None]:
        with _receiving(s, PORT + s.cell.pair):
            try:
                yield
            finally:
                Policies.of(s.deployment).end_denial()

    def warm_up(self, s: SampleContext) -> None:
        """Nothing becomes warm: each sample is one event."""

    def start(self, s: SampleContext) -> Process:
        """The event itself, before the window: datagrams are sent on and on, denied, and the last
        one of them is waited for.
        """
        port = PORT + s.cell.pair
        deny = Policies.of(s.deployment).denial(port)
        argv = [
            s.client.python,
            "-I",
            "-S",
            "-c",
            _SEND,
            *sending(s.target, port, self._first, _RUNS),
        ]
        began = time.monotonic()
        try:
            with _common.start(s, argv) as sender:
                effect = _observe(s, port, deny, sender)
        finally:
            self._first = (self._first + most(time.monotonic() - began)) % len(_SOURCES)
        write_private(s.raw / "effect.json", json.dumps(effect) + "\n")
        return Task("policy-effect")

    def measurements(self, s: SampleContext) -> Measurements:
        effect = json.loads((s.raw / "effect.json").read_text(encoding="utf-8"))
        found = Measurements()
        found.add("policy_effect", effect["effect"])
        found.records.append(("policy_effect", effect))
        return found


def sending(target: str, port: int, first: int, seconds: float) -> list[str]:
    """The sender's arguments: it begins with the source port of that number."""
    return [
        str(item)
        for item in (target, port, first, _SOURCES.start, _SOURCES.stop, _GAP, _SHARE, seconds)
    ]


def most(seconds: float) -> int:
    """Source ports that the sender uses at most in so many seconds: at first so many a second, then
    ever fewer, so that they last.
    """
    steady = _GAP / _SHARE
    return (
        math.ceil(
            seconds / _GAP
            if seconds < steady
            else (1 + math.log(seconds / steady) * (1 + _SHARE)) / _SHARE
        )
        + 1
    )


@contextmanager
def _receiving(s: SampleContext, port: int) -> Iterator[None]:
    """The socket in the server's Pod that the datagrams arrive at. Raises MeasureError,
    LimitError.
    """
    argv = s.on_server([s.server.python, "-I", "-S", "-c", _RECEIVE, s.listen, str(port)])
    _common.note(s.raw, "server", argv)
    _await_sockets(s, port, 0)  # that of the sample before may be dying still
    errors = s.raw / "server.stderr"
    with s.server.spawn(argv, stdout=s.raw / "server.stdout", stderr=errors) as receiver:
        _await_sockets(s, port, 1, receiver)
        yield
        if (status := receiver.poll()) is not None:
            raise MeasureError(
                f"the receiver {ending(status)}:"
                f" {_common.tail(_common.read(errors)) or 'no output'}"
            )


def _await_sockets(
    s: SampleContext, port: int, count: int, receiver: Process | None = None
) -> None:
    end = time.monotonic() + _common.LISTEN_LIMIT * patience()
    path = "/proc/net/udp6" if s.cell.ip == 6 else "/proc/net/udp"
    while (found := _common.sockets(s.server.read_text(path), port, _UNCONNECTED)) != count:
        if receiver is not None and (status := receiver.poll()) is not None:
            said = _common.tail(_common.read(s.raw / "server.stderr")) or "no output"
            raise MeasureError(f"the receiver {ending(status)} before its socket was there: {said}")
        if time.monotonic() > end:
            if found > count:
                raise MeasureError(
                    f"the UDP port {port} is in use in {s.server.name}",
                    "end the program that has it",
                )
            raise LimitError(
                f"the receiver had no socket on UDP port {port} within {_common.LISTEN_LIMIT:.0f} s"
            )
        time.sleep(0.005)


def _observe(
    s: SampleContext, port: int, deny: Callable[[], None], sender: Process
) -> dict[str, float]:
    """Waits for the datagrams, denies them, waits until none arrives. Raises LimitError,
    MeasureError.
    """
    ip, end = s.cell.ip, time.monotonic() + _BEGINS
    first = _arrived(s.server, ip)
    while (now := _arrived(s.server, ip)) < first + _FLOW:
        _go_on(s, sender, end, "no datagram arrives before the policy is made")
        time.sleep(0.002)
    asked = time.monotonic()
    deny()
    loaded = last = time.monotonic()
    gaps, readings = 0.0, 0
    while last - loaded < _LIMIT:
        before, seen = last, now
        while (now := _arrived(s.server, ip)) == seen:
            if time.monotonic() - last > _QUIET and _in_vain(s, sender, seen):
                return {
                    "effect": last - asked,
                    "load": loaded - asked,
                    "resolution": gaps / max(readings, 1),
                }
        last = time.monotonic()
        gaps, readings = gaps + last - before, readings + 1
    raise LimitError(
        f"the policy did not take effect within {_LIMIT:.0f} s: UDP port {port} is still open"
    )


def _in_vain(s: SampleContext, sender: Process, seen: int) -> bool:
    """Are datagrams sent of which none arrives? The sender may merely have waited for a CPU. Raises
    LimitError, MeasureError.
    """
    sent, end = _udp(s.client, s.cell.ip, "OutDatagrams"), time.monotonic() + _BEGINS
    while _udp(s.client, s.cell.ip, "OutDatagrams") < sent + _FLOW:
        _go_on(s, sender, end, "no datagram is sent")
        time.sleep(0.002)
    time.sleep(_ARRIVING)
    return _arrived(s.server, s.cell.ip) == seen


def _go_on(s: SampleContext, sender: Process, end: float, otherwise: str) -> None:
    status = sender.poll()
    if status is None and time.monotonic() <= end:
        return
    said = _common.tail("\n".join(_common.outputs(s)))
    if status is not None:
        raise MeasureError(f"the sender {ending(status)}: {said or 'no output'}")
    raise LimitError(f"{otherwise}, for {_BEGINS:.0f} s" + (f": {said}" if said else ""))


def _arrived(pod: Pod, ip: int) -> int:
    """Datagrams that have reached the receiver's socket so far, but for the few that its buffer
    took.
    """
    return _udp(pod, ip, "RcvbufErrors")


def _udp(pod: Pod, ip: int, name: str) -> int:
    """A counter of the Pod's UDP (proc_pid_net(5)). Raises MeasureError."""
    try:
        if ip == 6:
            lines = pod.read_text("/proc/net/snmp6").splitlines()
            return next(int(line.split()[1]) for line in lines if line.split()[0] == f"Udp6{name}")
        heads, values = (
            line.split()
            for line in pod.read_text("/proc/net/snmp").splitlines()
            if line.startswith("Udp:")
        )
        return int(values[heads.index(name)])
    except (ValueError, IndexError, StopIteration):
        raise MeasureError(f"{pod.name} has no counter {name} of UDP over IPv{ip}") from None


PROVIDER = PolicyEffect()
