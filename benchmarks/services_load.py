"""How fast each implementation loads Services into a deployment of the lab. The goal: 10,000
within 10 s by iptables and within 2 s by eBPF, on two cores.

    python benchmarks/services_load.py [--proxy iptables,nftables,ebpf] [--count 10000] [--rounds 3]

Per implementation, for both nodes together: writing the Services beside the cluster's own, reading
them back, and taking them away; after each wall time the CPU time of all that took part, the
kernel's included, which other load on the machine changes little. The last column is the ratio of
the writing to what is wanted. Each figure is the median of the rounds; the implementations come in
turn in each round. Needs root.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
import time

from cnibench.clusters.lab.cluster import LabCluster
from cnibench.clusters.lab.deployment import LabDeployment
from cnibench.clusters.lab.namespaces import tree
from cnibench.clusters.lab.rules.services import many
from cnibench.model.profile import Profile, builtin
from cnibench.testbed.cluster import Options

_WANTED = {"iptables": 10.0, "ebpf": 2.0}  # s for 10,000
_STEPS = ("write", "read", "remove")


def once(profile: Profile, number: int, count: int) -> dict[str, float]:
    """Seconds of each step for one deployment, and of CPU time under its name with ``cpu``."""
    deployment = LabDeployment(profile.proxy, profile, Options(), number)
    services = deployment.services
    steps = (
        ("write", lambda: services.replace({4: many(4, count, 1)})),
        ("read", services.check),
        ("remove", lambda: services.replace({})),
    )
    found: dict[str, float] = {}
    try:
        for name, step in steps:
            began, before = time.perf_counter(), sum(os.times()[:4])
            step()
            found[name] = time.perf_counter() - began
            found[f"{name} cpu"] = sum(os.times()[:4]) - before
        services.check()
    finally:
        deployment.remove()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--proxy", default="iptables,nftables,ebpf")
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    flannel = builtin()["flannel"]
    chosen = [flannel.model_copy(update={"proxy": name}) for name in args.proxy.split(",")]
    for profile in chosen:
        for problem in LabCluster(Options()).check(profile):
            sys.exit(f"{profile.proxy}: {problem.lacks}: {problem.remedy}")
    print(
        f"kernel {platform.release()}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.2f},"
        f" {args.count} Services of one endpoint, {args.rounds} rounds"
    )
    times: dict[str, list[dict[str, float]]] = {profile.proxy: [] for profile in chosen}
    for number in range(args.rounds):
        for each, profile in enumerate(chosen):
            times[profile.proxy].append(once(profile, 10 * number + each + 1, args.count))
    print(f"{'':10}" + "".join(f"{name:>10}{'CPU':>9}" for name in _STEPS) + "  write / wanted")
    for name, rounds in times.items():
        middle = {key: statistics.median(one[key] for one in rounds) for key in rounds[0]}
        figures = "".join(f"{middle[step]:9.2f}s{middle[f'{step} cpu']:8.2f}s" for step in _STEPS)
        wanted = _WANTED.get(name)
        ratio = f"{middle['write'] / wanted:.2f}" if wanted and args.count == 10_000 else "-"
        print(f"{name:10}{figures}  {ratio}")
    return 0


if __name__ == "__main__":
    sys.exit(tree.carry(main))
