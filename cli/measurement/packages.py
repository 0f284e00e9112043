"""Which package of the distribution brings each program, and whether it is here."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping

from cnibench.registry import packages_of
from cnibench.system.environment import path

# Of programs that no kind of cluster, workload or collector declares.
_DEBIAN: Mapping[str, str] = {
    "bpftool": "bpftool",
    "conntrack": "conntrack",
    "ethtool": "ethtool",
    "helm": "helm",
    "ip": "iproute2",
    "iptables": "iptables",
    "iptables-legacy-restore": "iptables",
    "iptables-nft-restore": "iptables",
    "iptables-save": "iptables",
    "mount": "mount",
    "ovs-vsctl": "openvswitch-switch",
    "ovs-vswitchd": "openvswitch-switch",
    "ping": "iputils-ping",
    "qemu-system-x86_64": "qemu-system-x86",
    "sysctl": "procps",
    "tc": "iproute2",
    "tcpdump": "tcpdump",
    "unshare": "util-linux",
    "wg": "wireguard-tools",
}
_UBUNTU: Mapping[str, str] = {
    "linux-perf": "linux-tools-generic",
    "bpftool": "linux-tools-common",
}  # Debian's name to Ubuntu's


def lacking(tools: Iterable[str]) -> list[str]:
    """Those programs that are not installed, each once."""
    return [tool for tool in dict.fromkeys(tools) if not path(tool)]


def install_command(tools: Iterable[str]) -> str:
    """The one command that installs them on Debian and Ubuntu; on others the packages' names as
    Debian has them.
    """
    system = _system()
    names = dict(_DEBIAN)
    for package in ("clusters", "workloads", "collectors"):
        names |= packages_of(package)
    renamed = _UBUNTU if "ubuntu" in system else {}
    wanted = sorted(
        {renamed.get(package, package) for package in (names.get(tool, tool) for tool in tools)}
    )
    if not {"debian", "ubuntu"} & set(system):
        return f"install the packages that Debian calls: {' '.join(wanted)}"
    command = f"sudo apt-get install --no-install-recommends {' '.join(wanted)}"
    if "netperf" in wanted:
        section = "multiverse" if "ubuntu" in system else "non-free"
        command += f"  (netperf is in the section {section} of the distribution)"
    return command


def _system() -> tuple[str, ...]:
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        return ()
    return (release.get("ID", ""), *release.get("ID_LIKE", "").split())
