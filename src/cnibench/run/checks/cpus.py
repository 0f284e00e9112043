"""Which CPUs the client and the server of each pair are pinned to."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from cnibench.errors import MeasureError, MissingError
from cnibench.testbed.place import Node

_AFFINITY = "import os; print(*os.sched_getaffinity(0))"
_ANSWER = 30.0  # s
_PINNED = 3.0  # s that a program has to pin itself


def choose_cpus(
    cpus: str, allowed: Sequence[int], siblings: Mapping[int, int], pair: int = 0
) -> tuple[int | None, int | None]:
    """(client's CPU, server's CPU) for ``shared``, ``split`` or ``none``, out of the ``allowed``
    ones. Further pairs take the next ones, and share CPUs only where all are taken.

    ``siblings`` maps a CPU to its core. The highest numbers are taken, because interrupts and
    housekeeping prefer the low ones; ``split`` takes two cores, not two threads of one, where it
    can. Raises MissingError when there is only one CPU to split.
    """
    if cpus == "none":
        return None, None
    queue = sorted(allowed, reverse=True)
    if cpus == "split" and len(queue) < 2:
        raise MissingError(
            "--cpus split needs two CPUs, and there is one that programs may use",
            "use --cpus shared",
        )
    for _ in range(pair):
        taken = dict.fromkeys(reversed(_first(cpus, queue, siblings)))
        queue = [*(cpu for cpu in queue if cpu not in taken), *taken]
    return _first(cpus, queue, siblings)


def _first(cpus: str, queue: Sequence[int], siblings: Mapping[int, int]) -> tuple[int, int]:
    """(client's CPU, server's CPU) of the pair whose turn it is."""
    server = queue[0]
    if cpus == "shared":
        return server, server
    core = siblings.get(server, server)
    others = (cpu for cpu in queue[1:] if siblings.get(cpu, cpu) != core)
    return next(others, queue[1]), server


def cores() -> dict[int, int]:
    """CPU to the lowest CPU of its core, as Linux numbers them
    (/sys/devices/system/cpu/*/topology); without the CPUs of which the kernel does not say it.
    """
    found = {}
    for cpu in os.sched_getaffinity(0):
        path = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        if path.exists():
            found[cpu] = int(path.read_text(encoding="ascii").replace("-", ",").split(",")[0])
    return found


def doubts(
    pinned: Sequence[tuple[int | None, int | None]], siblings: Mapping[int, int]
) -> list[str]:
    """Why client and server do not have a core each although they have a CPU each (``split``), in
    words; nothing where they do, or were not to have one. ``siblings`` as in ``choose_cpus``.
    """
    pairs = {(one, other) for one, other in pinned if one is not None and one != other}
    if any(cpu not in siblings for pair in pairs for cpu in pair):
        return ["--cpus split: which CPUs are threads of one core is not known here"]
    if any(siblings[one] == siblings[other] for one, other in pairs if other is not None):
        return ["--cpus split: client and server are on two threads of one core"]
    return []


def check_pinned(pid: int, cpu: int, who: str) -> None:
    """Raises MeasureError when a program of this machine may run elsewhere than on ``cpu``. It may
    have just been started: it is given some time to pin itself.
    """
    end = time.monotonic() + _PINNED
    while True:
        try:
            allowed = os.sched_getaffinity(pid)
        except ProcessLookupError:
            return  # it has ended: whoever waits for it says so
        if allowed == {cpu}:
            return
        if time.monotonic() > end:
            raise MeasureError(
                f"{who} may run on the CPUs {', '.join(map(str, sorted(allowed)))}, and"
                f" {cpu} was asked for",
                "does another program change CPU affinities here? --cpus none pins nothing",
            )
        time.sleep(0.005)


def pins(cpus: str, pairs: int, nodes: Sequence[Node] = ()) -> list[tuple[int | None, int | None]]:
    """``choose_cpus`` for each pair, out of the CPUs that this process may use. ``nodes`` are other
    machines: then out of those that programs may use on every one of them; which of these are
    threads of one core is not asked. Raises ClusterError, MissingError.
    """
    if not nodes or cpus == "none":
        allowed, siblings = sorted(os.sched_getaffinity(0)), cores()
    else:
        allowed, siblings = _common(nodes), {}
    return [choose_cpus(cpus, allowed, siblings, pair) for pair in range(pairs)]


def _common(nodes: Sequence[Node]) -> list[int]:
    """The CPUs that programs may use on every node. Raises ClusterError, MissingError when there is
    none.
    """
    siblings = [
        node.run([node.python, "-I", "-S", "-c", _AFFINITY], timeout=_ANSWER).stdout
        for node in nodes
    ]
    found = set.intersection(*({int(word) for word in text.split()} for text in siblings))
    if not found:
        raise MissingError("there is no CPU number that every node has", "use --cpus none")
    return sorted(found)
