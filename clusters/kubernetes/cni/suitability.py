"""Can a profile be installed on a cluster at all? Found before anything is made."""

from __future__ import annotations

import shutil

from cnibench.clusters.kubernetes.api import tools
from cnibench.clusters.kubernetes.api.access import Access
from cnibench.clusters.kubernetes.cni.observe import Objects
from cnibench.clusters.lab import kernel
from cnibench.model.installation import Fact
from cnibench.model.profile import Profile
from cnibench.testbed.cluster import Options, Problem, lacking_family

KUBE_PROXY = ("iptables", "nftables", "ipvs", "none")  # what kube-proxy can be told
_CONFIG, _MODE = "configmap/kube-system/kube-proxy", ("data", "config.conf", "mode")
_NFT = "nft-services"  # what kube-proxy in that mode needs of the kernel
_USUAL = "iptables"  # kube-proxy's mode where its configuration leaves it empty


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
    found = []
    for need in profile.kubernetes.kernel:
        if _lacks(need):
            feature = kernel.FEATURES[need]
            remedy = f"use a kernel with {feature.option}" + (
                f": sudo modprobe {feature.module}" if feature.module else ""
            )
            found.append(Problem(profile.name, f"{feature.option} ({feature.words})", remedy))
    return found


def _lacks(need: str) -> bool:
    """False where it is not known, as without the program that tries it, which the nodes have."""
    program = kernel.program(need)
    if need not in kernel.FEATURES or (program and shutil.which(program) is None):
        return False
    known = kernel.found()
    return bool(known) and not known.get(need, False)


def proxy(profile: Profile) -> list[Problem]:
    """An implementation of Services that its installation does not go with."""
    if profile.kubernetes is None or not profile.proxy:
        return []
    own = profile.kubernetes
    possible = KUBE_PROXY if own.kube_proxy else ("ebpf",)
    if own.kube_proxy_mode:
        possible = (own.kube_proxy_mode,)
    if profile.proxy in possible:
        return []
    return [
        Problem(
            profile.name,
            f"Services by {profile.proxy} with its installation",
            f"--proxy {' or '.join(possible)}, or leave it out",
        )
    ]


def proxy_on_cluster(profile: Profile, access: Access) -> list[Problem]:
    """Another mode of the cluster's kube-proxy than was asked for, or than the CNI goes with; []
    where its configuration is not known. Raises ClusterError.
    """
    own = profile.kubernetes.kube_proxy_mode if profile.kubernetes else ""
    wanted = profile.proxy or own
    if wanted not in ("iptables", "nftables", "ipvs"):
        return []
    read = Objects(access)
    seen = read.observe(Fact(object=_CONFIG, at=_MODE, equals=wanted))
    if seen.denied or not read.get(_CONFIG) or (mode := seen.values[0] or _USUAL) == wanted:
        return []
    return [
        Problem(
            profile.name,
            f"kube-proxy in mode {wanted}: the cluster's is in mode {mode}",
            (f"--proxy {mode}, or " if profile.proxy and not own else "choose another profile, or ")
            + f"set the mode in configmap/kube-proxy of kube-system to {wanted} and restart it",
        )
    ]


def proxy_on_this_kernel(profile: Profile) -> list[Problem]:
    """A mode of kube-proxy that this machine's kernel lacks."""
    if profile.proxy == "ipvs" and not kernel.has_ipvs():
        return [
            Problem(
                profile.name,
                "CONFIG_IP_VS (virtual servers of the kernel)",
                "sudo modprobe ip_vs, use a kernel with CONFIG_IP_VS, or another --proxy",
            )
        ]
    if profile.proxy == "nftables" and _lacks(_NFT):
        feature = kernel.FEATURES[_NFT]
        return [
            Problem(
                profile.name,
                f"{feature.option} ({feature.words})",
                "use a kernel that has them, or another --proxy",
            )
        ]
    return []
