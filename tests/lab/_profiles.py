"""Variants of profiles, and traffic between their Pods, for the tests of datapaths."""

from __future__ import annotations

import time

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
