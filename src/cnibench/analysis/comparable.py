"""Which runs may be put into one figure: those that agree on all that moves a figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cnibench.analysis.series import Series
from cnibench.analysis.stream import Line
from cnibench.errors import UsageError
from cnibench.store import RunReader

_FACTS: Mapping[str, tuple[str, ...]] = {
    "kernel": ("kernel", "kernel_release", "uname.release", "kernel.release"),
    "CPU": ("cpu_model", "cpu.model", "cpu.model_name", "cpu"),
    "NIC": ("nic", "nics", "cluster.nics"),
    "accelerator": ("accelerator", "vm.accelerator", "accel", "vm.accel"),
}


def fact(environment: Mapping[str, Any], name: str) -> Any:
    """A fact of env.json: ``kernel``, ``CPU``, ``NIC`` or ``accelerator`` (of the VM, ``tcg`` when its CPU is emulated), or None."""
    for path in _FACTS[name]:
        value: Any = environment
        for step in path.split("."):
            value = value.get(step) if isinstance(value, Mapping) else None
        if value is not None and not isinstance(value, Mapping):
            return value
    return None


def signature(reader: RunReader, lines: Sequence[Line], *, across: bool = False) -> dict[str, str]:
    """What must be alike; ``lines`` has one sample of each series. ``across``: for a gate between runs, where profiles may differ."""
    environment = reader.environment
    found = {name: str(fact(environment, name) or "not recorded") for name in _FACTS}
    found |= {
        "tool version": reader.plan.tool_version,
        "testbed": _set(line.testbed for line in lines),
        "wire": _set(line.wire for line in lines),
        "offload of the wire": _set(line.wire_offload for line in lines),
        "MTU": _set(line.mtu for line in lines),
        "pinning": _set(line.cpus for line in lines),
        "fidelity": _set(line.fidelity for line in lines if line.fidelity != "baseline"),
        "duration": f"{reader.plan.duration:g} s",
    }
    if not across:
        found |= {f"profile of {label}": _short(profile) for label, profile in reader.plan.profiles.items()}
    return found


def _set(values: Any) -> str:
    return ", ".join(sorted({str(value) for value in values}))


def _short(profile: Mapping[str, Any]) -> str:
    import hashlib

    import msgspec

    return hashlib.sha256(msgspec.json.encode(profile, order="sorted")).hexdigest()[:12]


def differences(one: Mapping[str, str], other: Mapping[str, str]) -> list[str]:
    """What differs, in words; a profile that only one of them has, or a run without a single figure, is no difference."""
    return [
        f"{name}: {one[name]} against {other[name]}"
        for name in one
        if name in other and one[name] != other[name] and one[name] and other[name]
    ]


def environments(readers: Sequence[RunReader], series: Sequence[Series], allow: bool) -> list[int]:
    """For each run the number of its environment. Raises UsageError when there is more than one and ``allow`` is not set."""
    distinct: list[dict[str, str]] = []
    numbers = []
    for number, reader in enumerate(readers):
        mine = signature(reader, [one.first for one in series if one.run == number])
        same = next((i for i, other in enumerate(distinct) if not differences(other, mine)), None)
        if same is None:
            if distinct and not allow:
                raise UsageError(
                    f"{reader.id} is not comparable with {readers[0].id}: " + "; ".join(differences(distinct[0], mine)),
                    "report them one by one, or give --allow-different to show them beside each other, never in one figure",
                )
            distinct.append(mine)
            same = len(distinct) - 1
        numbers.append(same)
    return numbers
