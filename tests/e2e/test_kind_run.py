"""Real CNIs on real Kubernetes: installed, attested, measured and removed by the commands as typed;
and what is refused or goes wrong.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from kind.parts import Parts

from cnibench.clusters.kubernetes.nodes.pids_limit import limit_of

sys.path.insert(0, str(Path(__file__).parent))

from _kind_runs import (
    CNIBENCH,
    SHORT,
    clusters,
    cnibench,
    images_built,
    lines,
    output,
    run_of,
    until,
)

pytestmark = pytest.mark.timeout(900)
GOLDEN = Path(__file__).parent.parent / "golden" / "kubernetes_errors"
KINDS = "namespaces,daemonsets,deployments,services,configmaps,secrets,networkpolicies,clusterroles,clusterrolebindings,crds,serviceaccounts"  # noqa: E501
DENY = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: no-privileged}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
  validations:
  - expression: "!object.spec.containers.exists(c, c.?securityContext.privileged.orValue(false))"
    message: privileged Pods are not allowed here
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: no-privileged}
spec: {policyName: no-privileged, validationActions: [Deny]}
"""  # noqa: E501
PRIVILEGED = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "x"},
    "spec": {"containers": [{"name": "x", "image": "x", "securityContext": {"privileged": True}}]},
}


@pytest.fixture(scope="module")
def home(kind_parts: Parts, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """State of our own, and our images in the engine."""
    folder = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        patch.setenv("CNIBENCH_KIND_IMAGE", kind_parts.node_image)
        images_built(kind_parts.base)
        yield folder


@pytest.fixture(scope="module")
def flannel(kind_parts: Parts) -> list[str]:
    """What installs flannel where nothing can be fetched."""
    return [
        "--image-archive",
        str(kind_parts.flannel),
        "--set",
        f"chart={kind_parts.charts['flannel']}",
    ]


@pytest.fixture(scope="module")
def kept(
    home: Path, flannel: list[str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mapping[str, Any]]:
    """A whole run with --keep, and the cluster that it left: the folder it ran in, its kubeconfig,
    its name.
    """
    folder = tmp_path_factory.mktemp("kept")
    done = cnibench(
        "run",
        "--cluster",
        "kind",
        "--cni",
        "flannel",
        "--workload",
        "tcp-rr",
        "--keep",
        *SHORT,
        *flannel,
        cwd=folder,
    )
    match = re.search(r"kept: KUBECONFIG=(\S+)", done.stderr)
    assert match, done.stderr
    name = Path(match[1]).parent.name
    ask = (
        "kubectl",
        "--kubeconfig",
        match[1],
        "get",
        "pod",
        "a0",
        "-n",
        name,
        "-o",
        "jsonpath={.spec.containers[0].image}",
    )
    image = output(*ask)
    # As a cluster like any other it has a namespace that no run owns, and a CNI of its own.
    assert f"the namespace {name}" in output(
        CNIBENCH, "clean", "--cluster", "existing", "--kubeconfig", match[1]
    )
    yield {"folder": folder, "kubeconfig": match[1], "name": name, "image": image}
    assert f"the kind cluster {name}" in output(CNIBENCH, "clean", "--cluster", "kind")
    assert name not in clusters()  # others on this machine may have clusters of their own
    assert not list((home / "state" / "cnibench" / "clusters").iterdir())


@pytest.fixture
def existing(kept: Mapping[str, Any]) -> list[str]:
    return ["--cluster", "existing", "--kubeconfig", kept["kubeconfig"], "--toleration", "all"]


def kubectl(kept: Mapping[str, Any], *words: str, given: str = "") -> str:
    return output("kubectl", "--kubeconfig", kept["kubeconfig"], *words, given=given)


def long_run(existing: list[str], duration: str) -> list[str]:
    """One cell between the nodes that is still measured when something happens to it."""
    cell = ["--cni", "current", "--placement", "inter", "--workload", "tcp-rr", "--no-perf"]
    return [CNIBENCH, "run", *existing, *cell, "--duration", duration]


def ours(kept: Mapping[str, Any]) -> set[str]:
    """Namespaces of runs on the kept cluster as an existing one."""
    names = kubectl(
        kept, "get", "ns", "-l", "app.kubernetes.io/managed-by=cnibench", "-o", "name"
    ).split()
    return {name.removeprefix("namespace/") for name in names}


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


def test_what_is_there_is_measured_by_every_path_and_nothing_else_is_touched(
    kept: Mapping[str, Any], existing: list[str], tmp_path: Path
) -> None:
    before = objects(kept)
    paths = ("pod", "clusterip", "nodeport", "host", "pod-to-host")
    run = [
        "run",
        *existing,
        "--cni",
        "current",
        "--placement",
        "inter",
        "--workload",
        "tcp-rr",
        "--no-perf",
        "--path",
        ",".join(paths),
    ]
    done = cnibench(*run, *SHORT, cwd=tmp_path)
    assert "nothing outside our own namespace is changed" in done.stderr
    assert {
        (line["path"], line["status"], line["profile"]) for line in lines(tmp_path, "samples")
    } == {(p, "ok", "flannel") for p in paths}
    assert all(line["passed"] for line in lines(tmp_path, "attestations"))
    assert objects(kept) == before


def test_what_would_touch_others_is_refused(
    kept: Mapping[str, Any], existing: list[str], tmp_path: Path
) -> None:
    context = f"kind-{kept['name']}"

    def refused(golden: str, *words: str) -> None:
        said = cnibench(
            "run", *existing, *words, "--workload", "tcp-rr", *SHORT, cwd=tmp_path, status=2
        ).stderr
        assert (
            said.replace(context, "CONTEXT").replace(kept["name"], "NAME")
            == (GOLDEN / f"{golden}.txt").read_text()
        ), golden

    refused("has-a-cni", "--cni", "bridge-static", "--allow-install")
    refused("other-context", "--cni", "bridge-static", "--allow-replace", "production")
    kubectl(
        kept,
        "run",
        "shop",
        "--image",
        kept["image"],
        "--image-pull-policy",
        "IfNotPresent",
        "--command",
        "--",
        "sleep",
        "1000",
    )
    try:
        until(lambda: "Running" in kubectl(kept, "get", "pod", "shop"))
        refused("load-beside-others", "--cni", "current")
        refused(
            "replace-under-others",
            "--cni",
            "bridge-static",
            "--allow-load",
            "--allow-replace",
            context,
        )
        cnibench(
            "run",
            *existing,
            "--cni",
            "current",
            "--workload",
            "tcp-rr",
            "--allow-load",
            "--dry-run",
            *SHORT,
            cwd=tmp_path,
        )
    finally:
        kubectl(kept, "delete", "pod", "shop", "--force", "--grace-period=0")
    assert not ours(kept)


def test_where_privileged_pods_are_refused_the_rest_is_measured(
    kept: Mapping[str, Any], existing: list[str], tmp_path: Path
) -> None:
    kubectl(kept, "apply", "-f", "-", given=DENY)
    try:
        ask = [
            "kubectl",
            "--kubeconfig",
            kept["kubeconfig"],
            "create",
            "--dry-run=server",
            "-f",
            "-",
        ]
        until(
            lambda: (
                subprocess.run(
                    ask, input=json.dumps(PRIVILEGED), text=True, capture_output=True, check=False
                ).returncode
            )
        )
        cnibench(
            "run",
            *existing,
            "--cni",
            "current",
            "--placement",
            "inter",
            "--workload",
            "tcp-rr",
            *SHORT,
            cwd=tmp_path,
        )
    finally:
        kubectl(kept, "delete", "-f", "-", given=DENY)
    samples = lines(tmp_path, "samples")
    assert {(line["window"], line["status"]) for line in samples} == {("speed", "ok")}
    assert "cpu_system" in {line["metric"] for line in samples}
    assert (
        "privileged Pods are refused"
        in json.loads((run_of(tmp_path) / "env.json").read_text())["lacks"]
    )


def test_an_image_that_cannot_be_pulled_is_a_failure_with_its_reason(
    kept: Mapping[str, Any], existing: list[str], tmp_path: Path
) -> None:
    run = [
        "run",
        *existing,
        "--cni",
        "current",
        "--placement",
        "inter",
        "--workload",
        "tcp-rr",
        "--no-perf",
        "--registry",
        "127.0.0.1:1/none",
    ]
    cnibench(*run, *SHORT, cwd=tmp_path, status=1)
    (sample,) = lines(tmp_path, "samples")
    assert sample["status"] == "failed"
    assert re.search(
        r"will not run: (ImagePullBackOff|ErrImagePull): .*127\.0\.0\.1:1/none/agent",
        sample["reason"],
    ), sample["reason"]
    assert not ours(kept)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_run_that_is_ended_leaves_nothing_that_clean_does_not_find(
    kept: Mapping[str, Any], existing: list[str], tmp_path: Path, number: signal.Signals
) -> None:
    argv = long_run(existing, "60s")
    with subprocess.Popen(
        argv, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:

        def client() -> bool:
            assert process.poll() is None
            return any(tmp_path.glob("runs/*/raw/*/*/client.stdout"))

        until(client)
        (used,) = ours(kept)
        assert re.search(
            r"left: .* a run of \S+ uses it", output(CNIBENCH, "clean", *existing[:4])
        ), "what is in use is not cleaned"
        assert ours(kept) == {used}
        process.send_signal(number)
        process.communicate(timeout=200)
    if number == signal.SIGINT:
        assert process.returncode == 130
    else:
        (left,) = ours(kept)
        ask = (
            "exec",
            "-n",
            left,
            "b0",
            "--",
            "sh",
            "-c",
            "cat /proc/[0-9]*/comm 2>/dev/null; true",
        )
        until(lambda: "netserver" not in kubectl(kept, *ask))
        assert f"the namespace {left}" in output(CNIBENCH, "clean", *existing[:4])
    assert not ours(kept)
    assert "nothing was left" in output(CNIBENCH, "clean", *existing[:4])


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
            "--placement",
            "inter",
            "--workload",
            "tcp-rr",
            "--no-perf",
            *SHORT,
            "--duration",
            "3s",  # both begin at the same time, on the same CPUs
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
    assert not ours(kept)


def test_a_node_that_is_frozen_for_a_while_disturbs_the_sample(
    kept: Mapping[str, Any], existing: list[str], tmp_path: Path
) -> None:
    """All of it stands still, the heartbeat in its Pod, too; our machine runs on. The next sample
    is undisturbed.
    """
    node = f"{kept['name']}-worker"
    argv = [*long_run(existing, "6s"), "--warmup", "0s", "--blocks", "2"]
    with subprocess.Popen(
        argv, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        until(lambda: any(tmp_path.glob("runs/*/raw/*/0/client.stdout")))
        time.sleep(1)
        output("podman", "pause", node)
        time.sleep(15)
        output("podman", "unpause", node)
        out, said = process.communicate(timeout=300)
    assert process.returncode == 0, said
    first, second = lines(tmp_path, "stalls")
    assert 13 < first["longest_gap"] < 20, first
    assert re.search(
        r"everything in the (client|server)'s Pod \(node [ab]\) stalled for 1\d\.\d s",
        first["disturbed"],
    ), first
    assert second["disturbed"] == "", second
    assert {line["disturbed"] for line in lines(tmp_path, "samples") if line["block"] == 0} == {
        first["disturbed"]
    }
    assert "Disturbed: 1 of 2 samples were disturbed" in " ".join(out.split())
    assert "1 of 2 samples were disturbed" in said.splitlines()[-1]


def test_a_node_that_dies_in_the_middle_of_a_cell_is_found(
    kept: Mapping[str, Any], existing: list[str], tmp_path: Path
) -> None:
    """Last of the kept cluster's: its node stays away for a while after it is back."""
    node = f"{kept['name']}-worker"
    argv = long_run(existing, "40s")
    with subprocess.Popen(
        [*argv, "--blocks", "2"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        until(lambda: any(tmp_path.glob("runs/*/raw/*/*/client.stdout")))
        output("podman", "pause", node)
        try:
            said = process.communicate(timeout=500)[1]
        finally:
            output("podman", "unpause", node)
    assert process.returncode == 1, said
    reasons = [line["reason"] for line in lines(tmp_path, "samples")]
    assert {line["status"] for line in lines(tmp_path, "samples")} <= {"failed", "timeout"}
    assert re.search("node a", reasons[0]), (
        reasons
    )  # the API server calls it NotReady only 40 s later: whoever finds it first, names it
    assert all(reasons)
    until(lambda: not ours(kept))


def test_without_an_engine_or_kind_nothing_is_started(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = tmp_path / "kind"
    old.write_text("#!/bin/sh\necho kind v0.11.1 go1.16.4 linux/amd64\n")
    old.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("KIND_EXPERIMENTAL_PROVIDER", "nerdctl")
    said = cnibench(
        "run", "--cluster", "kind", "--cni", "bridge-static", *SHORT, cwd=tmp_path, status=3
    ).stderr
    assert "kind 0.20 or newer (here is 0.11)" in said
    assert "no container engine: nerdctl is not installed" in said
