"""What is in the way of a node on one machine, with remedies: pure functions of its report."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from ipaddress import IPv4Network, IPv6Network

from cnibench.clusters.ssh.files import POD_SUBNETS, SERVICE_SUBNETS
from cnibench.clusters.ssh.inspection.packages import packages
from cnibench.clusters.ssh.inspection.report import Seen
from cnibench.clusters.ssh.sources import Source
from cnibench.testbed.cluster import Problem

_DISK = 4 << 20  # KiB: programs, images (a quarter of it), etcd, and what is unpacked of images
_MEMORY = 1700 << 10  # KiB, as kubeadm demands of a control plane
# Programs that our scripts and a node use, and their Debian packages.
_NEEDED = {
    "systemctl": "systemd",
    "flock": "util-linux",
    "mount": "mount",
    "ip": "iproute2",
    "sysctl": "procps",
    "tar": "tar",
    "find": "findutils",
    "awk": "mawk",
    "sha256sum": "coreutils",
}
_NO_SWAP = "swapoff -a; to keep it off after a reboot, also remove it from /etc/fstab"


def problems(machine: str, one: Seen, source: Source, control_plane: bool) -> Iterator[Problem]:
    """All that is in the way on one machine, each with its remedy."""
    yield from (Problem("", f"{machine}: {lacks}", remedy) for lacks, remedy in _taken(one))
    yield from (Problem("", f"{machine}: {lacks}", remedy) for lacks, remedy in _system(one))
    yield from (Problem("", f"{machine}: {lacks}", remedy) for lacks, remedy in _networks(one))
    if control_plane and one.number("cpus") < 2:
        yield Problem("", f"{machine}: {one['cpus']} CPU; a control plane needs 2", "use another")
    yield from (Problem("", f"{machine}: {lacks}", remedy) for lacks, remedy in _parts(one, source))


def claimed(one: Seen) -> tuple[str, str] | None:
    """The run of cnibench that a machine belongs to, and the remedy."""
    if one["used"] == "yes":
        return f"the run {one['run']} of {one['owner']} uses it", "wait for its end"
    if one["lab"]:
        return "another run of cnibench's lab uses this machine", "wait for its end"
    if one["journal"]:
        return (
            f"the run {one['run']} of {one['owner']} was not put back",
            "cnibench clean with the same machines (and --owner, when it is not yours)",
        )
    return None


def _taken(one: Seen) -> Iterator[tuple[str, str]]:
    """What belongs to somebody else."""
    if claim := claimed(one):
        yield claim
    elif node := one.words("node"):
        yield (
            f"it is a node of a cluster already, or was one ({', '.join(node)})",
            "--cluster existing measures that cluster; else remove it first (kubeadm reset), or"
            " move these files away",
        )
    elif containers := one.words("containers"):
        yield (
            f"it runs containers of others ({', '.join(containers)})",
            "take them elsewhere; nothing but the measurement may run there",
        )
    elif one["network"]:
        yield (
            f"a CNI is configured there ({one['network']})",
            "remove what an earlier cluster left below /etc/cni",
        )
    if ports := [] if one["journal"] else one.words("ports_used"):
        yield (
            f"port {', '.join(ports)} is in use",
            f"see by whom: ss -ltnp 'sport = :{ports[0]}'; Kubernetes needs it",
        )


def _system(one: Seen) -> Iterator[tuple[str, str]]:
    if one["systemd"] != "yes":
        yield "it does not run systemd", "use a distribution with systemd"
    if swap := one.words("swap"):
        yield f"swap is on ({', '.join(swap)}), which a kubelet refuses", _NO_SWAP
    if absent := sorted(_NEEDED.keys() - one.tools):
        packages = " ".join(sorted({_NEEDED[tool] for tool in absent}))
        yield f"not installed: {', '.join(absent)}", _install(one, packages)
    if one["free_kib"] and one.number("free_kib") < _DISK:
        yield (
            f"{one.number('free_kib') >> 10} MiB are free below /var/lib;"
            f" {_DISK >> 10} MiB are needed",
            "free some",
        )
    if 0 < one.number("memory") < _MEMORY:
        yield f"{one.number('memory') >> 10} MiB of memory; 1700 MiB are needed", "use another"
    yield from no_address(one)


def no_address(one: Seen) -> Iterator[tuple[str, str]]:
    """Why the NIC to measure is not known, and the remedy."""
    if not one["address"]:
        yield "it does not tell the address that ssh arrives at", "name it: ssh://HOST?address=IP"
    elif not one["device"]:
        yield (
            f"no network device there has the address {one['address']}",
            "name one of its own: ssh://HOST?address=IP",
        )


def _networks(one: Seen) -> Iterator[tuple[str, str]]:
    """Those that a node would take for Pods or Services: nothing there could be reached any more,
    perhaps not even by ssh.
    """
    if one["journal"]:  # they may be the run's own
        return
    subnets = [*POD_SUBNETS.values(), *SERVICE_SUBNETS.values()]
    for subnet in (ipaddress.ip_network(text) for text in subnets):
        inside = [text for text in one.words("networks") if _is_inside(text, subnet)]
        if inside:
            yield (
                f"it has to reach {', '.join(inside)}, and {subnet} is the cluster's own",
                "use machines in other networks; if an earlier cluster left these, delete its"
                " devices and routes",
            )


def _is_inside(text: str, subnet: IPv4Network | IPv6Network) -> bool:
    """Is an address, an address of a device (10.0.0.5/8) or a network in a subnet?"""
    try:
        found = ipaddress.ip_interface(text)
    except ValueError:
        return False
    is_address = found.ip != found.network.network_address
    return found.ip in subnet and (is_address or found.network.prefixlen >= subnet.prefixlen)


def _install(one: Seen, packages: str) -> str:
    """The remedy for missing packages, by their names in Debian."""
    if "apt-get" in one.tools:
        return f"apt-get install {packages}"
    return f"install them; in Debian they are in {packages}"


def _parts(one: Seen, source: Source) -> Iterator[tuple[str, str]]:
    """What the source of the programs leaves open."""
    if one["cgroup"] != "cgroup2fs" and source.minor >= 35:
        yield (
            "it has cgroup v1, which a kubelet of 1.35 or later refuses",
            "boot with systemd.unified_cgroup_hierarchy=1, or --kubernetes v1.34",
        )
    if source.architecture and one["architecture"] != source.architecture:
        yield (
            f"it is {one['architecture']}, and the programs of {source} are for"
            f" {source.architecture}",
            "name a folder with programs for it: --kubernetes FOLDER",
        )
    if source.has_kubernetes and (units := one.words("kubelet_unit")) and not one["journal"]:
        yield (
            f"it has a kubelet of its own ({', '.join(units)})",
            "remove it (apt-get purge kubeadm kubelet), or leave out --kubernetes FOLDER",
        )
    wanted = packages(one, source)
    if wanted and "apt-get" not in one.tools:
        yield (
            f"{', '.join(wanted)} would have to be installed, and it has no apt-get",
            "install them, or put the programs into a folder: --kubernetes FOLDER",
        )
    elif absent := sorted(name for name in wanted if name.endswith("=")):
        yield (
            f"its package sources have no {absent[0][:-1]} {source.version}",
            "add Kubernetes' package source (https://kubernetes.io/docs/setup), or --kubernetes"
            " FOLDER",
        )
