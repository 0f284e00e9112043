"""How often the attestation refutes a clean deployment, and how long it takes: every profile that
this machine can build, deployed again each time.

    sudo python benchmarks/false_alarms.py [DEPLOYMENTS [PROFILE...]]
"""

from __future__ import annotations

import statistics
import sys
import time

from cnibench.clusters.lab import kernel
from cnibench.clusters.lab.builders.base import builder_of
from cnibench.clusters.lab.deployment import LabDeployment
from cnibench.clusters.lab.namespaces import tree
from cnibench.model.profile import Profile, builtin
from cnibench.testbed.cluster import Options

_DEPLOYMENTS = 20


def main() -> int:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else _DEPLOYMENTS
    alarms = total = 0
    print(f"{'profile':22} {'deployments':>11} {'alarms':>6} {'full s':>7} {'fast s':>7}")
    for name, profile in sorted(builtin().items()):
        if (
            profile.datapath is None
            or not _buildable(profile)
            or name not in (sys.argv[2:] or name)
        ):
            continue
        full, fast, wrong = [], [], 0
        for number in range(rounds):
            options = Options(ip=(4,) if 4 in profile.features.ip else (6,))
            deployment = LabDeployment(name, profile, options, number + 1)
            try:
                began = time.perf_counter()
                found = deployment.attest()
                middle = time.perf_counter()
                found += deployment.verify()
                full.append(middle - began)
                fast.append(time.perf_counter() - middle)
            finally:
                deployment.remove()
            refuted = [item for item in found if not item.passed]
            wrong += bool(refuted)
            for item in refuted:
                print(f"  {item.check}: expected {item.expected}; observed {item.observed}")
        alarms, total = alarms + wrong, total + rounds
        times = f"{statistics.median(full):7.3f} {statistics.median(fast):7.3f}"
        print(f"{name:22} {rounds:11} {wrong:6} {times}", flush=True)
    print(f"{alarms} of {total} clean deployments were refuted")
    return 1 if alarms else 0


def _buildable(profile: Profile) -> bool:
    builder, _ = builder_of(profile)
    assert profile.datapath is not None
    needs = (*builder.needs, *profile.datapath.needs)
    return all(kernel.found(needs).get(need, False) for need in needs)


if __name__ == "__main__":
    sys.exit(tree.carry(main))
