"""Whether two nodes are similar and idle: pure decisions from what inspection.py reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cnibench.testbed.capabilities.node_inspection import Remark

# s that clocks may be apart: one-way figures of a data centre are some tens of microseconds, logs
# need milliseconds
_APART = 1e-3

# Fact: (what it is, how it is made alike)
_COMPARED: Mapping[str, tuple[str, str]] = {
    "architecture": (
        "architecture",
        "measure between nodes of one kind: --client-node, --server-node",
    ),
    "cpu_model": ("CPU model", "measure between nodes of one kind: --client-node, --server-node"),
    "cpus": (
        "number of CPUs",
        "the same settings of firmware on both; or other nodes: --client-node, --server-node",
    ),
    "kernel": ("kernel", "install the same kernel on both"),
    "governor": ("frequency governor", "cpupower frequency-set -g performance, on both"),
    "smt": ("SMT", "echo off > /sys/devices/system/cpu/smt/control, or firmware, on both"),
    "turbo": (
        "turbo",
        "the same in firmware, or no_turbo and boost below /sys/devices/system/cpu, on both",
    ),
    "speed": (
        "speed of the NIC in Mbit/s",
        "ethtool DEVICE on both; the same card, cable and port of the switch",
    ),
    "duplex": ("duplex of the NIC", "ethtool -s DEVICE autoneg on, on both"),
    "mtu": ("MTU of the NIC", "ip link set dev DEVICE mtu N, the same on both and on the switch"),
    "rings": ("ring sizes of the NIC", "ethtool -G DEVICE rx N tx N, on both"),
    "interrupts": (
        "CPUs that the NIC's interrupts go to",
        "the same in /proc/irq/N/smp_affinity_list on both",
    ),
    "irqbalance": ("irqbalance", "systemctl stop irqbalance, or let it run, on both"),
    "rps": (
        "receive packet steering",
        "the same in /sys/class/net/DEVICE/queues/rx-*/rps_cpus on both",
    ),
}
_UNSEEN = {
    "governor": "no frequency governor is reported (often none in virtual machines and containers)",
    "smt": "whether SMT is enabled is not reported",
    "turbo": "whether turbo is enabled is not reported",
    "speed": "the NIC reports no speed (a virtual one has none)",
    "interrupts": "the NIC's interrupts are not reported (a virtual one has none)",
    "rings": "the NIC reports no ring sizes",
    "synchronised": "whether its clock is synchronised is not reported",
}
_DISTURBING: Mapping[
    str, tuple[tuple[str, ...], str, str]
] = {  # values that are well; what is wrong otherwise; what mends it
    "governor": (
        ("performance",),
        "the frequency governor is '{}': clocks change with the load",
        "cpupower frequency-set -g performance",
    ),
    "smt": (
        ("off",),
        "SMT is {}: two CPUs share one core",
        "echo off > /sys/devices/system/cpu/smt/control",
    ),
    "turbo": (
        ("off",),
        "turbo is {}: the clock depends on temperature",
        "turn it off in firmware, or by no_turbo or boost",
    ),
    "duplex": (("full",), "the NIC runs at {} duplex", "ethtool -s DEVICE autoneg on"),
    "synchronised": (
        ("yes",),
        "its clock is not synchronised: one-way figures need it, all others do not",
        "install chrony",
    ),
    "virtual": (
        ("no",),
        "it is a virtual machine: other guests share its hardware",
        "repeat on bare metal what matters",
    ),
}


def remarks(nodes: Mapping[str, Mapping[str, Any]]) -> Iterator[Remark]:
    """What differs between the nodes, then what disturbs on each, then what was not seen; each fact
    in text, '' where it was not reported.
    """
    for name, (what, remedy) in _COMPARED.items():
        values = {node: str(facts.get(name, "")) for node, facts in nodes.items()}
        if len(set(values.values())) > 1:
            details = ", ".join(
                f"{node}: {value or 'not reported'}" for node, value in values.items()
            )
            yield Remark("differs", f"{what} differs between the nodes: {details}", remedy)
    for name, (well, wrong, remedy) in _DISTURBING.items():
        for value in dict.fromkeys(str(facts.get(name, "")) for facts in nodes.values()):
            if value and value not in well and not (name == "duplex" and value == "unknown"):
                yield Remark(
                    "disturbs", f"{_where(nodes, name, value)}: {wrong.format(value)}", remedy
                )
    for name, words in _UNSEEN.items():
        if any(not facts.get(name) for facts in nodes.values()):
            yield Remark("unseen", f"{_where(nodes, name, '')}: {words}")


def _where(nodes: Mapping[str, Mapping[str, Any]], name: str, value: str) -> str:
    those = [node for node, facts in nodes.items() if str(facts.get(name, "")) == value]
    return f"node{'s' * (len(those) > 1)} {', '.join(those)}"


def clocks(first: str, second: str, found: tuple[float, float] | str) -> Iterator[Remark]:
    """How far apart two nodes' clocks are: (s that the second is ahead, s that this may be wrong
    by), or why it is not known.
    """
    if isinstance(found, str):
        yield Remark(
            "unseen", f"how far apart the clocks of {first} and {second} are: {found}", _LET_IN
        )
        return
    offset, doubt = found
    if abs(offset) - doubt > _APART:
        ahead = (
            f"the clock of {second} is {abs(offset) * 1e3:.3g} ms"
            f" {'ahead of' if offset > 0 else 'behind'} that of {first}"
        )
        yield Remark(
            "differs",
            f"{ahead} (to within {doubt * 1e3:.2g} ms)",
            "install chrony on both; one-way figures need it",
        )


_LET_IN = "let UDP between the nodes through (port 47011)"


def passing(size: int, found: Mapping[tuple[str, str], tuple[str, str]]) -> Iterator[Remark]:
    """What came of a packet of that many bytes with DF: (from, to) to what went wrong with (a small
    one, the full one), '' for nothing.
    """
    for (one, other), (small, full) in found.items():
        if small:
            yield Remark(
                "unseen",
                f"the MTU from {one} to {other}: no datagram between the nodes is answered"
                f" ({small})",
                _LET_IN,
            )
        elif full:
            yield Remark(
                "disturbs",
                f"a packet of {size} B does not pass from {one} to {other} ({full})",
                "the same MTU on both NICs and on every port of the switches between them",
            )


def interrupts(affinities: Sequence[str]) -> str:
    """``4 of CPU 0, 2 of CPU 1``: how often each list of CPUs occurs."""
    return ", ".join(f"{affinities.count(one)} of CPU {one}" for one in sorted(set(affinities)))
