"""Counters of the kernel, read at both ends of a window: /proc/net/snmp, /proc/net/snmp6 and
/proc/net/dev of a place.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping

from cnibench import registry
from cnibench.errors import MeasureError
from cnibench.run.sample_context import SampleContext
from cnibench.testbed.place import Place

Counters = dict[str, int]

_DEVICE = (
    "rx_bytes",
    "rx_packets",
    "rx_errors",
    "rx_dropped",
    "rx_fifo",
    "rx_frame",
    "rx_compressed",
    "rx_multicast",
    "tx_bytes",
    "tx_packets",
    "tx_errors",
    "tx_dropped",
    "tx_fifo",
    "tx_collisions",
    "tx_carrier",
    "tx_compressed",
)


def count(text: str, what: str) -> int:
    """A whole number as the kernel writes its counters; -1 is one, too (Tcp.MaxConn). Raises
    MeasureError.
    """
    if not re.fullmatch(r"-?[0-9]{1,20}", text):
        raise MeasureError(
            f"{what}: expected a number, got {text[:40]!r}", "report the file's text"
        )
    return int(text)


def snmp(text: str) -> Counters:
    """/proc/net/snmp as ``{'Tcp.OutSegs': 12, ...}`` (a line of names, then a line of values, for
    each protocol).
    """
    found: Counters = {}
    rows = [line.split() for line in text.splitlines() if ":" in line]
    for names, values in zip(rows[::2], rows[1::2], strict=False):
        if names[0] != values[0] or len(names) != len(values):
            raise MeasureError(
                "/proc/net/snmp: a protocol's names and values do not match",
                "report the file's text",
            )
        found.update(
            {
                f"{names[0][:-1]}.{name}": count(value, "/proc/net/snmp")
                for name, value in zip(names[1:], values[1:], strict=True)
            }
        )
    return found


def snmp6(text: str) -> Counters:
    """/proc/net/snmp6, one counter a line. It has no TCP: TCP over IPv6 counts in
    /proc/net/snmp.
    """
    found: Counters = {}
    for line in text.splitlines():
        if words := line.split():
            if len(words) != 2:
                raise MeasureError(
                    f"/proc/net/snmp6: expected a name and a number, got {line[:80]!r}",
                    "report the file's text",
                )
            found[words[0]] = count(words[1], "/proc/net/snmp6")
    return found


def devices(text: str) -> dict[str, Counters]:
    """/proc/net/dev: device to its counters."""
    found = {}
    for line in text.splitlines()[2:]:
        name, _, rest = line.partition(":")
        found[name.strip()] = {
            key: count(word, "/proc/net/dev")
            for key, word in zip(_DEVICE, rest.split(), strict=False)
        }
    return found


def cpu(text: str) -> Counters:
    """The machine's line of /proc/stat, in ticks."""
    first = text.split("\n", 1)[0].split()
    if not first or first[0] != "cpu":
        raise MeasureError("/proc/stat: expected the line 'cpu'", "report the file's text")
    names = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
    return {name: count(word, "/proc/stat") for name, word in zip(names, first[1:9], strict=False)}


def grown(before: Mapping[str, int], after: Mapping[str, int], name: str, where: str) -> int:
    """How much a counter grew. Raises MeasureError when it is not there, or when it shrank: it was
    reset or has wrapped.
    """
    if name not in before or name not in after:
        raise MeasureError(
            f"{where} has no counter {name}",
            "another kernel than those that cnibench knows? report its /proc/net files",
        )
    if after[name] < before[name]:
        raise MeasureError(
            f"the counter {name} of {where} fell from {before[name]} to {after[name]} within one"
            " window",
            "it was reset or has wrapped (a 32-bit kernel?): measure again, in a shorter window",
        )
    return after[name] - before[name]


def transport(s: SampleContext) -> str:
    """tcp or udp, as the workload says of itself."""
    return str(registry.provider("workloads", s.cell.workload).transport)


def traffic(place: Place, kind: str, ip: int) -> Counters:
    """``sent`` and ``received`` of the place's transport so far.

    TCP: OutSegs counts each segment of a super-packet, pure acknowledgements too, and leaves
    retransmitted ones to RetransSegs (__tcp_transmit_skb in net/ipv4/tcp_output.c); both address
    families count in it. UDP: datagrams, fragmented or not.
    """
    if kind == "udp" and ip == 6:
        six = snmp6(place.read_text("/proc/net/snmp6"))
        return _pick(six, sent="Udp6OutDatagrams", received="Udp6InDatagrams")
    four = snmp(place.read_text("/proc/net/snmp"))
    if kind == "udp":
        return _pick(four, sent="Udp.OutDatagrams", received="Udp.InDatagrams")
    return _pick(four, sent="Tcp.OutSegs", received="Tcp.InSegs", retransmitted="Tcp.RetransSegs")


def _pick(counters: Counters, **names: str) -> Counters:
    try:
        return {key: counters[name] for key, name in names.items()}
    except KeyError as missing:
        raise MeasureError(
            f"this kernel has no counter {missing}", "report its /proc/net/snmp"
        ) from None


def seconds(start: int, end: int) -> float:
    """Between two readings of time.monotonic_ns(). Raises MeasureError when the window is empty."""
    if end <= start:
        raise MeasureError("the window is empty", "use a longer --duration")
    return (end - start) / 1e9


def clock() -> int:
    """Now, in ns of CLOCK_MONOTONIC: the clock of all windows."""
    return time.monotonic_ns()


def kernels(s: SampleContext) -> dict[str, list[int]]:
    """Boot id to the indexes of the nodes that share that kernel: in the lab both nodes are one
    machine.
    """
    found: dict[str, list[int]] = {}
    for index, node in enumerate(s.deployment.nodes()):
        found.setdefault(node.read_text("/proc/sys/kernel/random/boot_id").strip(), []).append(
            index
        )
    return found
