"""One cell's turn in a round, and the order of the turns. Standard library only (on_node.py)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from cnibench.run.slices.looks import Stop


@dataclass(frozen=True)
class Slice:
    """One cell's turn in a round. ``start`` in s since the block's first slice, ``seconds`` as
    taken (``asked`` as asked), ``units`` transactions or bytes; ``client``, ``server`` and
    ``waited`` in s of CPU time, and of waiting for a CPU; ``server`` is None where it is on another
    node than the client, whose clock it cannot be read by. ``daemons`` is the CPU time in s of the
    programs that forward the packets in user space, in the lab. ``packets`` and ``bytes`` are what
    the client's Pod sent, where cycles per packet are measured. ``gap`` is the longest time in s
    for which cnibench was not woken, although it did not wait for a CPU; ``stops`` are the programs
    of the load, the daemons of its datapath, and perf, that were stopped or frozen; ``beside``: the
    load of another cell ran in these rounds outside its turn. ``softirq`` is the CPU time in s of
    softirqs on the CPUs that the load's programs may use, ``softirq_elsewhere`` on the others, in
    steps of 10 ms, both None where they are not read. ``steal`` is what the machine's host took
    from the CPUs that the load may use, in steps of 10 ms, None where it is not read; ``throttled``
    for how long a CPU quota held the load's programs back: 0 at real-time priority, which no quota
    holds back, None where nobody counts it. Both are in s, of all CPUs together. ``others`` is the
    CPU time in s that neither the load nor its datapath's daemons nor cnibench used, on all CPUs,
    in steps of 10 ms: the sum over many slices is an estimate, a single one may be below 0. None
    where it is not read.
    """

    round: int
    cell: str
    start: float
    asked: float
    seconds: float
    units: float
    client: float
    server: float | None
    waited: float
    daemons: float = 0.0
    packets: int = 0
    bytes: int = 0
    gap: float = 0.0
    stops: tuple[Stop, ...] = ()
    beside: bool = False
    softirq: float | None = None
    softirq_elsewhere: float | None = None
    steal: float | None = None
    throttled: float | None = None
    others: float | None = None

    @property
    def rate(self) -> float:
        """Units per second."""
        return self.units / self.seconds

    @property
    def cpu(self) -> float:
        """CPU time per unit in s, of both ends where ``server`` is known, and of ``daemons``."""
        return (self.client + (self.server or 0.0) + self.daemons) / self.units


def order(cells: Sequence[str], round: int, block: int, seed: int) -> list[str]:
    """The cells of one round in random order, the same on every machine and Python."""
    return sorted(
        cells, key=lambda cell: hashlib.sha256(f"{seed}:{block}:{round}:{cell}".encode()).digest()
    )
