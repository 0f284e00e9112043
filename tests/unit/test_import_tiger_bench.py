"""tiger-bench's results as runs."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from cnibench.errors import InputError
from cnibench.importers.batch import Batch, Given
from cnibench.importers.writer import write
from cnibench.rundir.reader import RunReader
from tests._import_samples import TIGER_BENCH, TIGER_CONFIG
from tests.unit._imports import UNSAID, figures, read

STANDING = {"policies": 5, "idle_policies": 3, "services": 10, "pods": 7}


def tiger(folder: Path, tests: list[dict[str, Any]], said: Given = UNSAID) -> Batch:
    file = folder / "calico.json"
    file.write_text(json.dumps(tests))
    return read("tiger-bench", file, said)


def test_tiger_bench_results(tmp_path: Path) -> None:
    batch = tiger(tmp_path, TIGER_BENCH)
    assert [(one.workload, one.placement, one.path, figures(one)) for one in batch.results] == [
        ("qperf-tcp-bw", "inter", "pod", {"throughput": 21600e6}),
        ("qperf-tcp-lat", "inter", "pod", {"latency_mean": pytest.approx(15.5e-6)}),
        ("qperf-tcp-bw", "inter", "clusterip", {"throughput": 20200e6}),
        ("qperf-tcp-lat", "inter", "clusterip", {"latency_mean": pytest.approx(16.5e-6)}),
        ("iperf3-tcp", "inter", "pod", {"throughput": 91701.5e6, "retransmits": 12}),
        ("iperf3-tcp", "inter", "clusterip", {"throughput": 89655.5e6, "retransmits": 0}),
        (
            "ttfr",
            "intra",
            "pod",
            {
                "latency_mean": 0.00075,
                "latency_p50": 0.0007,
                "latency_p90": 0.0009,
                "latency_p99": 0.0012,
            },
        ),
    ]
    assert [one.params for one in batch.results[2:]] == [
        STANDING,
        {**STANDING, "latency": "one-way"},
        {**STANDING, "streams": 8},
        {**STANDING, "streams": 8},
        {**STANDING, "pods_per_node": 53, "pod_rate": 2.5},
    ]
    assert {(one.label, one.ip, one.duration) for one in batch.results} == {("calico", 4, 10.0)}
    assert batch.not_run == [
        ("calico", "thruput-latency ext-svc-pod"),
        ("calico", "iperf ext-svc-pod"),
    ]
    assert (batch.facts["kernel"], batch.facts["kubernetes"]) == ("6.8.0-71-generic", "v1.32.0")
    run = RunReader(write(batch, tmp_path / "runs", "tiger-bench", []))
    assert {line.status for line in run.samples()} == {"ok"}
    assert any(note.startswith("not run: calico: thruput-latency") for note in run.plan.notes)


def test_tiger_bench_what_was_asked_for_and_is_not_there_failed(tmp_path: Path) -> None:
    tests = deepcopy(TIGER_BENCH[:2])
    tests[0]["config"]["Perf"] = {"Direct": True, "Service": True, "External": True}
    del tests[1]["iperf"]
    tests[1] |= {"status": "failed", "error": "failed to deploy iperf pods: timeout"}
    batch = tiger(tmp_path, tests)
    failed = [(one.workload, one.path, one.reason) for one in batch.results if not one.figures]
    assert failed == [
        ("qperf-tcp-bw", "external", "the file has no result of it"),
        ("qperf-tcp-lat", "external", "the file has no result of it"),
        ("iperf3-tcp", "pod", "failed to deploy iperf pods: timeout"),
        ("iperf3-tcp", "clusterip", "failed to deploy iperf pods: timeout"),
    ]
    assert batch.not_run == [("calico", "iperf ext-svc-pod")]


def test_tiger_bench_says_how_many_iterations_have_a_result(tmp_path: Path) -> None:
    test = deepcopy(TIGER_BENCH[0])
    test["config"]["Iterations"] = 3
    test["thruput-latency"]["Throughput"]["pod-pod"]["datapoints"] = 3
    batch = tiger(tmp_path, [test])
    assert [note for note in batch.notes if " of 3 " in note] == [
        "calico: thruput-latency pod-svc-pod: 1 of 3 iterations have a result"
    ]


def test_tiger_bench_without_iterations_nothing_was_run(tmp_path: Path) -> None:
    test = {"config": {**TIGER_CONFIG, "Iterations": 0}, "status": "success"}
    batch = tiger(tmp_path, [test, TIGER_BENCH[2]])
    assert batch.not_run == [("calico", "thruput-latency")]
    assert all(one.figures for one in batch.results)


def test_tiger_bench_that_reconfigured_the_cluster_measured_two_systems(tmp_path: Path) -> None:
    other = deepcopy(TIGER_BENCH[0])
    other["ClusterDetails"] |= {"Dataplane": "bpf", "Encapsulation": "None"}
    batch = tiger(tmp_path, [TIGER_BENCH[0], other])
    assert {one.label for one in batch.results} == {
        "calico calico-iptables-vxlancrosssubnet",
        "calico calico-bpf-none",
    }


def test_tiger_bench_in_the_network_of_the_hosts(tmp_path: Path) -> None:
    host = deepcopy(TIGER_BENCH[0])
    host["config"]["HostNetwork"] = True
    batch = tiger(tmp_path, [host])
    assert {(one.label, one.path, one.fidelity) for one in batch.results} == {
        ("host", "host", "baseline"),
        ("host", "clusterip", "baseline"),
    }
    named = tiger(tmp_path, [host], Given(label="calico")).results
    assert {one.label for one in named} == {"calico"}


def test_tiger_bench_a_unit_that_is_unknown_is_no_figure(tmp_path: Path) -> None:
    other = deepcopy(TIGER_BENCH[0])
    other["thruput-latency"]["Throughput"]["pod-pod"]["unit"] = "MB/sec"
    failed = [one for one in tiger(tmp_path, [other]).results if not one.figures]
    assert [one.reason for one in failed] == ["the unit of throughput is 'MB/sec'"]


@pytest.mark.parametrize("text", ["{}", "[]", "[1]", '[{"config": {}}]'])
def test_what_is_no_result_of_tiger_bench(tmp_path: Path, text: str) -> None:
    file = tmp_path / "calico.json"
    file.write_text(text)
    with pytest.raises(InputError, match=r"calico\.json"):
        read("tiger-bench", file, Given())
