"""Call stacks by name, each with the cycles sampled in it and whose work it is.

Whose work: perf samples the whole machine, and other programs run on it. ``cell``: a process of the
measured Pods or of the CNI.
``kernel``: an interrupt, a softirq, a kernel thread or the idle task. ``foreign``: anything else;
it is left out of cycles per packet and reported apart. An interrupt that came in while a foreign
process ran is cut off from that process's own frames.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import cache
from struct import unpack
from typing import Literal

from cnibench.cpp.perfdata import Recording
from cnibench.cpp.symbols import Symbols, base_name
from cnibench.errors import InputError

Whose = Literal["cell", "kernel", "foreign"]
USER = "[user]"

_CONTEXT = 2**64 - 4095  # PERF_CONTEXT_MAX: markers are above it
_KERNEL_HALF = 1 << 63
_IRQ_ENTRIES = (
    "asm_common_interrupt",
    "asm_sysvec_",
    "asm_exc_nmi",
    "asm_exc_hyperv",
    "common_interrupt",
    "sysvec_",
    "el1h_64_irq",
    "el0t_64_irq",
)
_IDLE_ROOTS = frozenset({"do_idle", "cpu_startup_entry", "cpu_idle_poll"})
_SYSCALL_ROOTS = (
    "entry_SYSCALL_64",
    "do_syscall_64",
    "asm_exc_page_fault",
    "el0t_64_sync",
    "invoke_syscall",
    "entry_SYSENTER",
)


@dataclass(frozen=True)
class Stack:
    """``frames`` leaf first; user space is one frame, ``[user]``. ``cycles`` were sampled here in
    ``samples`` samples.
    """

    whose: Whose
    frames: tuple[str, ...]
    cycles: float
    samples: int


def named(
    recording: Recording,
    symbols: Symbols,
    hertz: float,
    own: Collection[int] | None,
    network: Callable[[str], bool],
) -> list[Stack]:
    """The recording's stacks, equal ones added up.

    ``hertz`` turns a clock's nanoseconds into cycles (the TSC's frequency; unused where the PMU
    counted cycles). ``own`` are the process ids of the cell (None: all), children that they forked
    meanwhile included. ``network`` says whether a function is work for packets: what the kernel
    does outside of any process counts only then, or when it belongs to the idle task.
    """
    mine = None if own is None else _with_children(own, recording.parents)
    scale = hertz / 1e9 if recording.clock else 1.0
    spent: dict[tuple[int, bool], tuple[int, int]] = {}
    for _, pid, _, period, chain in recording.samples:
        key = (chain, mine is None or pid in mine)
        amount, count = spent.get(key, (0, 0))
        spent[key] = (amount + period, count + 1)
    name = cache(lambda address: base_name(symbols.name(address)))
    works = cache(network)
    total: dict[tuple[Whose, tuple[str, ...]], tuple[float, int]] = {}
    for (chain, ours), (amount, count) in spent.items():
        key_of_stack = _whose(_frames(recording.chains[chain], name), ours, works)
        before = total.get(key_of_stack, (0.0, 0))
        total[key_of_stack] = (before[0] + amount * scale, before[1] + count)
    return [Stack(whose, shown, amount, count) for (whose, shown), (amount, count) in total.items()]


def _frames(chain: bytes, name: Callable[[int], str]) -> tuple[str, ...]:
    """Leaf first. Callers are looked up one byte before their return address: it lies behind the
    call, in the next function when the callee never returns."""
    real = [address for address in unpack(f"<{len(chain) // 8}Q", chain) if address < _CONTEXT]
    kernel = [address for address in real if address >= _KERNEL_HALF]
    if not kernel:
        return (USER,)
    inner = real[0] >= _KERNEL_HALF
    frames = [
        name(address - 1 if depth or not inner else address) for depth, address in enumerate(kernel)
    ]
    return (*frames, USER) if len(kernel) < len(real) else tuple(frames)


def _with_children(own: Collection[int], parents: dict[int, int]) -> set[int]:
    mine = set(own)
    for (
        child,
        parent,
    ) in parents.items():  # in the order of time: a grandchild comes after its parent
        if parent in mine:
            mine.add(child)
    return mine


def _whose(
    frames: tuple[str, ...], own: bool, network: Callable[[str], bool]
) -> tuple[Whose, tuple[str, ...]]:
    if own:
        return "cell", frames
    if frames[-1] != USER and not _IDLE_ROOTS.isdisjoint(frames):
        return "kernel", frames
    for depth, name in enumerate(frames):
        if not (way := _way_in(name)):
            continue
        if way == "interrupt":
            inner = frames[: depth + 1]
            return ("kernel", inner) if any(map(network, inner)) else ("foreign", frames)
        return "foreign", frames
    return ("kernel", frames) if any(map(network, frames)) else ("foreign", frames)


@cache
def _way_in(name: str) -> Literal["interrupt", "process", ""]:
    """How the kernel was entered by this function; '' for one that is no entry."""
    if name.startswith(_IRQ_ENTRIES):
        return "interrupt"
    return "process" if name.startswith(_SYSCALL_ROOTS) or name == USER else ""


def fold(stacks: Iterable[Stack]) -> str:
    """One stack a line as flame graph tools read it, root first:
    ``cell;[user];do_syscall_64;...;tcp_sendmsg 123456``; cycles, whole.
    """
    lines = sorted(
        f"{';'.join((stack.whose, *reversed(stack.frames)))} {stack.samples} {stack.cycles:.0f}\n"
        for stack in stacks
    )
    return "".join(lines)


def unfold(text: str, name: str = "stacks.folded") -> list[Stack]:
    """What fold wrote. Raises InputError naming the line."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        try:
            path, samples, cycles = line.rsplit(" ", 2)
            whose, *frames = path.split(";")
            spent = float(cycles)
            if (
                whose not in ("cell", "kernel", "foreign")
                or not frames
                or not 0 <= spent < math.inf
            ):
                raise ValueError
            found.append(Stack(whose, tuple(reversed(frames)), spent, int(samples)))  # type: ignore[arg-type]
        except ValueError:
            raise InputError(
                f"{name}, line {number}: expected a folded stack",
                "restore the file from a complete copy of the run",
            ) from None
    return found
