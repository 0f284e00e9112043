"""The congestion control of a measured TCP connection, read back from the kernel (sock_diag, which
ss(8) asks).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from cnibench.errors import CnibenchError, MeasureError
from cnibench.run.sample_context import SampleContext
from cnibench.testbed.place import Place

# Of a connection with data under way; a socket in TIME-WAIT has no congestion control any more.
_STATES = ("established", "syn-sent", "syn-recv", "fin-wait-1", "close-wait", "last-ack")
# What ss prints before the name of the algorithm (tcp_stats_print() of misc/ss.c).
_BEFORE = frozenset({"ts", "sack", "ecn", "ecnseen", "fastopen"})
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,31}", re.ASCII)
_ADDRESSES = 5  # state, two queues, two addresses: the words of a line before those about TCP
_SHARE = 0.1  # of the bytes of the busiest connection: with less it is a control connection
_ANSWER = 10.0  # s
_PEER = 0.1  # s for the other end, whose short connections may be hard to see
_PAUSE = 0.005  # s between two attempts


@dataclass(frozen=True)
class Connection:
    """``bytes`` were acknowledged or received so far."""

    congestion_control: str
    bytes: int


def parse(text: str) -> list[Connection]:
    """The connections in the output of ``ss --tcp --info --oneline --no-header``; those for which
    it names no algorithm are left out.
    """
    found = []
    for line in text.splitlines():
        words = [word for word in line.split()[_ADDRESSES:] if word not in _BEFORE]
        if words and _NAME.fullmatch(words[0]):
            moved = re.findall(r" bytes_(?:acked|received):(\d{1,20})\b", line, re.ASCII)
            found.append(Connection(words[0], sum(map(int, moved))))
    return found


def measured(found: Iterable[Connection]) -> frozenset[str]:
    """The algorithms of the connections that carry the data: a control connection beside them
    carries little.
    """
    every = list(found)
    most = max((one.bytes for one in every), default=0)
    return frozenset(one.congestion_control for one in every if one.bytes >= _SHARE * most)


def _never() -> bool:
    return False


def read(
    place: Place, port: int, *, seconds: float = 1.0, ended: Callable[[], bool] = _never
) -> frozenset[str]:
    """The algorithms of the TCP connections there with that port at either end; usually one.

    Asks again for ``seconds`` while there is no such connection, as short ones come and go, but not
    once their program has ``ended``. Empty when none was seen. Raises MeasureError when the kernel
    cannot be asked.
    """
    states = [word for state in _STATES for word in ("state", state)]
    argv = ["ss", "--tcp", "--info", "--numeric", "--oneline", "--no-header", *states]
    end = time.monotonic() + seconds
    while True:
        try:
            done = place.run([*argv, f"( sport = :{port} or dport = :{port} )"], timeout=_ANSWER)
        except CnibenchError as error:
            raise MeasureError(
                f"{place.name}: the congestion control cannot be read: {error.message}",
                "ss of iproute2 must run there",
            ) from None
        if found := measured(parse(done.stdout)):
            return found
        if time.monotonic() > end or ended():
            return frozenset()
        time.sleep(_PAUSE)


def of_sample(
    s: SampleContext, port: int, seconds: float, ended: Callable[[], bool] = _never
) -> str:
    """What the sample's connection has at both ends, several joined by a comma; '' when it was not
    seen. Raises MeasureError when it is not what was asked for.
    """
    found = read(s.client, port, seconds=seconds, ended=ended)
    found |= read(s.server, port, seconds=_PEER if found else seconds, ended=ended)
    said = ",".join(sorted(found))
    if s.congestion_control and found and found != {s.congestion_control}:
        raise MeasureError(
            f"its connection has the congestion control {said}, and {s.congestion_control} was"
            " asked for",
            remedy(s),
        )
    return said


def remedy(s: SampleContext) -> str:
    """What to do where a connection does not have the congestion control that was asked for."""
    if s.client.of_lab:  # the lab names it in the routes of its Pods, whatever the machine allows
        return (
            "another program changed the Pods' routes or sysctls meanwhile: measure again; or ask"
            " for another one with --congestion-control"
        )
    return "the Pods may not choose it: leave --congestion-control out to measure with their own"
