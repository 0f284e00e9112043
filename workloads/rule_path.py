"""The netfilter hooks, chains and rules that one packet traverses between two Pods, on both nodes
(Table III of qi2021).

Two datagrams of one connection are sent, and the kernel traces both (``meta nftrace``, nft(8)): the
first is conntrack's NEW, the second comes after a reply and is ESTABLISHED. A table of our own,
first at every hook of both nodes, counts hooks and marks the datagrams by their length, within a
tunnel as well: encapsulating drops the mark (skb_scrub_packet in net/core/skbuff.c), so the packet
that carries the datagram is marked again where it comes to be. Everything else that the nodes do
meanwhile is not marked.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal

from cnibench.errors import LimitError, MeasureError
from cnibench.model.profile import Strict
from cnibench.rulepath import legacy, trace, walk
from cnibench.run.sample_context import Measurements, SampleContext
from cnibench.run.workload import Workload
from cnibench.system.files import write_private
from cnibench.system.process import Process
from cnibench.testbed.place import Node
from cnibench.workloads import _common, _netperf, _nflog

_PACKETS = ("first", "established")
_PROBE = ("inet", "cnibench_path")
_HOOKS = ("prerouting", "input", "forward", "output", "postrouting")
_BEGINNINGS = ("prerouting", "output")  # where packets come in
_LENGTH = (
    450  # bytes of a datagram: longer than what else the tool sends, and short enough for any MTU
)
_HEADERS = {4: 28, 6: 48}  # bytes: IP and UDP
_OVERHEAD = 140  # bytes that a tunnel adds at most
# IP-in-IP, UDP (the datagram itself, VXLAN, Geneve, WireGuard), IPv6, GRE, ESP
_CARRIERS = "4, 17, 41, 47, 50"
_LIMIT = 30.0  # s
_AGAIN = 0.05  # s until the first repetition; each further one waits twice as long
_TRIES, _LOST = 3, 10.0  # s after which a datagram counts as lost


class Params(Strict):
    """``packet``: a connection's first one, or one of an established connection."""

    packet: Literal["first", "established"] = "first"


class RulePath(Workload):
    """netperf UDP_RR with two transactions drives it."""

    name = "rule-path"
    title = "netfilter rules of one packet"
    tools = {**_netperf.Netperf.tools, "nft": "nftables"}
    ports = _netperf.Netperf.ports
    Params = Params
    primary = "rules"
    cpp = False
    transport = "udp"
    noise = 0.0  # counted, not measured
    looks = True
    several = False

    def __init__(self) -> None:
        self._captures: dict[
            str, Process
        ] = {}  # of nodes with rules of the older iptables, by the node's name

    def seconds(self, params: Mapping[str, Any], duration: float, warmup: float) -> float:
        return 1.0  # two datagrams: nothing lasts for the duration

    @contextmanager
    def serve(self, s: SampleContext) -> Iterator[None]:
        with ExitStack() as stack:
            stack.enter_context(_netperf.serving(s))
            _try_out(s)
            for node in s.deployment.nodes():
                stack.enter_context(_tracing(s, node))
                if _nflog.tables(node, s.cell.ip):
                    self._captures[node.name] = stack.enter_context(_legacy(s, node))
            try:
                yield
            finally:
                self._captures.clear()

    def warm_up(self, s: SampleContext) -> None:
        """Nothing that is counted could get warm; the way was tried out before the tracing."""

    def start(self, s: SampleContext) -> Process:
        return _common.start(s, _client(s, _LENGTH))

    def measurements(self, s: SampleContext) -> Measurements:
        nodes = []
        for node in s.deployment.nodes():
            _mark(s, node, "end")
            ruleset = trace.parse_ruleset(_common.read(_file(s, node, "ruleset.json")))
            events = trace.parse_trace(_common.read(_file(s, node, "trace.txt")).splitlines())
            every = walk.hooks(events, ruleset, _PROBE)
            if node.name in self._captures:
                _nflog.finish(node, self._captures[node.name], _file(s, node, "legacy.pcap"))
                listing = legacy.parse_save(_common.read(_file(s, node, "legacy.txt")), s.cell.ip)
                legacy.add(
                    every,
                    legacy.parse_capture(_file(s, node, "legacy.pcap").read_bytes(), listing),
                    listing,
                )
            nodes.append(
                (
                    node.name,
                    walk.packet(every, _PACKETS.index(s.cell.params["packet"]), len(_PACKETS)),
                )
            )
        sums = walk.totals([hook for _, passed in nodes for hook in passed])
        found = Measurements()
        for metric in ("hooks", "chains", "rules"):
            found.add(metric, sums[metric])
        stored = [
            {"node": name, **walk.totals(passed), "path": walk.document(passed)}
            for name, passed in nodes
        ]
        found.records.append(
            ("rulepath", {"packet": s.cell.params["packet"], **sums, "nodes": stored})
        )
        return found


def _try_out(s: SampleContext) -> None:
    """The same once before, so that neighbours are resolved and bridges have learnt. Raises
    LimitError, MeasureError.
    """
    for _ in range(_TRIES - 1):  # UDP_RR waits for ever for a datagram that was lost
        try:
            _common.warm(s, _client(s, 1), limit=_LOST)
            return
        except LimitError:
            continue
    _common.warm(s, _client(s, 1))


def _client(s: SampleContext, length: int) -> list[str]:
    port = _netperf.control_port(s)
    return [
        *_netperf.client(s, "UDP_RR", -len(_PACKETS)),
        "--",
        "-P",
        f"0,{port + 1}",
        "-r",
        f"{length},1",
    ]


def probe(ip: int) -> str:
    """The table that is first at every hook and marks the datagrams, for nft -f."""
    least = _LENGTH + _HEADERS[ip]
    marking = (
        f"meta length {least}-{least + _OVERHEAD} meta l4proto {{ {_CARRIERS} }} meta nftrace"
        " set 1;"
    )
    chains = [
        f"chain {hook} {{ type filter hook {hook} priority -500;"
        f" {marking if hook in _BEGINNINGS else ''} }}"
        for hook in _HOOKS
    ]
    head = f"table {' '.join(_PROBE)}"
    return (
        "\n".join([f"{head}", f"delete {head}", f"{head} {{", *chains, "}"]) + "\n"
    )  # what a killed run left goes first


@contextmanager
def _tracing(s: SampleContext, node: Node) -> Iterator[None]:
    """A node's rules are written to the raw folder, and from then on the trace, until the block is
    left.
    """
    node.run(["nft", "-f", "-"], timeout=_LIMIT, input=probe(s.cell.ip))
    try:
        out, err = _file(s, node, "trace.txt"), _file(s, node, "trace.err")
        with node.spawn(["nft", "-a", "monitor"], stdout=out, stderr=err) as monitor:
            _mark(s, node, "begin", monitor)
            write_private(
                _file(s, node, "ruleset.json"),
                node.run(["nft", "-a", "-j", "list", "ruleset"], timeout=60).stdout,
            )
            write_private(
                _file(s, node, "ruleset.txt"),
                node.run(["nft", "list", "ruleset"], timeout=60).stdout,
            )
            yield
    finally:
        _common.quietly(node, ["nft", "delete", "table", *_PROBE])


@contextmanager
def _legacy(s: SampleContext, node: Node) -> Iterator[Process]:
    """The same for rules of the older iptables, which nf_tables does not see; our table marks for
    their trace, too.
    """
    save = {4: "iptables-legacy-save", 6: "ip6tables-legacy-save"}[s.cell.ip]
    write_private(_file(s, node, "legacy.txt"), node.run([save], timeout=_LIMIT).stdout)
    with _nflog.capturing(
        node, s.cell.ip, _file(s, node, "legacy.pcap"), _file(s, node, "legacy.err")
    ) as process:
        yield process


def _mark(s: SampleContext, node: Node, word: str, monitor: Process | None = None) -> None:
    """Changes our table until the monitor tells of it: it reads now, and has read all that came
    before. Raises LimitError, MeasureError.
    """
    end = time.monotonic() + _LIMIT
    number, wait = 0, _AGAIN if monitor else _LIMIT
    while True:
        name = f"{word}_{number}"
        node.run(["nft", "add", "chain", *_PROBE, name], timeout=_LIMIT)
        # A monitor that does not listen yet has missed it. It loads the rules first, and begins
        # again with each change: a pause shorter than that would keep it from ever listening.
        again = time.monotonic() + wait
        while time.monotonic() < min(again, end):
            if reported(_common.read(_file(s, node, "trace.txt")), name):
                return
            if monitor is not None and monitor.poll() is not None:
                raise MeasureError(
                    f"nft monitor ended on node {node.name}:"
                    f" {_common.tail(_common.read(_file(s, node, 'trace.err')))}"
                )
            time.sleep(0.005)
        if time.monotonic() >= end:
            raise LimitError(
                f"nft monitor on node {node.name} reported nothing within {_LIMIT:.0f} s"
            )
        number, wait = number + 1, 2 * wait


def reported(text: str, name: str) -> bool:
    """Has the monitor reported that chain, in a complete line?"""
    return any(
        line.endswith("\n") and f"{' '.join(_PROBE)} {name} " in line
        for line in text.splitlines(keepends=True)
    )


def _file(s: SampleContext, node: Node, kind: str) -> Path:
    return s.raw / f"{node.name}.{kind}"


PROVIDER = RulePath()
