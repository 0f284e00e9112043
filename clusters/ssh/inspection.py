"""What a machine reports before anything is changed, and what is in the way of a node there: pure
functions of scripts/inspect.sh's output.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network

from cnibench.clusters.ssh.files import POD_SUBNETS, SERVICE_SUBNETS
from cnibench.clusters.ssh.sources import Source
from cnibench.testbed.cluster import Problem

PORTS = "6443 2379 2380 10250 10257 10259"  # of a control plane and a kubelet
_DISK = 4 << 20  # KiB: programs, images (a quarter of it), etcd, and what is unpacked of images
_MEMORY = 1700 << 10  # KiB, as kubeadm demands of a control plane
_CLOCKS = 60  # s that they may be apart: certificates are valid from now on
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
_NO_SWAP = "swapoff -a; it is on again after a reboot unless /etc/fstab leaves it out"
# What a kubelet or a CNI calls, which Kubernetes' packages bring
_OF_NODES = {"iptables": "iptables"}


@dataclass(frozen=True)
class Seen:
    """``facts`` are the script's lines."""

    facts: Mapping[str, str]

    def __getitem__(self, name: str) -> str:
        return self.facts.get(name, "")

    def words(self, name: str) -> list[str]:
        return self[name].split()

    def number(self, name: str) -> int:
        """0 where it is not reported."""
        return int(self[name]) if self[name].isdecimal() else 0

    @property
    def tools(self) -> set[str]:
        return set(self.words("tools"))


def seen(output: str) -> Seen:
    """Lines of KEY=VALUE."""
    pairs = (line.partition("=") for line in output.splitlines())
    return Seen({key: value.strip() for key, equals, value in pairs if equals})


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


def packages(one: Seen, source: Source) -> list[str]:
    """The packages to install there, as apt-get takes them; ``NAME=`` without a version for one
    whose sources have none that fits.
    """
    found = [package for tool, package in _OF_NODES.items() if tool not in one.tools]
    if not source.has_runtime and not {"containerd", "ctr", "runc"} <= one.tools:
        found.append("containerd")
    if not source.has_kubernetes:
        versions = [
            version for version in one.words("apt_kubeadm") if fits(version, source.version)
        ]
        newest = max(versions, key=_numbers, default="")
        found += [f"{name}={newest}" for name in ("kubeadm", "kubelet")]
    if not source.has_plugins and source.has_kubernetes:
        found.append("containernetworking-plugins")
    return found


def fits(package: str, wanted: str) -> bool:
    """Is that version of a package (``1.34.4-1.1``) the wanted one (``v1.34``, ``v1.34.4``)?"""
    upstream = package.partition(":")[2] or package
    asked = wanted.removeprefix("v").split(".")
    return upstream.partition("-")[0].split(".")[: len(asked)] == asked


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.replace("-", ".").split(".") if part.isdecimal())


def differences(one: Seen, other: Seen) -> list[str]:
    """What the two machines differ in and both should have alike, in words."""
    alike = {
        "os": "distribution",
        "kernel": "kernel",
        "cpu_model": "CPU",
        "cpus": "number of CPUs",
        "driver": "driver of the NIC",
        "speed": "speed of the NIC in Mbit/s",
        "mtu": "MTU of the NIC",
    }
    return [
        f"{what} differs: a: {one[name] or 'not reported'}, b: {other[name] or 'not reported'}"
        for name, what in alike.items()
        if one[name] != other[name]
    ]


def firewalls(one: Seen, other: Seen) -> list[str]:
    """The firewalls that are on, in words. What they let through is not looked at."""
    return [
        f"{name}: a firewall is on ({', '.join(on)}): it must let everything from"
        f" {peer['address']} through, and forward what is for Pods"
        for name, seen, peer in (("a", one, other), ("b", other, one))
        if (on := seen.words("firewall"))
    ]


def installed_differently(one: Seen, other: Seen, source: Source) -> list[str]:
    """The packages that would be installed on either machine, in words, if they are not the same:
    another distribution may have other versions.
    """
    wanted = [" ".join(packages(seen, source)) or "nothing" for seen in (one, other)]
    if wanted[0] == wanted[1]:
        return []
    return [f"what is installed from packages differs: a: {wanted[0]}, b: {wanted[1]}"]


def pair_problems(names: Sequence[str], one: Seen, other: Seen) -> Iterator[Problem]:
    """What two machines cannot have between them."""
    both = " and ".join(names)
    if one["boot"] and one["boot"] == other["boot"]:
        yield Problem("", f"{both} are the same machine", "name two")
    elif one["address"] and one["address"] == other["address"]:
        yield Problem(
            "",
            f"{both} have the same address {one['address']}, by which neither reaches the other",
            "name addresses of a network between them: ssh://HOST?address=IP",
        )
    if one["architecture"] != other["architecture"]:
        yield Problem(
            "",
            f"{both} have different architectures: {one['architecture']}, {other['architecture']}",
            "measure between machines of one kind",
        )
    if abs(one.number("time") - other.number("time")) > _CLOCKS:
        yield Problem(
            "",
            f"the clocks of {both} are {abs(one.number('time') - other.number('time'))} s apart",
            "synchronise them, for example by chrony",
        )
    if (":" in one["address"]) != (":" in other["address"]):
        yield Problem(
            "",
            f"{both} are reached by IPv4 and IPv6: {one['address']}, {other['address']}",
            "name addresses of one family: ssh://HOST?address=IP",
        )
