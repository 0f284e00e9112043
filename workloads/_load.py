"""Background load as in qi2021: iperf3 TCP connections, each limited in rate, between Pods beside
the monitored pair.

N client Pods on the client's node talk to N server Pods (on the same node for intra, on the other
for inter); more connections than pairs of Pods are parallel streams. The background Pods of a
deployment stay until it is removed and serve all of its cells, as clients or as servers: a kubelet
takes 110 Pods unless configured otherwise, so a node has no more of them than its largest cell
needs.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from weakref import WeakKeyDictionary

from cnibench.errors import LimitError, MeasureError
from cnibench.run.sample_context import SampleContext
from cnibench.system.files import write_private
from cnibench.system.process import Process, ending
from cnibench.testbed.capabilities.pods.extra import ExtraPods
from cnibench.testbed.deployment import Deployment
from cnibench.testbed.place import Node, Pod
from cnibench.workloads import _common

PORT = 5201  # iperf3's own, which the policies of enforcing profiles open
SHARED_PORT = 5301  # and the ones after it, where the monitored pair has the same ports
_MOST_STREAMS = 128  # of one iperf3
_START_LIMIT = 30.0  # s for all connections to be made
# sends that a Pod must have had time for before it is said to have stalled: a single one may be
# just before the window
_FEWEST = 2.0

_pods: WeakKeyDictionary[Deployment, dict[str, list[Pod]]] = (
    WeakKeyDictionary()
)  # a node's name to its background Pods


@dataclass(frozen=True)
class Load:
    """``connections`` over ``pairs`` of Pods, each limited to ``rate`` bit/s (0: not limited)."""

    connections: int
    pairs: int
    rate: float

    def block(self) -> int:
        """Bytes of one send: iperf3's 128 KiB, smaller where that would be fewer than 50 sends a
        second, which is bursts, not a rate.
        """
        return max(1024, min(128 << 10, int(self.rate / 8 / 50))) if self.rate else 128 << 10

    def streams(self) -> list[int]:
        """How many connections each pair has; they differ by one at most."""
        each, more = divmod(self.connections, self.pairs)
        return [each + (number < more) for number in range(self.pairs)]

    def sends(self, seconds: float) -> list[float]:
        """How often each pair is to send a block in that time, on average."""
        one = seconds * self.rate / 8 / self.block() if self.rate else math.inf
        return [streams * one for streams in self.streams()]


def sent(table: str, interface: str) -> int:
    """Bytes that a device has sent, by /proc/net/dev (proc_pid_net(5)). Raises MeasureError when it
    is not there.
    """
    for line in table.splitlines():
        name, colon, figures = line.partition(":")
        fields = figures.split()
        if colon and name.strip() == interface and len(fields) >= 9:
            return int(_common.figure(fields[8], f"bytes sent by {interface}"))
    raise MeasureError(f"/proc/net/dev has no line for {interface}")


def groups(deployment: Deployment, wanted: Sequence[Node], count: int) -> list[list[Pod]]:
    """So many background Pods on each of these nodes; a node that is there twice gives two groups
    that have no Pod in common.

    Those made for earlier cells are used again, those that are missing are made together. Raises
    ClusterError.
    """
    nodes = {node.name: node for node in wanted}
    needed = {name: count * sum(node.name == name for node in wanted) for name in nodes}
    pool = _pods.setdefault(deployment, {})
    missing = [
        (node, more)
        for name, node in nodes.items()
        if (more := needed[name] - len(pool.get(name, ()))) > 0
    ]
    if missing:
        for (node, _), made in zip(
            missing, ExtraPods.of(deployment).add_pods_on(missing), strict=True
        ):
            pool.setdefault(node.name, []).extend(made)
    taken = dict.fromkeys(nodes, 0)
    found = []
    for node in wanted:
        first = taken[node.name]
        taken[node.name] = first + count
        found.append(pool[node.name][first : first + count])
    return found


class Running:
    """A load that runs: its programs and where they are."""

    def __init__(self, s: SampleContext, load: Load, folder: Path) -> None:
        self.load = load
        self._s = s
        self._folder = folder
        self.clients, self.servers = groups(
            s.deployment, [s.client.node, s.server.node], load.pairs
        )
        self._programs: list[tuple[str, Process, Path]] = []
        self._shared = not self.clients[
            0
        ].interface  # Pods in their node's namespace share its ports

    def _port(self, number: int) -> int:
        return SHARED_PORT + number if self._shared else PORT

    def start(self, stack: ExitStack) -> None:
        """Servers, then clients; returns when all connections are made. Raises MeasureError,
        LimitError.
        """
        ip = self._s.cell.ip
        listening = []
        for number, pod in enumerate(self.servers):
            _common.wait_free(pod, self._port(number), ip)
            argv = [
                "iperf3",
                f"-{ip}",
                "-s",
                "-B",
                pod.addresses[ip],
                "-p",
                str(self._port(number)),
            ]
            listening.append((number, pod, *self._spawn(stack, pod, argv, f"server{number}")))
        for number, pod, process, errors in listening:
            _common.wait_listening(pod, self._port(number), ip, process, errors, _START_LIMIT)
        # They are ended when the cell is; on a machine that the load fills, making all of the
        # connections takes minutes.
        seconds = _common.whole_seconds((self._s.duration + self._s.warmup) * 2 + 20 * _START_LIMIT)
        for number, (pod, server, streams) in enumerate(
            zip(self.clients, self.servers, self.load.streams(), strict=True)
        ):
            argv = [
                "iperf3",
                f"-{ip}",
                "-c",
                server.addresses[ip],
                "-p",
                str(self._port(number)),
                "-t",
                str(seconds),
                "-i",
                "0",
                "-b",
                f"{self.load.rate:.0f}",
                "-l",
                str(self.load.block()),
                "-P",
                str(streams),
            ]
            self._spawn(stack, pod, argv, f"client{number}")
        self._connected()

    def _spawn(
        self, stack: ExitStack, pod: Pod, argv: Sequence[str], name: str
    ) -> tuple[Process, Path]:
        out = self._folder / f"{name}.txt"
        process = stack.enter_context(
            pod.spawn(argv, stdout=out, stderr=self._folder / f"{name}.err")
        )
        self._programs.append((f"{name} in {pod.name}", process, out))
        return process, self._folder / f"{name}.err"

    def _connected(self) -> None:
        end = time.monotonic() + _START_LIMIT
        while (now := self.connections()) < self.load.connections:
            self.check(counted=False)
            if time.monotonic() > end:
                raise LimitError(
                    f"{now} of {self.load.connections} background connections were made within"
                    f" {_START_LIMIT:.0f} s"
                )
            time.sleep(0.02)

    def connections(self) -> int:
        """Data connections that the servers have now (iperf3's control connections, one a pair, not
        counted).
        """
        ip = self._s.cell.ip
        tables = ExtraPods.of(self._s.deployment).read_texts(self.servers, _common.sockets_file(ip))
        return sum(
            max(0, _common.established(table, self._port(number)) - 1)
            for number, table in enumerate(tables)
        )

    def check(self, counted: bool = True) -> None:
        """Raises MeasureError when a program of the load or a connection has died: such a cell is
        no measurement under this load.
        """
        for name, process, out in self._programs:
            if (status := process.poll()) is not None:
                said = _common.tail(_common.read(out.with_suffix(".err"))) or _common.tail(
                    _common.read(out)
                )
                raise MeasureError(
                    f"the background load broke: {name} {ending(status)}: {said or 'no output'}"
                )
        if counted and (now := self.connections()) < self.load.connections:
            raise MeasureError(
                f"the background load broke: {now} of {self.load.connections} connections are left"
            )

    def bytes(self) -> list[int] | None:
        """What each of the client Pods has sent by now; None where they have no device of their
        own.
        """
        if self._shared:
            return None
        tables = ExtraPods.of(self._s.deployment).read_texts(self.clients, "/proc/net/dev")
        return [sent(table, pod.interface) for table, pod in zip(tables, self.clients, strict=True)]


@contextmanager
def running(s: SampleContext, load: Load) -> Iterator[Running]:
    """The load, with all its connections, for the block; checked again at its end."""
    folder = s.raw / "background"
    folder.mkdir(mode=0o700, exist_ok=True)
    with ExitStack() as stack:
        background = Running(s, load, folder)
        background.start(stack)
        yield background
        background.check()


def mark(s: SampleContext, background: Running) -> None:
    """Keeps what each Pod has sent so far, and when, for ``achieved``."""
    at, counted = _counted(background)
    write_private(
        s.raw / "background" / "start.json", json.dumps({"at": at, "bytes": counted}) + "\n"
    )


def achieved(s: SampleContext, background: Running) -> float | None:
    """bit/s that the whole load has sent since ``mark`` (headers included); None where the Pods
    have no device of their own.

    Raises MeasureError when a Pod's counter fell, or a Pod has stalled: its connections are still
    there, but it sent nothing.
    """
    before = json.loads(_common.read(s.raw / "background" / "start.json"))
    at, after = _counted(background)
    if after is None or before["bytes"] is None:
        return None
    window = at - before["at"]
    grown = [now - then for now, then in zip(after, before["bytes"], strict=True)]
    for pod, more in zip(background.clients, grown, strict=True):
        if more < 0:
            raise MeasureError(
                f"the byte counter of the background Pod {pod.name} fell within the window: it was"
                " reset, or has wrapped"
            )
    # A connection that stalls is probed and retransmitted by the kernel, and there is ARP: less
    # than one send of the program is nothing.
    for pod, more, sends in zip(
        background.clients, grown, background.load.sends(window), strict=True
    ):
        if more < background.load.block() and sends >= _FEWEST:
            details = (
                f"{pod.name} sent {more} bytes in {window:.1f} s, and was to send"
                f" {background.load.block()} {sends:.0f} times"
            )
            raise MeasureError(
                f"the background load stalled: {details}",
                "ask for fewer connections, or for a lower rate of each",
            )
    return float(sum(grown) * 8 / window)


def _counted(background: Running) -> tuple[float, list[int] | None]:
    """(when, what was sent): reading many Pods takes its time, half of which is before the
    counters' middle.
    """
    start = time.monotonic()
    counted = background.bytes()
    return (start + time.monotonic()) / 2, counted


def pairs(connections: int, placement: str, asked: int) -> int:
    """Pairs of Pods for so many connections: ``asked``, or as qi2021 had (49 intra, 99 inter),
    never more than connections.
    """
    return min(connections, asked or (49 if placement == "intra" else 99))


def most_pairs(connections: int, placement: str, asked: int) -> int:
    """The same. Raises MeasureError when those Pods cannot have so many connections."""
    number = pairs(connections, placement, asked)
    if connections > number * _MOST_STREAMS:
        raise MeasureError(
            f"{connections} connections over {number} pairs of Pods are more than {_MOST_STREAMS}"
            " each",
            "ask for more Pods with pods=N",
        )
    return number
