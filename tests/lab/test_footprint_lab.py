"""The CNI's own processes during a real stream: where there are some their memory and CPU time,
else that there are none.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from cnibench.clusters.lab.deployment import LabDeployment
from cnibench.collectors.footprint import ALL
from cnibench.model.cell import Cell
from cnibench.registry import provider
from cnibench.run.sample_context import Measurements, SampleContext
from cnibench.run.windows.sample import measure

MakeDeployment = Callable[..., LabDeployment]


def observed(deployment: LabDeployment, raw: Path) -> Measurements:
    work = provider("workloads", "tcp-stream")
    cell = Cell(
        label=deployment.label,
        profile=deployment.label,
        placement="inter",
        workload="tcp-stream",
        params=work.params({}),
    )
    client, server = deployment.pair("inter")
    raw.mkdir()
    return measure(
        SampleContext(cell, 0, deployment, client, server, 2.0, 0.0, raw, None, None),
        work,
        [provider("collectors", "footprint")],
    ).measurements


def test_a_user_space_tunnel_has_a_footprint_and_a_bridge_none(
    make_deployment: MakeDeployment, tmp_path: Path
) -> None:
    deployment = make_deployment("flannel-udp")
    found = observed(deployment, tmp_path / "udp")
    names = set(deployment.processes())
    assert len(names) == 2
    totals = {(ALL, node.name) for node in deployment.nodes()}
    memory = {
        (reading.params["process"], reading.params.get("node", "")): reading.value
        for reading in found.readings
        if reading.metric == "memory"
    }
    assert memory.keys() == {(name, "") for name in names} | totals
    assert all(0 <= value < 1 << 30 for value in memory.values())
    # every packet of the stream passes each of them
    busy = [
        reading.value for reading in found.readings if reading.metric in ("cpu_user", "cpu_system")
    ]
    assert len(busy) == 8
    assert sum(busy) > 0
    told = [record for kind, record in found.records if kind == "footprint"]
    assert {record["process"] for record in told} == names | {ALL}
    assert {(record["node"], record["pods"]) for record in told} == {
        (node.name, sum(1 for pod in deployment.pods() if pod.node is node))
        for node in deployment.nodes()
    }
    assert all(len(record["times"]) == len(record["cpu_user"]) >= 2 for record in told)

    none = observed(make_deployment("bridge-static"), tmp_path / "bridge")
    [record] = [record for kind, record in none.records if kind == "footprint"]
    assert record["process"] == ""
    assert "no process of the CNI" in record["said"]
    assert not any(reading.metric == "memory" for reading in none.readings)
