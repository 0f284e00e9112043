"""Can a profile be installed on a cluster at all? Found before anything is made."""

from __future__ import annotations

from cnibench.clusters.kubernetes.api import tools
from cnibench.clusters.lab import kernel
from cnibench.model.profile import Profile
from cnibench.testbed.cluster import Options, Problem, lacking_family

KUBE_PROXY = ("iptables", "nftables", "ipvs", "none")  # what kube-proxy can be told


def problems(profile: Profile, options: Options, *, installed: bool = True) -> list[Problem]:
    """What does not depend on the nodes: the installation, its programs, the address families.
    ``installed`` false: it is there already.
    """
    if profile.kubernetes is None:
        return [
            Problem(
                profile.name,
                "a way to install it on Kubernetes (the key 'kubernetes')",
                "measure it in the lab, or add the key",
            )
        ]
    found = []
    if installed and (others := profile.kubernetes.installed_by):
        found.append(
            Problem(
                profile.name,
                f"{others}, which alone installs it",
                "measure it where it runs: --cluster existing --cni current",
            )
        )
    if installed and any(step.chart for step in profile.kubernetes.steps):
        found += [Problem(profile.name, one.lacks, one.remedy) for one in tools.problems("helm")]
    return found + [
        lacking_family(profile, family)
        for family in options.ip
        if family not in profile.features.ip
    ]


def on_this_kernel(profile: Profile) -> list[Problem]:
    """What this machine's kernel lacks, for nodes that run on it."""
    if profile.kubernetes is None:
        return []
    known = kernel.found()
    found = []
    for need in profile.kubernetes.kernel:
        if need in kernel.FEATURES and known and not known.get(need, False):
            feature = kernel.FEATURES[need]
            remedy = f"use a kernel with {feature.option}" + (
                f": sudo modprobe {feature.module}" if feature.module else ""
            )
            found.append(Problem(profile.name, f"{feature.option} ({feature.words})", remedy))
    return found


def proxy(profile: Profile) -> list[Problem]:
    """An implementation of Services that its installation does not go with."""
    if profile.kubernetes is None or not profile.proxy:
        return []
    possible = KUBE_PROXY if profile.kubernetes.kube_proxy else ("ebpf",)
    if profile.proxy in possible:
        return []
    return [
        Problem(
            profile.name,
            f"Services by {profile.proxy} with its installation",
            f"--proxy {' or '.join(possible)}, or leave it out",
        )
    ]


def proxy_on_this_kernel(profile: Profile) -> list[Problem]:
    """ipvs, where this machine's kernel has none of it."""
    if profile.proxy != "ipvs" or kernel.has_ipvs():
        return []
    return [
        Problem(
            profile.name,
            "CONFIG_IP_VS (virtual servers of the kernel)",
            "sudo modprobe ip_vs, use a kernel with CONFIG_IP_VS, or another --proxy",
        )
    ]
