"""What the admission of a cluster refuses to measured Pods, or adds to them: each is told with the
remedy that fits, and nothing stays.
"""

from __future__ import annotations

import base64
import http.server
import json
import ssl
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from _kind_cluster import Kept
from _kind_runs import ONE_CELL, SHORT, cnibench, engine, lines, until
from _kubectl import applied, got, kubectl

pytestmark = pytest.mark.timeout(300)
SPACE = "admission"
CPU = {"type": "Container", "default": {"cpu": "100m"}}
DENY = {"validations": [{"expression": "!has(object.spec.shareProcessNamespace)"}]}


@pytest.fixture(scope="module")
def space(bare_cluster: Kept) -> Iterator[list[str]]:
    """The options that measure in a namespace of the cluster."""
    kubectl(bare_cluster.access, "create", "namespace", SPACE)
    client, server = (node.facts.name for node in bare_cluster.nodes)
    yield [
        "run", "--cluster", "namespace", "--kubeconfig", str(bare_cluster.access.kubeconfig),
        "-n", SPACE, "--client-node", client, "--server-node", server, "--toleration", "all",
        "--allow-load", "--cni", "current", *ONE_CELL, *SHORT,
    ]  # fmt: skip
    kubectl(bare_cluster.access, "delete", "namespace", SPACE, "--wait=false")


def of_space(kind: str, spec: Mapping[str, Any], api: str = "v1") -> dict[str, Any]:
    meta = {"name": SPACE, "namespace": SPACE}
    return {"apiVersion": api, "kind": kind, "metadata": meta, "spec": dict(spec)}


@contextmanager
def there(kept: Kept, *made: Mapping[str, Any]) -> Iterator[None]:
    """While the block lasts."""
    applied(kept.access, *made)
    try:
        yield
    finally:
        for one in made:
            kubectl(kept.access, "delete", "-n", SPACE, one["kind"], SPACE)


def refused(kept: Kept, space: list[str], folder: Path, *words: str) -> str:
    """What is said when no Pod could be made as it has to be; none stays."""
    said = cnibench(*space, *words, cwd=folder, status=1).stderr
    (sample,) = lines(folder, "samples")
    assert sample["status"] == "failed"
    assert got(kept.access, "pods,leases", "-n", SPACE)["items"] == []
    assert "cnibench rbac" not in said
    return said


def test_a_default_limit_of_cpu_time_is_not_measured(
    bare_cluster: Kept, space: list[str], tmp_path: Path
) -> None:
    with there(bare_cluster, of_space("LimitRange", {"limits": [CPU]})):
        said = refused(bare_cluster, space, tmp_path)
    assert "to 100m: the limit would be measured; remedy: set one with --pod-resources" in said


@pytest.mark.parametrize(
    ("hard", "why"),
    [({"pods": "1"}, "exceeded quota"), ({"requests.cpu": "8"}, "must specify requests.cpu")],
)
def test_a_quota_is_not_taken_for_a_right_that_is_missing(
    bare_cluster: Kept, space: list[str], tmp_path: Path, hard: Mapping[str, str], why: str
) -> None:
    with there(bare_cluster, of_space("ResourceQuota", {"hard": hard})):
        said = refused(bare_cluster, space, tmp_path)
    assert why in said
    assert "remedy: admission refused it, not the user's rights" in said
    assert "--pod-resources" in said


def test_more_than_a_node_has_is_said_at_once(
    bare_cluster: Kept, space: list[str], tmp_path: Path
) -> None:
    asked = "cpu=900,memory=64Mi"
    said = refused(bare_cluster, space, tmp_path, "--pod-resources", asked)
    assert "Insufficient cpu" in said
    assert "remedy: --pod-resources has to ask for less" in said


def test_a_policy_of_the_cluster_is_named(
    bare_cluster: Kept, space: list[str], tmp_path: Path
) -> None:
    group = "admissionregistration.k8s.io/v1"
    rules = [
        {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    ]
    own = {"matchLabels": {"kubernetes.io/metadata.name": SPACE}}
    policy = of_space("ValidatingAdmissionPolicy", {
        "matchConstraints": {"resourceRules": rules, "namespaceSelector": own}, **DENY,
    }, group)  # fmt: skip
    binding = of_space(
        "ValidatingAdmissionPolicyBinding",
        {"policyName": SPACE, "validationActions": ["Deny"]},
        group,
    )
    for one in (policy, binding):
        del one["metadata"]["namespace"]
    with there(bare_cluster, policy, binding):
        _enforced(bare_cluster)
        said = refused(bare_cluster, space, tmp_path)
    _enforced(bare_cluster, False)  # the next test's Pods must not meet it
    assert "ValidatingAdmissionPolicy 'admission'" in said


def _enforced(kept: Kept, now: bool = True) -> None:
    """Waits until the API server has read the policy, or that it is deleted."""
    pod = of_space("Pod", {
        "shareProcessNamespace": True, "containers": [{"name": "x", "image": "x"}],
    })  # fmt: skip
    ask = ("create", "--dry-run=server", "-f", "-")

    def refuses() -> bool:
        return kubectl(kept.access, *ask, input=json.dumps(pod), check=False).returncode != 0

    until(lambda: refuses() == now)


class Mesh(http.server.BaseHTTPRequestHandler):
    """Adds a container to each Pod, as the webhook of a service mesh does."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        proxy = {"name": "mesh-proxy", "image": "proxy"}
        patch = [{"op": "add", "path": "/spec/containers/-", "value": proxy}]
        response = {
            "uid": asked["request"]["uid"],
            "allowed": True,
            "patchType": "JSONPatch",
            "patch": base64.b64encode(json.dumps(patch).encode()).decode(),
        }
        review = {"apiVersion": asked["apiVersion"], "kind": asked["kind"], "response": response}
        body = json.dumps(review).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def mesh(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A webhook on this machine, as the API server finds it."""
    (network,) = json.loads(engine("podman", "network", "inspect", "cnibench-e2e"))
    gateways = [one["gateway"] for one in network["subnets"]]
    address = next(one for one in gateways if ":" not in one)
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        [
            "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1",
            "-subj", "/CN=mesh", "-addext", f"subjectAltName=IP:{address}",
            "-keyout", str(key), "-out", str(certificate),
        ],
        check=True, capture_output=True, timeout=30,
    )  # fmt: skip
    server = http.server.ThreadingHTTPServer((address, 0), Mesh)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield {
        "url": f"https://{address}:{server.server_port}/",
        "caBundle": base64.b64encode(certificate.read_bytes()).decode(),
    }
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_container_that_is_added_is_not_measured(
    bare_cluster: Kept, space: list[str], mesh: dict[str, str], tmp_path: Path
) -> None:
    rules = [
        {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    ]
    hook = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": SPACE},
        "webhooks": [
            {
                "name": "mesh.example.com",
                "clientConfig": mesh,
                "rules": rules,
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": SPACE}},
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
            }
        ],
    }
    with there(bare_cluster, hook):
        until(lambda: "mesh-proxy" in _dry_run(bare_cluster))
        said = refused(bare_cluster, space, tmp_path)
    assert "the cluster added the container mesh-proxy to the Pod" in said


def _dry_run(kept: Kept) -> str:
    """A Pod as the cluster would admit it."""
    pod = of_space("Pod", {"containers": [{"name": "x", "image": "x"}]})
    words = ("create", "--dry-run=server", "-o", "json", "-f", "-")
    return kubectl(kept.access, *words, input=json.dumps(pod), check=False).stdout
