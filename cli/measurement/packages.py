"""Which package of the distribution brings each program, and whether it is here."""

from __future__ import annotations

import platform
import re
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
_APT = "sudo apt-get install --no-install-recommends"
_INSTALLS = re.compile(
    r"sudo apt-get install (?:--no-install-recommends )?([a-z0-9.+ -]+?)(?:  # .*)?"
)


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
    wanted = {
        renamed.get(package, package) for package in (names.get(tool, tool) for tool in tools)
    }
    if not {"debian", "ubuntu"} & set(system):
        return f"install the packages that Debian calls: {' '.join(sorted(wanted))}"
    return _command(wanted)


def together(remedies: Iterable[str]) -> str:
    """Remedies as one line: one command for all packages, last, for it may end with a comment."""
    others, wanted = dict[str, None](), set[str]()
    for remedy in remedies:
        if found := _INSTALLS.fullmatch(remedy):
            wanted |= set(found[1].split())
        elif remedy:
            others[remedy] = None
    return "; ".join([*others, *([_command(wanted)] if wanted else [])])


def _command(packages: set[str]) -> str:
    command = f"{_APT} {' '.join(sorted(packages))}"
    if "netperf" in packages:  # a comment, so that the line can be pasted into a shell
        component = "multiverse" if "ubuntu" in _system() else "non-free"
        command += f"  # netperf: add {component} to the components in /etc/apt, apt-get update"
    return command


def _system() -> tuple[str, ...]:
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        return ()
    return (release.get("ID", ""), *release.get("ID_LIKE", "").split())
