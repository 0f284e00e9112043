"""Results of kubernetes-traffic-flow-tests as runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cnibench.errors import InputError, UsageError
from cnibench.importers.batch import Batch, Given
from cnibench.importers.writer import write
from cnibench.rundir.reader import RunReader
from tests._import_samples import flow, flows
from tests.unit._imports import GOLDEN, figures, read

REPORT: dict[str, Any] = json.loads((GOLDEN / "iperf3" / "tcp.json").read_text())


def traffic(folder: Path, text: str, placement: str = "") -> Batch:
    file = folder / "ovn.json"
    file.write_text(text)
    return read("traffic-flow-tests", file, Given(placement=placement))


def test_flows(tmp_path: Path) -> None:
    batch = traffic(tmp_path, flows(REPORT))
    local, service, rr, host, failed = batch.results
    rate = REPORT["end"]["sum_received"]["bits_per_second"]
    assert (local.workload, local.placement, local.path) == ("iperf3-tcp", "intra", "pod")
    assert (local.params["reverse"], local.start) == (
        True,
        REPORT["start"]["timestamp"]["timesecs"],
    )
    assert figures(local)["throughput"] == rate
    assert (service.placement, service.path) == ("inter", "clusterip")
    assert "reverse" not in service.params
    assert (rr.workload, rr.params) == ("tcp-rr", {"request": 1, "response": 1})
    assert figures(rr) == {"transaction_rate": 18542.5}
    assert (host.label, host.path, host.fidelity) == ("host", "host", "baseline")
    assert (host.params, figures(host)) == ({"message": 16384}, {"throughput": 9876.5e6})
    assert (failed.workload, failed.figures, failed.reason) == ("iperf3-tcp", (), "it timed out")
    assert batch.notes == [
        "left out: flows that a policy has to block",
        "left out: flows of HTTP, which have no figures",
    ]


@pytest.mark.parametrize(
    ("case", "more", "path", "params"),
    [
        ("POD_TO_NODE_PORT_TO_POD_DIFF_NODE", {}, "nodeport", {}),
        ("POD_TO_CLUSTER_IP_TO_HOST_DIFF_NODE", {}, "pod-to-cluster-ip-to-host", {}),
        ("UDN_PRIMARY_POD_TO_POD_DIFF_NODE", {}, "udn-primary-pod-to-pod", {}),
        ("CUDN_LOCALNET_POD_TO_POD_DIFF_NODE", {}, "cudn-localnet-pod-to-pod", {}),
        (
            "POD_TO_POD_DIFF_NODE",
            {"client": {"name": "a", "pod_type": "SRIOV"}},
            "pod",
            {"client_pod": "sriov"},
        ),
        ("POD_TO_POD_PRIMARY_INTERFACE_MNP_DENY_2ND", {}, None, {}),
    ],
)
def test_networks_of_flows_are_part_of_what_was_measured(
    tmp_path: Path, case: str, more: dict[str, Any], path: str | None, params: dict[str, str]
) -> None:
    text = json.dumps({"tft-tests": [flow(case, "IPERF_TCP", REPORT, **more)]})
    (found,) = traffic(tmp_path, text).results
    assert found.path == (path or case.lower().replace("_", "-"))
    assert found.placement == "inter"
    assert {key: found.params.get(key) for key in params} == params


def test_a_flow_says_where_it_ran_by_its_name_or_its_nodes_or_the_user_does(tmp_path: Path) -> None:
    def placement(case: str, client: str | None, server: str | None, said: str = "") -> str:
        ends = {"client": {"name": client}, "server": {"name": server}}
        text = json.dumps({"tft-tests": [flow(case, "IPERF_TCP", REPORT, **ends)]})
        (found,) = traffic(tmp_path, text, said).results
        return found.placement

    assert placement("POD_TO_POD_SAME_NODE", "a", "b") == "intra"
    assert placement("POD_TO_POD_PRIMARY_INTERFACE", "a", "a") == "intra"
    assert placement("POD_TO_POD_PRIMARY_INTERFACE", "a", "b") == "inter"
    assert placement("POD_TO_POD_PRIMARY_INTERFACE", None, None, "inter") == "inter"
    with pytest.raises(UsageError, match="where its ends ran"):
        placement("POD_TO_POD_PRIMARY_INTERFACE", None, None)


def test_a_flow_that_failed_is_a_failure_of_those_that_did_not(tmp_path: Path) -> None:
    case = "POD_TO_POD_DIFF_NODE"
    tests = [
        flow(case, "IPERF_TCP", REPORT),
        flow(case, "IPERF_TCP", REPORT, reverse=True),
        flow(case, "IPERF_TCP", {}, success=False, msg="it timed out"),
    ]
    batch = traffic(tmp_path, json.dumps({"tft-tests": tests}))
    run = RunReader(write(batch, tmp_path / "runs", "traffic-flow-tests", []))
    assert len(run.plan.cells) == 2
    (failed,) = [line for line in run.samples() if line.status == "failed"]
    assert (failed.block, "reverse" in failed.params) == (1, False)


def test_a_flow_that_was_too_slow_was_measured(tmp_path: Path) -> None:
    slow = {"success": False, "msg": "below the threshold"}
    text = json.dumps(
        {"tft-tests": [flow("POD_TO_POD_DIFF_NODE", "IPERF_TCP", REPORT, eval_result=slow)]}
    )
    assert traffic(tmp_path, text).results[0].figures


@pytest.mark.parametrize("text", ["[]", "{}", '{"tft-tests": [1]}', '{"tft-tests": []}'])
def test_what_is_no_result_of_flow_tests(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError, match=r"ovn\.json"):
        traffic(tmp_path, text)
