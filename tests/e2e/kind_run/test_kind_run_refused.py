"""What a run refuses, and what a cluster refuses to a run: messages, and what is still measured."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from _kind_runs import (
    ONE_CELL,
    SHORT,
    cnibench,
    kubectl,
    lines,
    namespaces_of_runs,
    run_of,
    run_shop,
    until,
)

pytestmark = pytest.mark.timeout(900)

GOLDEN = Path(__file__).parents[2] / "golden" / "kubernetes_errors"
DENY = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: no-host-pid}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
  validations:
  - expression: "!object.spec.?hostPID.orValue(false)"
    message: Pods may not see the node's processes here
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: no-host-pid}
spec: {policyName: no-host-pid, validationActions: [Deny]}
"""  # noqa: E501
HOST_PID = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "x"},
    "spec": {"hostPID": True, "containers": [{"name": "x", "image": "x"}]},
}


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
    run_shop(kept["kubeconfig"], kept["image"])
    try:
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
    assert not namespaces_of_runs(kept)


def test_a_node_that_cannot_be_taken_is_named_with_the_reason(
    kept: Mapping[str, Any], existing: list[str], tmp_path: Path
) -> None:
    """The other one is then the only one."""
    words = ("--cni", "current", "--workload", "tcp-rr", "--dry-run", *SHORT)
    control, worker = f"{kept['name']}-control-plane", f"{kept['name']}-worker"
    plain = existing[: existing.index("--toleration")]
    said = cnibench("run", *plain, *words, cwd=tmp_path, status=2).stderr
    assert f"{control} is tainted node-role.kubernetes.io/control-plane:NoSchedule" in said
    kubectl(kept, "cordon", worker)
    try:
        said = cnibench("run", *existing, *words, cwd=tmp_path, status=2).stderr
    finally:
        kubectl(kept, "uncordon", worker)
    assert f"no node for the server: {worker} is cordoned" in said


def test_where_agents_may_not_look_into_nodes_the_rest_is_measured(
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
                    ask, input=json.dumps(HOST_PID), text=True, capture_output=True, check=False
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
        "agents may not look into their nodes here"
        in json.loads((run_of(tmp_path) / "env.json").read_text())["lacks"]
    )


def test_an_image_that_cannot_be_pulled_is_a_failure_with_its_reason(
    kept: Mapping[str, Any], existing: list[str], tmp_path: Path
) -> None:
    run = ["run", *existing, "--cni", "current", *ONE_CELL, "--registry", "127.0.0.1:1/none"]
    cnibench(*run, *SHORT, cwd=tmp_path, status=1)
    (sample,) = lines(tmp_path, "samples")
    assert sample["status"] == "failed"
    assert re.search(
        r"will not run: (ImagePullBackOff|ErrImagePull): .*127\.0\.0\.1:1/none/agent",
        sample["reason"],
    ), sample["reason"]
    assert not namespaces_of_runs(kept)


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
