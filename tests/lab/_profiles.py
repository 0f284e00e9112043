"""Variants of profiles, which of them this kernel can run, and traffic between their Pods, for the
tests of datapaths.
"""

from __future__ import annotations

import time

from cnibench.clusters.lab import kernel
from cnibench.clusters.lab.builders.base import builder_of
from cnibench.clusters.lab.namespaces.places import LabPod
from cnibench.model.profile import Profile, builtin


def with_options(name: str, **options: object) -> Profile:
    plain = builtin()[name]
    assert plain.datapath is not None
    return plain.model_copy(
        update={
            "datapath": plain.datapath.model_copy(
                update={"options": {**plain.datapath.options, **options}}
            )
        }
    )


def lacking(name: str) -> list[str]:
    """What a profile needs of the kernel and is not there."""
    profile = builtin()[name]
    assert profile.datapath is not None
    needs = (*builder_of(profile)[0].needs, *profile.datapath.needs)
    present = kernel.found(needs)
    return sorted({need for need in needs if not present.get(need, False)})


def buildable() -> list[str]:
    """The profiles with a model that this kernel can run, sorted."""
    models = (name for name, profile in builtin().items() if profile.datapath is not None)
    return sorted(name for name in models if not lacking(name))


def transactions(client: LabPod, server: LabPod, target: str) -> float:
    """Transactions per second of a short netperf TCP_RR."""
    flag = "-6" if ":" in target else "-4"
    with server.spawn(["netserver", "-D", flag, "-L", target]):
        deadline = time.monotonic() + 20
        while ":3241 " not in server.read_text("/proc/net/tcp") + server.read_text(
            "/proc/net/tcp6"
        ):  # port 12865
            assert time.monotonic() < deadline
        argv = [
            "netperf",
            flag,
            "-H",
            target,
            "-t",
            "TCP_RR",
            "-l",
            "-100",
            "--",
            "-o",
            "THROUGHPUT",
        ]
        return float(client.run(argv, timeout=30).stdout.splitlines()[-1])
