"""Runs in the VM: a second tenant's container with an address that is taken is refused by the kernel's ILA routes, a missing route is seen.

    python _vm_tenants.py

Prints what it found as one line of JSON.
"""

from __future__ import annotations

import json

from cnibench.cluster import Options
from cnibench.clusters.lab import probe, tree
from cnibench.clusters.lab.netns import Namespace
from cnibench.clusters.lab.places import LabPod
from cnibench.clusters.lab.stand import Stand
from cnibench.errors import ClusterError
from cnibench.profile import builtin


def _main() -> int:
    stand = Stand("ila", builtin()["ila"], Options(ip=(6,)), 1)
    client, server = stand.pair("inter")
    second = LabPod("second", Namespace("second"), stand.b, server.number, "bench", (6,))
    try:
        list(stand.datapath.connect(second))
        refused, remedy = "", ""
    except ClusterError as error:
        refused, remedy = error.message, error.remedy
    first = probe.stream(client.ns, server.ns, server.addresses[6], 6, 100_000)
    near, far = stand.add_pods(stand.a, 3), stand.add_pods(stand.b, 3)
    more = [
        probe.stream(one.ns, other.ns, other.addresses[6], 6, 1000)  # type: ignore[attr-defined]
        for one, other in ((near[0], near[-1]), (near[-1], far[-1]), (far[0], near[1]))
    ]
    stand.datapath.disconnect(server)
    missed = sorted({item.check for item in stand.attest() if not item.passed})
    stand.remove()
    said = {"address": server.addresses[6], "refused": refused, "remedy": remedy, "first": first, "more": more, "missed": missed}
    print(json.dumps(said), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(tree.carry(_main))
