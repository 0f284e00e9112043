"""What env.json says about machines, against what else it says and what Linux can report."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from datetime import UTC, datetime

from cnibench.model.units import is_number
from cnibench.reports.bundle import nics
from cnibench.rundir.schema import Record

_VENDORS = {"x86_64": ("AMD", "Intel"), "aarch64": ("ARM", "Neoverse", "Ampere", "Cortex")}
_CLOCKS = {"x86_64": ("arch_sys_counter",), "aarch64": ("tsc", "hpet", "acpi_pm", "kvm-clock")}
# Ends of the names of distributions' kernels (6.1.0-18-arm64, 5.14.0-427.el9.x86_64).
_KERNELS = {"x86_64": r"\b(arm64|aarch64)$", "aarch64": r"\b(amd64|x86_64)$"}
_BRAND = 48  # characters that CPUID has for a processor's name
_LEAST, _MOST = 1 << 26, 1 << 46  # bytes: cnibench starts in no less; no machine has more
# Linux 6.18 and its day. A minor version takes nine or ten weeks, and after about 6.19 comes 7.0.
_RELEASED, _RELEASE = datetime(2025, 11, 30, tzinfo=UTC), 6 * 20 + 18
_FEWEST, _MOST_DAYS = 60, 70  # that a version takes
_AHEAD = 2  # versions: release candidates are ahead, and clocks


def contradictions(facts: Record, created: datetime | None) -> Iterator[str]:
    """Each in words. ``facts`` are those of env.json, ``created`` the time of the plan."""
    yield from _numbers(facts)
    machines = {"": facts}
    nodes = facts.get("nodes")
    if isinstance(nodes, dict):
        machines |= {
            f"node {name[:60]}: ": one | {"kernel": one.get("kernel") or one.get("kernelVersion")}
            for name, one in nodes.items()
            if isinstance(one, dict)
        }
    for where, one in machines.items():
        for words in (*_kernel(one, created), *_cpu(one, bool(facts.get("imported")))):
            yield f"env.json: {where}{words}"
    for words in (*_memory(facts), *_virtual(facts), *_python(facts), *nics.contradictions(facts)):
        yield f"env.json: {words}"
    if facts.get("accelerator") == "tcg" and facts.get("testbed") not in (None, "vm"):
        yield "env.json: the processor was emulated, and the testbed is no virtual machine"


def cpus(facts: Record) -> float:
    """That the machine has, at least those that this process could use; infinite if not known."""
    known = [facts[name] for name in ("cpus", "cpus_online") if is_number(facts.get(name))]
    return float(max(known, default=math.inf))


def memory(facts: Record) -> float:
    """Of the machine in bytes; infinite if not known."""
    found = facts.get("memory")
    return float(found) if found is not None and is_number(found) and found > 0 else math.inf


def _numbers(facts: Record) -> Iterator[str]:
    for name in ("cpus", "cpus_online", "memory"):
        one = facts.get(name)
        if one is not None and not (is_number(one) and 0 < one < 2**60):
            yield f"env.json: {name} is {str(one)[:60]!a}, which is no such number"
    online = facts.get("cpus_online")
    if online is not None and is_number(online) and cpus(facts) > online:
        yield "env.json: programs may use more CPUs than are online"
    if facts.get("smt") is True and cpus(facts) < 2:
        yield "env.json: SMT is active, and there is one CPU"


def _memory(facts: Record) -> Iterator[str]:
    size = memory(facts)
    if size < math.inf and not facts.get("imported"):
        if not _LEAST <= size <= _MOST:
            yield f"memory is {size:.0f} B, which no machine has that ran cnibench"
        elif size % 1024:
            yield f"memory is {size:.0f} B, and Linux reports whole KiB"


def _kernel(facts: Record, created: datetime | None) -> Iterator[str]:
    kernel, machine = facts.get("kernel"), str(facts.get("architecture", ""))
    if kernel in (None, "", "not recorded"):
        return
    version = (
        re.match(r"(\d{1,3})\.(\d{1,3})[\w.+~-]*", kernel) if isinstance(kernel, str) else None
    )
    if version is None:
        yield f"kernel is {str(kernel)[:60]!a}, which is no version of Linux"
        return
    if machine in _KERNELS and re.search(_KERNELS[machine], kernel):
        yield f"kernel {kernel[:60]!a} is not for the architecture {machine}"
    if created is not None:
        days = (created - _RELEASED).days
        newest = _RELEASE + _AHEAD + days / (_FEWEST if days > 0 else _MOST_DAYS)
        if int(version[1]) * 20 + int(version[2]) > newest:
            yield f"kernel {kernel[:60]!a} did not exist on {created:%Y-%m-%d}"
    features = facts.get("kernel_features")
    # Red Hat's kernels have what is newer than their version.
    netkit = isinstance(features, dict) and features.get("netkit") is True
    if netkit and (int(version[1]), int(version[2])) < (6, 7) and ".el" not in kernel:
        yield f"kernel {kernel[:60]!a} has no netkit, which is said to be there"


def _cpu(facts: Record, imported: bool) -> Iterator[str]:
    model, machine = str(facts.get("cpu_model") or ""), str(facts.get("architecture", ""))
    shown = f"a CPU {model[:60]!a}"
    named = {vendor for some in _VENDORS.values() for vendor in some if _names(model, vendor)}
    for architecture, vendors in _VENDORS.items():
        if machine in _VENDORS and machine != architecture and named & set(vendors):
            yield f"{shown} does not have the architecture {machine}"
    if {"AMD", "Intel"} <= named:
        yield f"{shown} has two vendors"
    possible = len(model) <= _BRAND and model.isascii() and model.isprintable()
    if machine == "x86_64" and not imported and not possible:
        yield f"{shown} is no name that an x86_64 processor has"
    clock, tsc = re.search(r"@ (\d+\.\d+)\s*GHz", model), facts.get("tsc_hz")
    if clock and tsc is not None and is_number(tsc) and not 0.5e9 <= tsc / float(clock[1]) <= 2e9:
        yield f"{shown} has no clock of {tsc / 1e9:.3g} GHz"
    if "AMD" in named and "intel" in str(facts.get("turbo", "")):
        yield f"{shown} has no driver of Intel's"


def _names(model: str, vendor: str) -> bool:
    return re.search(rf"\b{vendor}\b", model) is not None


def _virtual(facts: Record) -> Iterator[str]:
    machine, clock = str(facts.get("architecture", "")), str(facts.get("clocksource", ""))
    if clock in _CLOCKS.get(machine, ()):
        yield f"clocksource is {clock}, which {machine} does not have"
    # Elsewhere cnibench does not see whether it is in a virtual machine.
    if facts.get("virtualisation") != "" or machine != "x86_64":
        return
    signs = [f"its NIC has the driver {one}" for one in nics.drivers(facts) if one in nics.VIRTUAL]
    if clock in ("kvm-clock", "xen") or clock.startswith("hyperv"):
        signs.append(f"its clock is {clock}")
    stolen = facts.get("steal")
    if stolen is not None and is_number(stolen) and stolen > 0:
        signs.append("a hypervisor took CPU time from it")
    model = str(facts.get("cpu_model", ""))
    if re.search(r"\b(QEMU|KVM)\b", model):
        signs.append(f"its CPU is {model[:60]!a}")
    cores = re.search(r"\b(\d{1,4})-Core\b", model)  # AMD's; two sockets, two threads a core
    if cores and cpus(facts) < math.inf and cpus(facts) > 4 * int(cores[1]):
        signs.append(f"it has {cpus(facts):.0f} CPUs of {model[:60]!a}")
    for sign in signs:
        yield f"it says that it is no virtual machine, and {sign}"


def _python(facts: Record) -> Iterator[str]:
    python = re.match(r"(\d+)\.(\d+)\.", str(facts.get("python", "")))
    if python and (int(python[1]), int(python[2])) < (3, 11):
        yield f"Python {str(facts['python'])[:20]!a} cannot run cnibench"
