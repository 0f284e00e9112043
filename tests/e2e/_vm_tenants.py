"""Runs in the VM: a second tenant's container with an address that is taken is refused by the
kernel's ILA routes, a missing route is seen.

    python _vm_tenants.py

Prints what it found as one line of JSON.
"""

from __future__ import annotations

import json
from pathlib import Path

from cnibench.clusters.lab.attestation import probe
from cnibench.clusters.lab.deployment import LabDeployment
from cnibench.clusters.lab.namespaces import tree
from cnibench.clusters.lab.namespaces.netns import Namespace
from cnibench.clusters.lab.namespaces.places import LabPod
from cnibench.errors import ClusterError
from cnibench.model.profile import builtin
from cnibench.testbed.cluster import Options


def _processes() -> int:
    """How many processes and threads the guest has started so far."""
    lines = dict(line.split(" ", 1) for line in Path("/proc/stat").read_text().splitlines())
    return int(lines["processes"])


def _main() -> int:
    deployment = LabDeployment("ila", builtin()["ila"], Options(ip=(6,)), 1)
    client, server = deployment.pair("inter")
    deployment.verify()  # makes the reference
    before = _processes()
    deployment.verify()
    processes = _processes() - before
    second = LabPod("second", Namespace("second"), deployment.b, server.number, "bench", (6,))
    try:
        list(deployment.datapath.connect(second))
        refused, remedy = "", ""
    except ClusterError as error:
        refused, remedy = error.message, error.remedy
    first = probe.stream(client.ns, server.ns, server.addresses[6], 6, 100_000)
    near, far = deployment.add_pods(deployment.a, 3), deployment.add_pods(deployment.b, 3)
    more = [
        probe.stream(one.ns, other.ns, other.addresses[6], 6, 1000)  # type: ignore[attr-defined]
        for one, other in ((near[0], near[-1]), (near[-1], far[-1]), (far[0], near[1]))
    ]
    deployment.datapath.disconnect(server)
    missed = sorted({item.check for item in deployment.attest() if not item.passed})
    deployment.remove()
    said = {
        "processes": processes,
        "address": server.addresses[6],
        "refused": refused,
        "remedy": remedy,
        "first": first,
        "more": more,
        "missed": missed,
    }
    print(json.dumps(said), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(tree.carry(_main))
