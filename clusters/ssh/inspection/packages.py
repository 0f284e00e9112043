"""Which packages a machine needs to become a node."""

from __future__ import annotations

from cnibench.clusters.ssh.inspection.report import Seen
from cnibench.clusters.ssh.sources import Source

# What a kubelet or a CNI calls, which Kubernetes' packages bring
_OF_NODES = {"iptables": "iptables"}


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
