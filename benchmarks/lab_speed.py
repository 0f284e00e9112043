"""How fast the lab is: make, attest and remove one profile (within 2 s is wanted), 99 + 99 Pods
(within 3 s), and the deployments of a block (within 1 s), on two cores.

    python benchmarks/lab_speed.py [PROFILE ...] [--rounds 3] [--pods 99]
        [--block flannel,calico-wp-xsub,cilium]

Without a name, all profiles that this kernel can run. Each figure is the median of the rounds; the
profiles come in turn in each round. Needs root. The last column is the ratio of the whole to the 2
s, and of the Pods to the 3 s. The last line is what a run does for each block besides measuring:
deploy these profiles at the same time, attest them, compare them with what they declare after the
measurement, and remove them.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
import time
from collections.abc import Mapping
from contextlib import closing

from cnibench.clusters.lab.cluster import LabCluster
from cnibench.clusters.lab.deployment import LabDeployment
from cnibench.clusters.lab.namespaces import tree
from cnibench.errors import CnibenchError
from cnibench.model.cell import Attestation
from cnibench.model.profile import Profile, builtin
from cnibench.run.workers import Workers
from cnibench.testbed.cluster import Options

_WHOLE, _PODS, _BLOCK = 2.0, 3.0, 1.0  # s


def families(profile: Profile) -> tuple[int, ...]:
    return (4,) if 4 in profile.features.ip else (6,)


def runnable(asked: list[str]) -> dict[str, Profile]:
    """The profiles asked for, or all, without those that this machine cannot make."""
    chosen = {name: profile for name, profile in builtin().items() if not asked or name in asked}
    return {
        name: profile
        for name, profile in chosen.items()
        if not LabCluster(Options(ip=families(profile))).check(profile)
    }


def once(name: str, profile: Profile, number: int, pods: int) -> dict[str, float]:
    """Seconds of each step for one deployment."""
    found: dict[str, float] = {}
    began = time.perf_counter()
    deployment = LabDeployment(name, profile, Options(ip=families(profile)), number)
    try:
        found["make"] = time.perf_counter() - began
        began = time.perf_counter()
        if wrong := [check.check for check in deployment.attest() if not check.passed]:
            raise CnibenchError(f"{name}: {', '.join(wrong)} failed")
        found["attest"] = time.perf_counter() - began
    finally:
        began = time.perf_counter()
        deployment.remove()
    found["remove"] = time.perf_counter() - began
    if profile.features.network_model != "host":
        deployment = LabDeployment(name, profile, Options(ip=families(profile)), number + 1)
        try:
            began = time.perf_counter()
            for node in deployment.nodes():
                deployment.add_pods(node, pods)
            found["pods"] = time.perf_counter() - began
        finally:
            deployment.remove()
    return found


def block(chosen: Mapping[str, Profile], workers: Workers, number: int) -> float:
    """Seconds of all that a run does for the deployments of one block."""

    def deploy(item: tuple[int, str]) -> tuple[LabDeployment, list[Attestation]]:
        at, name = item
        profile = chosen[name]
        made = LabDeployment(name, profile, Options(ip=families(profile)), number + at)
        return made, made.attest()

    began = time.perf_counter()
    deployed = list(workers.each(deploy, enumerate(chosen)))
    deployments = [deployment for deployment, _ in deployed]
    checked = [found for _, found in deployed]
    checked += workers.each(lambda one: one.verify(), deployments)
    list(workers.each(lambda one: one.remove(), deployments))
    took = time.perf_counter() - began
    if wrong := [check.check for checks in checked for check in checks if not check.passed]:
        raise CnibenchError(", ".join(wrong))
    return took


def show(took: Mapping[str, list[dict[str, float]]], pods: int) -> None:
    head = "".join(f" {step:>6}" for step in ("make", "attest", "remove", "all", f"/{_WHOLE:g} s"))
    print(f"{'profile':22}{head}   {f'{pods}+{pods} Pods':>12} {f'/{_PODS:g} s':>6}")
    for name, rounds in took.items():
        make, attest, remove = (
            statistics.median(one[step] for one in rounds) for step in ("make", "attest", "remove")
        )
        whole = statistics.median(one["make"] + one["attest"] + one["remove"] for one in rounds)
        line = (
            f"{name:22} {make:6.2f} {attest:6.2f} {remove:6.2f} {whole:6.2f} {whole / _WHOLE:6.2f}"
        )
        if "pods" in rounds[0]:
            made = statistics.median(one["pods"] for one in rounds)
            line += f"   {made:12.2f} {made / _PODS:6.2f}"
        print(line)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("profile", nargs="*")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pods", type=int, default=99)
    parser.add_argument("--block", default="flannel,calico-wp-xsub,cilium", metavar="PROFILE,...")
    asked = parser.parse_args()
    chosen = runnable(asked.profile)
    print(
        f"kernel {platform.release()}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f} (1"
        f" min), median of {asked.rounds}, seconds"
    )
    took: dict[str, list[dict[str, float]]] = {name: [] for name in chosen}
    number = 1
    for _ in range(asked.rounds):
        for name, profile in chosen.items():
            took[name].append(once(name, profile, number, asked.pods))
            number += 2
    show(took, asked.pods)
    several = runnable(asked.block.split(","))
    with closing(Workers(LabCluster.concurrent)) as workers:
        seconds = [block(several, workers, number + n * len(several)) for n in range(asked.rounds)]
    whole = statistics.median(seconds)
    print(f"a block of {', '.join(several)}: {whole:.2f} s, {whole / _BLOCK:.2f} of {_BLOCK:g} s")
    return 0


if __name__ == "__main__":
    sys.exit(tree.carry(main))
