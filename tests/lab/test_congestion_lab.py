"""The congestion control that was asked for is what every workload's connection has, also where
the machine does not allow namespaces to choose it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cnibench.clusters.lab.deployment import LabDeployment
from cnibench.clusters.lab.namespaces import congestion, netlink
from cnibench.clusters.lab.namespaces.places import LabPod
from cnibench.errors import ClusterError, MeasureError
from cnibench.model.coordinates import UNREAD
from cnibench.registry import provider
from cnibench.run.slices.generator import Generator
from cnibench.run.slices.method import check_congestion_control
from cnibench.run.windows.sample import measure
from tests.lab._samples import context

MakeDeployment = Callable[..., LabDeployment]
WORKLOADS = ("tcp-rr", "tcp-stream", "tcp-crr", "iperf3-tcp", "http")
# One that this machine allows namespaces, and one that it may not.
ALGORITHMS = sorted({"cubic", "reno"} & congestion.available())


def _measured(deployment: LabDeployment, raw: Path, asked: str, workload: str, **more: Any) -> str:
    """A busy machine may not see the connection of a short window: a longer one follows then."""
    found = UNREAD
    for seconds in (1.0, 3.0):
        given = context(deployment, workload, raw / f"{seconds:g}", duration=seconds, **more)
        s = replace(given, congestion_control=asked)
        found = measure(s, provider("workloads", workload), []).congestion_control
        if found != UNREAD:
            break
    return found


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_workload_has_it(
    make_deployment: MakeDeployment, tmp_path: Path, algorithm: str
) -> None:
    deployment = make_deployment("flannel", congestion_control=algorithm)
    for workload in WORKLOADS:
        found = _measured(deployment, tmp_path / workload, algorithm, workload)
        assert found == algorithm, workload
    assert _measured(deployment, tmp_path / "udp", algorithm, "udp-stream") == "none"


@pytest.mark.parametrize(
    ("profile", "placement"),
    [
        ("host", "intra"),
        ("host", "inter"),
        ("cilium", "inter"),
        ("calico-wp-xsub", "intra"),
        ("veth-baseline", "inter"),
    ],
)
def test_every_way_out_of_a_pod_has_it(
    make_deployment: MakeDeployment, tmp_path: Path, profile: str, placement: Any
) -> None:
    deployment = make_deployment(profile, ip=(4, 6))
    deployment.reset_state()
    found = {
        ip: _measured(deployment, tmp_path / str(ip), "cubic", "tcp-rr", placement=placement, ip=ip)
        for ip in deployment.families
    }
    assert found == {4: "cubic", 6: "cubic"}


def test_routes_stay_what_they_were(make_deployment: MakeDeployment) -> None:
    """But for the metric that names it, which is set at most once."""
    pod, _ = make_deployment("calico-wp-xsub").pair("inter")
    before = list(netlink.routes(pod.ns))
    congestion.use(pod.ns, "cubic")
    assert list(netlink.routes(pod.ns)) == before


def test_a_connection_with_another_one_is_no_sample(
    make_deployment: MakeDeployment, tmp_path: Path
) -> None:
    deployment = make_deployment("flannel", congestion_control="reno")
    with pytest.raises(MeasureError, match="has the congestion control reno, and cubic was asked"):
        _measured(deployment, tmp_path, "cubic", "tcp-rr")


@pytest.mark.parametrize("workload", ["http", "tcp-rr", "iperf3-tcp"])
def test_in_slices_the_end_of_the_server_counts_as_well(
    make_deployment: MakeDeployment, tmp_path: Path, workload: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server of HTTP is the sender, and what the client has says nothing of it. Its routes name
    reno, whatever the machine allows its namespace.
    """
    monkeypatch.setattr(congestion, "_prefer", lambda ns, algorithm: False)
    params = {"payload": 1024, "concurrency": 4} if workload == "http" else {}
    deployment = make_deployment("veth-baseline", congestion_control="cubic")
    cpu = max(os.sched_getaffinity(0))
    for found in ("cubic", "cubic,reno"):
        given = context(deployment, workload, tmp_path / found, cpu=cpu, **params)
        s = replace(given, congestion_control="cubic")
        if found != "cubic":
            pod = s.server
            assert isinstance(pod, LabPod)
            congestion.use(pod.ns, "reno")
        with Generator(s, provider("workloads", workload).load(s.cell)) as generator:
            assert generator.congestion_control == found
            if found == "cubic":
                check_congestion_control(generator)
                continue
            with pytest.raises(MeasureError, match=f"{found}, and cubic was asked for"):
                check_congestion_control(generator)


def test_one_that_the_kernel_lacks_is_refused(make_deployment: MakeDeployment) -> None:
    with pytest.raises(ClusterError, match="congestion control nosuch") as error:
        make_deployment("flannel", congestion_control="nosuch")
    assert "modprobe tcp_nosuch" in error.value.remedy
