"""What this machine is, and what on it disturbs measuring. No host name, no addresses: a run
directory is made to be published.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from cnibench import __version__
from cnibench.errors import CnibenchError
from cnibench.system.process import run

_CPU = Path("/sys/devices/system/cpu")
_BUSY = 0.25  # load average per CPU above which another load is worth a warning
_STOLEN = 0.01  # share of CPU time that the hypervisor gave to others since boot

# Each tool's way to say its version, and the pattern that finds it.
_VERSIONS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "netperf": (("-V",), r"version (\S+)"),
    "iperf3": (("--version",), r"iperf (\S+)"),
    "perf": (("--version",), r"perf version (\S+)"),
    "ab": (("-V",), r"Version (\S+)"),
    "nginx": (("-v",), r"nginx/(\S+)"),
    "iptables": (("--version",), r"iptables v(\S+ \(\S+\)|\S+)"),
    "ipset": (("--version",), r"ipset v(\S+),"),
    "nft": (("--version",), r"nftables v(\S+)"),
    "ip": (("-V",), r"iproute2-(\S+),"),
    "ethtool": (("--version",), r"version (\S+)"),
}


def machine(tools: Iterable[str] = ()) -> dict[str, Any]:
    """Facts for env.json: kernel, CPU, memory (bytes), virtualisation, governor, SMT, load, steal,
    tool versions, our own version.
    """
    return {
        "tool_version": __version__,
        "python": platform.python_version(),
        "os": _os(),
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "cpu_model": this_cpu(),
        "cpus": len(os.sched_getaffinity(0)),
        "cpus_online": os.cpu_count() or 0,
        "memory": memory(_read("/proc/meminfo")),
        "virtualisation": virtualisation(),
        "governor": governor(),
        "smt": _read("/sys/devices/system/cpu/smt/active").strip() == "1",
        "turbo": turbo(),
        "clocksource": (
            _read("/sys/devices/system/clocksource/clocksource0/current_clocksource").strip()
        ),
        "tsc_hz": tsc_hz() or "unknown",
        "load": list(os.getloadavg()),
        "steal": steal(_read("/proc/stat")),
        "privileged": os.geteuid() == 0 and _all_users(),
        "tools": versions(tools),
    }


def disturbances(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(what disturbs measuring here, the remedy) out of the facts of ``machine``."""
    found = []
    if facts["governor"] not in ("", "performance"):
        found.append(
            (
                f"the frequency governor is '{facts['governor']}': the clock changes with the load",
                "cpupower frequency-set -g performance",
            )
        )
    if facts["load"][0] > _BUSY * facts["cpus_online"]:
        found.append(
            (
                (
                    f"other load: {facts['load'][0]:.1f} over the last minute on"
                    f" {facts['cpus_online']} CPUs"
                ),
                "stop what else runs here",
            )
        )
    if facts["steal"] > _STOLEN:
        found.append(
            (
                f"the hypervisor gave {facts['steal']:.1%} of the CPU time to others",
                "use a machine with CPUs of its own",
            )
        )
    if facts["smt"]:
        found.append(
            ("SMT is on: two CPUs share one core", "echo off > /sys/devices/system/cpu/smt/control")
        )
    if facts["turbo"]:
        found.append(
            (
                "turbo is on: the clock depends on temperature",
                f"echo {'1' if 'no_turbo' in facts['turbo'] else '0'} > {facts['turbo']}",
            )
        )
    if facts["virtualisation"]:
        found.append(
            (
                (
                    f"this is a virtual machine ({facts['virtualisation']}): other guests share its"
                    " hardware"
                ),
                "repeat on bare metal what matters",
            )
        )
    return found


def this_cpu() -> str:
    """The model of this machine's CPU, the architecture where it is unknown."""
    return cpu_model(_read("/proc/cpuinfo")) or platform.machine()


def cpu_model(cpuinfo: str) -> str:
    """The model's name out of /proc/cpuinfo; '' where the architecture does not give one."""
    match = re.search(r"^(?:model name|Model|cpu model)\s*:\s*(.+)$", cpuinfo, re.MULTILINE)
    return match[1].strip() if match else ""


def memory(meminfo: str) -> int:
    """MemTotal of /proc/meminfo in bytes; 0 when it is not there."""
    match = re.search(r"^MemTotal:\s+(\d+) kB", meminfo, re.MULTILINE)
    return int(match[1]) * 1024 if match else 0


def steal(stat: str) -> float:
    """The share of CPU time since boot that was stolen (the eighth figure of the first line of
    /proc/stat, proc(5)).
    """
    figures = [int(word) for word in stat.partition("\n")[0].split()[1:9]]
    total = sum(figures)
    return figures[7] / total if len(figures) == 8 and total else 0.0


def governor() -> str:
    """The frequency governor, several joined by a comma, '' where there is none (most virtual
    machines).
    """
    found = {_read(path).strip() for path in _CPU.glob("cpu[0-9]*/cpufreq/scaling_governor")}
    return ",".join(sorted(found - {""}))


def turbo() -> str:
    """The file that switches turbo off, when it is on; else ''."""
    for path, on in (
        ("/sys/devices/system/cpu/intel_pstate/no_turbo", "0"),
        ("/sys/devices/system/cpu/cpufreq/boost", "1"),
    ):
        if _read(path).strip() == on:
            return path
    return ""


def tsc_hz() -> float:
    """The TSC's frequency in Hz as the kernel or the CPU tells it; 0 when neither does."""
    khz = _read("/sys/devices/system/cpu/cpu0/tsc_freq_khz").strip()
    if khz.isdigit():
        return int(khz) * 1e3
    match = re.search(r"^model name\s*:.*@ ([\d.]+)\s*GHz", _read("/proc/cpuinfo"), re.MULTILINE)
    return float(match[1]) * 1e9 if match else 0.0


def virtualisation() -> str:
    """The hypervisor's name, '' on bare metal."""
    if not re.search(r"^flags\s*:.*\bhypervisor\b", _read("/proc/cpuinfo"), re.MULTILINE):
        return ""
    vendor = _read("/sys/class/dmi/id/sys_vendor").strip()
    return vendor or _read("/sys/hypervisor/type").strip() or "unknown hypervisor"


def versions(tools: Iterable[str]) -> dict[str, str]:
    """Tool to version; '' for one that is there and does not say, none for one that is not
    there.
    """
    found = {}
    for tool in sorted(set(tools)):
        if path(tool):
            arguments, pattern = _VERSIONS.get(tool, ((), ""))
            found[tool] = _version([path(tool), *arguments], pattern) if pattern else ""
    return found


def path(tool: str) -> str:
    """The program's path, '' when it is not installed; /sbin is looked through as well, which users
    often have not in their PATH.
    """
    return shutil.which(tool) or shutil.which(tool, path="/usr/local/sbin:/usr/sbin:/sbin") or ""


def _version(argv: list[str], pattern: str) -> str:
    try:
        done = run(argv, timeout=5, check=False)
    except CnibenchError:
        return ""
    match = re.search(pattern, done.stdout + done.stderr)
    return match[1] if match else ""


def _os() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "")
    except OSError:
        return ""


def _read(file: str | Path) -> str:
    try:
        return Path(file).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _all_users() -> bool:
    """Are we in the first user namespace, where root is the machine's? (user_namespaces(7): its map
    has all 2^32 - 1 numbers)
    """
    try:
        return Path("/proc/self/uid_map").read_text().split() == ["0", "0", str(2**32 - 1)]
    except OSError:  # a kernel without user namespaces
        return True
