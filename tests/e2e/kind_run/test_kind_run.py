"""Runs on kind and on an existing cluster as a user types them: installed, attested, measured, and
nothing else changed.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from _kind_runs import (
    CNIBENCH,
    IN_SLICES,
    ONE_CELL,
    SHORT,
    cnibench,
    engine,
    kubectl,
    lines,
    namespaces_of_runs,
    output,
    run_of,
)

from cnibench.clusters.kubernetes.nodes.pids_limit import limit_of

pytestmark = pytest.mark.timeout(900)

KINDS = "namespaces,daemonsets,deployments,services,configmaps,secrets,networkpolicies,clusterroles,clusterrolebindings,crds,serviceaccounts"  # noqa: E501


def objects(kept: Mapping[str, Any]) -> set[tuple[str, ...]]:
    items = json.loads(kubectl(kept, "get", KINDS, "-A", "-o", "json"))["items"]
    return {
        (
            item["kind"],
            item["metadata"].get("namespace", ""),
            item["metadata"]["name"],
            json.dumps(item.get("spec", "")),
        )
        for item in items
    }


def test_a_profile_is_installed_attested_and_measured_and_kept(kept: Mapping[str, Any]) -> None:
    folder = kept["folder"]
    samples = lines(folder, "samples")
    assert {(line["placement"], line["window"], line["status"]) for line in samples} == {
        (placement, window, "ok") for placement in ("intra", "inter") for window in ("speed", "cpp")
    }
    assert {(line["testbed"], line["wire"], line["fidelity"]) for line in samples} == {
        ("kind", "veth", "cni")
    }
    found = {line["metric"] for line in samples}
    assert {
        "transaction_rate",
        "latency_mean",
        "packets",
        "cpu_system",
        "cycles_per_packet",
        "memory",
    } <= found
    others = {line["window"]: line["others"] for line in lines(folder, "stalls")}
    assert others["speed"] is not None
    assert others["cpp"] is None  # perf itself runs on the nodes
    inter = next(line for line in lines(folder, "cpp") if line["placement"] == "inter")
    assert inter["components"].get("vxlan", 0) > 0, inter["components"]
    assert {line["at"] for line in lines(folder, "sizes") if line["placement"] == "inter"} == {
        "pod",
        "tunnel",
        "wire",
    }
    attested = lines(folder, "attestations")
    assert {"encapsulation", "mtu", "reach-inter"} <= {line["check"] for line in attested}
    assert all(line["passed"] for line in attested)
    told = "".join(
        path.read_text(errors="replace")
        for path in run_of(folder).rglob("*")
        if path.suffix in (".json", ".jsonl", ".txt", ".md")
    )
    assert not re.search(r"client-key-data|PRIVATE KEY|LS0tLS1CRUdJTi", told)


def test_a_node_has_room_for_the_background_pods_of_the_studies(kept: Mapping[str, Any]) -> None:
    """99 Pods, whose runtime takes some 2000 threads: more than podman gives a container."""
    nodes = kubectl(kept, "get", "nodes", "-o", "jsonpath={.items[*].metadata.name}").split()
    assert kubectl(
        kept, "get", "nodes", "-o", "jsonpath={.items[*].status.allocatable.pods}"
    ).split() == ["250"] * len(nodes)
    for line in output(
        "podman", "inspect", "--format", "{{.Id}} {{.State.Pid}}", *nodes
    ).splitlines():
        container, pid = line.split()
        file = limit_of(Path(f"/proc/{pid}/cgroup").read_text(), container)
        assert file is not None
        assert file.read_text().strip() == "max"


def test_the_only_control_plane_elects_no_leader(kept: Mapping[str, Any]) -> None:
    leases = kubectl(kept, "get", "leases", "-n", "kube-system", "-o", "name")
    assert "lease.coordination.k8s.io/apiserver-" in leases
    assert "kube-controller-manager" not in leases
    assert "kube-scheduler" not in leases


def test_what_is_there_is_measured_by_every_path_and_nothing_else_is_touched(
    kept: Mapping[str, Any], existing: list[str], tmp_path: Path
) -> None:
    before = objects(kept)
    paths = ("pod", "clusterip", "nodeport", "host", "pod-to-host")
    run = ["run", *existing, "--cni", "current", *ONE_CELL, "--path", ",".join(paths)]
    done = cnibench(*run, *IN_SLICES, cwd=tmp_path)
    assert "nothing outside our own namespace is changed" in done.stderr
    assert {
        (line["path"], line["status"], line["profile"]) for line in lines(tmp_path, "samples")
    } == {(p, "ok", "flannel") for p in paths}
    assert all(line["passed"] for line in lines(tmp_path, "attestations"))
    assert objects(kept) == before


@contextmanager
def spinning(node: str) -> Iterator[None]:
    """A program of somebody else's runs on a node as long as the block lasts."""
    loop = ["podman", "exec", node, "sh", "-c", "echo $$; while :; do :; done"]
    with subprocess.Popen(loop, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        pid = program.stdout.readline().strip()
        try:
            yield
        finally:
            engine("podman", "exec", node, "kill", "-KILL", pid)


@pytest.mark.parametrize("how", [("--method", "windows", *SHORT), IN_SLICES])
def test_what_else_a_node_does_is_warned_of_and_stands_beside_the_figures(
    kept: Mapping[str, Any], existing: list[str], tmp_path: Path, how: tuple[str, ...]
) -> None:
    """Both nodes are this machine, and count once."""
    run = ["run", *existing, "--cni", "current", *ONE_CELL, *how]
    with spinning(f"{kept['name']}-worker"):
        done = cnibench(*run, cwd=tmp_path)
    assert "warning: the nodes are busy: other programs use" in done.stderr
    (stalls,) = lines(tmp_path, "stalls")
    (load,) = stalls["node_load"]
    assert (load["node"], load["cpus"]) == ("a+b", os.cpu_count())
    assert stalls["others"] == load["others"] > 0.1 * load["cpus"]
    (before,) = json.loads((run_of(tmp_path) / "env.json").read_text())["node_load"]
    assert before["others"] > 0.1 * before["cpus"]
    report = " ".join((run_of(tmp_path) / "report.md").read_text().split())
    assert "CPUs of nodes a and b (one machine) before it started and at least" in report
    assert "used by other programs, median share of all CPUs, at least: current " in report


def test_two_runs_at_the_same_time_do_not_meet(
    kept: Mapping[str, Any], existing: list[str], tmp_path: Path
) -> None:
    started = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        argv = [
            CNIBENCH,
            "run",
            *existing,
            "--cni",
            "current",
            *ONE_CELL,
            *SHORT,
            "--duration",
            "8s",  # both begin at the same time, on the same CPUs
        ]
        started.append(
            subprocess.Popen(
                argv,
                cwd=tmp_path / name,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    told = [process.communicate(timeout=300)[1] for process in started]
    assert [process.returncode for process in started] == [0, 0], told
    assert not namespaces_of_runs(kept)
