"""netperf TCP_CRR: connect, one request, one response, close: the cost of a connection, which
conntrack and policies show in.

Nothing may carry over from the cell before: netserver closes first, so its Pod holds one TIME_WAIT
socket per transaction for 60 s (``TCP_TIMEWAIT_LEN``, include/net/tcp.h). They are destroyed
beforehand (``ss --kill``, CONFIG_INET_DIAG_DESTROY) or, where that is refused, waited for; then the
client's free local ports are counted.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from pydantic import Field

from cnibench.errors import MeasureError
from cnibench.model.cell import Cell
from cnibench.model.profile import Strict
from cnibench.run.sample_context import Measurements, SampleContext
from cnibench.run.slices.load import Load
from cnibench.system.files import write_private
from cnibench.testbed.place import Pod
from cnibench.workloads import _common, _netperf, _slices
from cnibench.workloads._common import Size

# s: netserver may wait so much longer for a connection that does not come (PAD_TIME of netperf's
# netlib.h), and netperf for its answer; the figure is of the test's own time.
_PAD = 4.0
DRAIN_LIMIT = 65.0  # s: TCP_TIMEWAIT_LEN and a margin
_KILL = ("ss", "--kill", "--no-header", "--numeric", "--tcp", "state")
_RANGE = "/proc/sys/net/ipv4/ip_local_port_range"


class Params(Strict):
    """``ports``: local ports that must be free in the client's Pod; each transaction uses one,
    which is free again at its end.
    """

    request: Size = 1
    response: Size = 1
    ports: int = Field(default=4096, ge=1, le=64000)


@dataclass(frozen=True)
class Ports:
    """Local TCP ports of one network namespace: ``range`` of them exist, ``used`` and ``time_wait``
    sockets hold some.
    """

    range: int
    used: int
    time_wait: int

    @property
    def free(self) -> int:
        return max(0, self.range - self.used - self.time_wait)


def parse_ports(sockstat: str, sockstat6: str, local_range: str) -> Ports:
    """Out of /proc/net/sockstat, sockstat6 and ip_local_port_range. Raises MeasureError."""
    four = re.search(r"^TCP: inuse (\d+) .*?\btw (\d+)", sockstat, re.MULTILINE | re.ASCII)
    six = re.search(r"^TCP6: inuse (\d+)", sockstat6, re.MULTILINE | re.ASCII)
    ends = re.fullmatch(r"\s*(\d{1,5})\s+(\d{1,5})\s*", local_range, re.ASCII)
    if not four or not ends or int(ends[2]) < int(ends[1]):
        raise MeasureError(
            f"cannot count the free ports: sockstat {sockstat[:80]!r}, range {local_range[:40]!r}"
        )
    figures = [
        int(_common.figure(text, "sockstat")) for text in (four[1], six[1] if six else "0", four[2])
    ]
    return Ports(int(ends[2]) - int(ends[1]) + 1, figures[0] + figures[1], figures[2])


def count(pod: Pod) -> Ports:
    """The Pod's ports now."""
    try:
        six = pod.read_text("/proc/net/sockstat6")
    except Exception:  # a kernel without IPv6 has no such file
        six = ""
    return parse_ports(pod.read_text("/proc/net/sockstat"), six, pod.read_text(_RANGE))


class TcpCrr(_netperf.Netperf):
    name = "tcp-crr"
    title = "netperf TCP_CRR"
    Params = Params
    primary = "transaction_rate"
    test = "TCP_CRR"
    end = ""
    selectors = ("TRANSACTION_RATE", *_netperf.LATENCIES, "LOCAL_TRANSPORT_RETRANS")

    def arguments(self, params: Mapping[str, Any]) -> list[str]:
        return ["-r", f"{params['request']},{params['response']}"]

    def longest(self, params: Mapping[str, Any], duration: float) -> float:
        return super().longest(params, duration) + _PAD

    def load(self, cell: Cell) -> Load:
        return _slices.NewConnections(self)

    def interpret(self, values: Mapping[str, float | str]) -> Measurements:
        return _netperf.transactions(values)

    @contextmanager
    def serve(self, s: SampleContext) -> Iterator[None]:
        own = _netperf.control_port(s), _netperf.control_port(s) + 1
        drain(s.client, own)
        drain(s.server, own)
        ports = count(s.client)
        write_private(
            s.raw / "ports.json", json.dumps({**asdict(ports), "free": ports.free}) + "\n"
        )
        needed = s.cell.params["ports"]
        if ports.free < needed:
            raise MeasureError(
                f"{s.client.name} has {ports.free} free ports of {ports.range} ({ports.used} used,"
                f" {ports.time_wait} in TIME_WAIT), TCP_CRR wants {needed}",
                "widen net.ipv4.ip_local_port_range, or ask for fewer with ports=N",
            )
        with super().serve(s):
            yield
        drain(s.server, own)


def drain(pod: Pod, ports: Sequence[int], limit: float = DRAIN_LIMIT) -> None:
    """Removes the Pod's TIME_WAIT sockets, or waits until they are gone, at most ``limit`` seconds
    (what is left is then counted).

    The kernel counts those in FIN_WAIT2 without a program among them: a server that has ended has
    such sockets as long as its client, which is stopped between slices, does not close its own.
    Only those of the server's ``ports`` are removed. Others, on a node's own network, may be
    connections that somebody still reads from.
    """
    ours = f"( {' or '.join(f'sport = :{port}' for port in ports)} )"
    end = time.monotonic() + limit
    while count(pod).time_wait and time.monotonic() < end:
        killed = [
            _common.quietly(pod, [*_KILL, "time-wait"]),
            _common.quietly(pod, [*_KILL, "fin-wait-2", ours]),
        ]
        if None in killed or count(pod).time_wait:
            time.sleep(0.5)


PROVIDER = TcpCrr()
