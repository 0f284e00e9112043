"""Which CPUs the client and the server of each pair are pinned to."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from cnibench.errors import MissingError
from cnibench.testbed.place import Node

_AFFINITY = "import os; print(*os.sched_getaffinity(0))"
_ANSWER = 30.0  # s


def choose_cpus(
    cpus: str, allowed: Sequence[int], siblings: Mapping[int, int], pair: int = 0
) -> tuple[int | None, int | None]:
    """(client's CPU, server's CPU) for ``shared``, ``split`` or ``none``, out of the ``allowed``
    ones; further pairs take the next ones.

    ``siblings`` maps a CPU to its core. The highest numbers are taken, because interrupts and
    housekeeping prefer the low ones; ``split`` takes two cores, not two threads of one, where it
    can. Raises MissingError when there is only one CPU to split.
    """
    if cpus == "none":
        return None, None
    ordered = sorted(allowed, reverse=True)
    skip = pair * (1 if cpus == "shared" else 2) % len(ordered)
    ordered = ordered[skip:] + ordered[:skip]
    first = ordered[0]
    if cpus == "shared":
        return first, first
    if len(ordered) < 2:
        raise MissingError(
            "--cpus split needs two CPUs, and there is one that programs may use",
            "use --cpus shared",
        )
    other = next(
        (cpu for cpu in ordered[1:] if siblings.get(cpu, cpu) != siblings.get(first, first)),
        ordered[1],
    )
    return other, first


def cores() -> dict[int, int]:
    """CPU to the lowest CPU of its core, as Linux numbers them
    (/sys/devices/system/cpu/*/topology).
    """
    found = {}
    for cpu in os.sched_getaffinity(0):
        try:
            with open(
                f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list", encoding="ascii"
            ) as file:
                found[cpu] = int(file.read().replace("-", ",").split(",")[0])
        except (OSError, ValueError):
            found[cpu] = cpu
    return found


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
    told = [
        node.run([node.python, "-I", "-S", "-c", _AFFINITY], timeout=_ANSWER).stdout
        for node in nodes
    ]
    found = set.intersection(*({int(word) for word in text.split()} for text in told))
    if not found:
        raise MissingError("there is no CPU number that every node has", "use --cpus none")
    return sorted(found)
