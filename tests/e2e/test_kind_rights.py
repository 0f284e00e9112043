"""The rights that cnibench says it needs, held against the audit log of an API server: it does with
them all that it does, it asks for nothing else, and without them it makes nothing.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from _audit import each, requests, rights_of
from _kind_cluster import Kept
from _kind_runs import CNIBENCH, ONE_CELL, SHORT, cnibench, lines, output, until

from cnibench.clusters.kubernetes.rights.table import TABLE, Level, rights
from cnibench.model.profile import builtin

pytestmark = pytest.mark.timeout(900)
GOLDEN = Path(__file__).parent.parent / "golden" / "kubernetes_errors" / "rights-missing.txt"
RUN = (*SHORT, "--no-perf", "--toleration", "all")
SECRET = "bench/registry"
EXISTING = ("--cluster", "existing")
# What is not asked for here: of other CNIs, of Pods that do not start or die, in an outage, by a
# removal, by a user who lacks rights.
OTHERS = {
    ("/readyz", "get"),
    ("/api", "get"),
    ("/api/*", "get"),
    ("/apis/*", "get"),
    ("/openapi/*", "get"),
    ("pods", "get"),
    ("services", "get"),
    ("endpointslices.discovery.k8s.io", "get"),
    ("events", "list"),
    ("services", "delete"),
    ("selfsubjectaccessreviews.authorization.k8s.io", "create"),
    ("selfsubjectreviews.authentication.k8s.io", "create"),
    ("pods/exec", "create"),
    ("felixconfigurations.crd.projectcalico.org", "get"),
    ("installations.operator.tigera.io", "get"),
    ("ippools.crd.projectcalico.org", "get"),
    *(
        (f"networkpolicies.{group}projectcalico.org", verb)
        for group in ("", "crd.")
        for verb in ("create", "patch", "list", "delete")
    ),
}


@dataclasses.dataclass
class Accounts:
    """ServiceAccounts on the shared cluster, and what was made for them."""

    cluster: Kept
    folder: Path
    roles: list[str] = dataclasses.field(default_factory=list)

    @property
    def kubeconfig(self) -> Path:
        """The administrator's."""
        return self.cluster.cluster.kept.kubeconfig

    def kubectl(self, *words: str, given: str = "") -> str:
        return output("kubectl", "--kubeconfig", self.kubeconfig, *words, given=given)

    def account(self, name: str, *role: str) -> list[str]:
        """The option by which cnibench is a new ServiceAccount, with the role that it prints."""
        self.kubectl("create", "serviceaccount", name, "-n", "bench")
        if role:
            self.roles.append(output(CNIBENCH, "rbac", "--service-account", f"bench/{name}", *role))
            self.kubectl("apply", "-f", "-", given=self.roles[-1])
        token = self.kubectl("create", "token", name, "-n", "bench", "--duration=2h").strip()
        config: dict[str, Any] = yaml.safe_load(self.kubeconfig.read_text())
        config["users"][0]["user"] = {"token": token}
        path = self.folder / f"{name}.kubeconfig"
        path.write_text(yaml.safe_dump(config))
        return ["--kubeconfig", str(path)]

    def in_a_pod(self, name: str, *words: str) -> str:
        """What cnibench prints with what a Pod of that ServiceAccount has: a token and variables,
        and no kubeconfig.
        """
        config = yaml.safe_load((self.folder / f"{name}.kubeconfig").read_text())
        (cluster,) = config["clusters"]
        account = self.folder / name
        account.mkdir()
        (account / "token").write_text(config["users"][0]["user"]["token"])
        authority = base64.b64decode(cluster["cluster"]["certificate-authority-data"])
        (account / "ca.crt").write_bytes(authority)
        server = urlsplit(cluster["cluster"]["server"])
        service = {"HOST": server.hostname, "PORT": str(server.port)}
        secrets = Path("/run/secrets")
        had, there = secrets.exists(), secrets / "kubernetes.io" / "serviceaccount"
        begin = (
            f'mount -t tmpfs none {secrets}; mkdir -p {there}; cp {account}/* {there}; exec "$@"'
        )
        secrets.mkdir(exist_ok=True)
        try:
            return output(
                *("env", "-u", "KUBECONFIG", f"HOME={account}"),
                *(f"KUBERNETES_SERVICE_{key}={value}" for key, value in service.items()),
                *("unshare", "--mount", "sh", "-ec", begin, "sh", CNIBENCH, *words),
            )
        finally:
            if not had:
                secrets.rmdir()


@pytest.fixture(scope="module")
def there(bare_cluster: Kept, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Accounts]:
    made = Accounts(bare_cluster, tmp_path_factory.mktemp("rights"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(made.folder / "state"))
        made.kubectl("create", "namespace", "bench")
        made.kubectl(
            "create", "secret", "docker-registry", "registry", "-n", "bench",
            "--docker-server=registry.example", "--docker-username=x", "--docker-password=y",
        )  # fmt: skip
        try:
            yield made
        finally:
            bare_cluster.remove()
            gone = ("delete", "--ignore-not-found", "--wait=false")
            made.kubectl(*gone, "namespace", "bench", "guests")
            for role in made.roles:
                made.kubectl(*gone, "-f", "-", given=role)


def held(there: Accounts, name: str, level: Level) -> set[tuple[str, str]]:
    """What was asked for of the rights of a level, after a check that nothing else was (but what
    everybody may ask), and that nothing was denied.
    """
    asked = requests(there.cluster.audit, name)
    assert len(asked) > 10
    assert [one for one in sorted(asked) if one.status == 403] == []
    everybodys = [one for one in TABLE if one.resource.startswith(("/", "selfsubject"))]
    table = [*rights(level, pull_secret=SECRET), *everybodys]
    allowed = {one: list(rights_of(one, table)) for one in asked}
    assert [one for one, by in sorted(allowed.items()) if not by] == []
    return {(right.resource, verb) for by in allowed.values() for right, verb in by}


def test_without_rights_all_are_named_and_nothing_is_made(there: Accounts, tmp_path: Path) -> None:
    nobody = there.account("nobody")
    before = there.kubectl("get", "namespaces", "-o", "name")
    nobody += EXISTING
    run = cnibench("run", *nobody, "--cni", "current", *ONE_CELL, cwd=tmp_path, status=3)
    said = run.stderr.replace(there.cluster.access.context, "lab")
    assert said == GOLDEN.read_text()
    asked = requests(there.cluster.audit, "nobody")
    assert {(one.verb, one.status) for one in asked} <= {("get", 200), ("create", 201)}
    doctor = json.loads(cnibench("doctor", *nobody, "--json", cwd=tmp_path, status=3).stdout)
    assert [one["lacks"] for one in doctor["missing"]] == [
        said.splitlines()[0].replace("lab", there.cluster.access.context).removeprefix("error: ")
    ]
    assert any("may not list events" in one["lacks"] for one in doctor["optional"])
    assert there.kubectl("get", "namespaces", "-o", "name") == before


def test_a_cni_is_installed_measured_and_removed_with_the_roles_that_are_printed(
    there: Accounts, tmp_path: Path
) -> None:
    admin = there.account("admin", "--level", "install")
    user = there.account("user", "--level", "measure", "--pull-secret", SECRET)
    admin, user = [*admin, *EXISTING], [*user, *EXISTING]
    made = ["--allow-install", "--cni", "cilium", "--keep"]
    settings = there.cluster.settings(builtin()["cilium"])
    chart = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    cnibench("run", *admin, *made, *chart, *ONE_CELL, *RUN, cwd=tmp_path)
    held(there, "admin", "install")
    work = (
        "tcp-rr", "tcp-rr:policy.entries=2", "pods:count=1", "policy-effect",
        "policy-effect:policy.entries=2:policy.api=cni",
        "tcp-rr:services.count=3", "service-change:change=endpoint",
    )  # fmt: skip
    measured = cnibench(
        "run", *user, "--cni", "current", "--placement", "inter", "--path", "pod,clusterip",
        *(word for one in work for word in ("--workload", one)), *RUN,
        "--pull-secret", SECRET, "--allow-node-changes", cwd=tmp_path,
    )  # fmt: skip
    assert "may not" not in measured.stderr
    before = len(list(each(there.cluster.audit, "user")))
    there.in_a_pod("user", "doctor", *EXISTING, "--toleration", "all")
    assert len(list(each(there.cluster.audit, "user"))) > before + 10
    left = cnibench("clean", *user, "--dry-run", cwd=tmp_path, status=2)
    assert "removing it was not allowed" in left.stderr
    used = held(there, "user", "measure")
    every = {
        (one.resource, verb) for one in rights("measure", pull_secret=SECRET) for verb in one.verbs
    }
    assert every - used <= OTHERS
    _in_a_namespace(there, tmp_path / "namespace")
    _with_few_requests(there, tmp_path / "few")
    cnibench("clean", *admin, "--allow-install", cwd=tmp_path)
    held(there, "admin", "install")
    assert "cilium" not in there.kubectl("get", "daemonsets", "-A", "-o", "name")


def _with_few_requests(there: Accounts, folder: Path) -> None:
    """32 samples."""
    folder.mkdir()
    sparing = [*there.account("sparing", "--level", "measure"), *EXISTING]
    # Rounds are short: how many requests there are does not depend on them.
    done = subprocess.run(
        [
            CNIBENCH, "run", *sparing, "--cni", "current", "--workload", "tcp-rr,tcp-crr",
            "--placement", "intra,inter", "--blocks", "8", "--duration", "200ms", "--warmup", "0s",
            *RUN[len(SHORT) :],
        ],
        cwd=folder, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr
    assert len([one for one in lines(folder, "samples") if one["window"] == "speed"]) >= 32
    asked = Counter((one.verb, one.resource) for one in each(there.cluster.audit, "sparing"))
    # One renewal of the Lease for each block, and more only where blocks take long.
    others = asked.total() - asked["update", "leases.coordination.k8s.io"]
    assert 10 < others <= 100 - 8, asked


def _in_a_namespace(there: Accounts, folder: Path) -> None:
    """Nothing but Pods and a Lease in it, with a Role there; nothing stays."""
    folder.mkdir()
    there.kubectl("create", "namespace", "guests")
    restricted = "pod-security.kubernetes.io/enforce=restricted"
    there.kubectl("label", "namespace", "guests", restricted)
    guest = there.account("guest", "--level", "namespace", "-n", "guests")
    nodes = there.kubectl("get", "nodes", "-o", "jsonpath={.items[*].metadata.name}").split()
    run = cnibench(
        "run", *guest, "--cluster", "namespace", "-n", "guests", "--client-node", nodes[0],
        "--server-node", nodes[1], "--allow-load", "--cni", "current",
        "--workload", "tcp-rr,tcp-stream", "--placement", "intra,inter", *RUN, "--keep",
        cwd=folder,
    )  # fmt: skip
    assert "not recognised" in run.stdout + run.stderr
    samples = [line for line in lines(folder, "samples") if line["window"] == "speed"]
    assert {line["status"] for line in samples} == {"ok"}
    assert {line["workload"] for line in samples} == {"tcp-rr", "tcp-stream"}
    # a Pod sees what its node does, without an agent there
    assert all(line["node_load"] for line in lines(folder, "stalls"))
    assert there.kubectl("get", "pods", "-n", "guests", "-o", "name") != ""
    there.kubectl("delete", "lease", "cnibench", "-n", "guests")
    until(lambda: there.kubectl("get", "pods", "-n", "guests", "-o", "name") == "")
    _behind_a_policy(there, guest, nodes, folder / "policy")
    used = held(there, "guest", "namespace")
    every = {(one.resource, verb) for one in rights("namespace") for verb in one.verbs}
    assert every - used <= OTHERS | {("pods", "watch")}, "of Pods that take their time to go"
    assert there.kubectl("get", "pods,leases", "-n", "guests", "-o", "name") == ""


def _behind_a_policy(
    there: Accounts, guest: Sequence[str], nodes: Sequence[str], folder: Path
) -> None:
    """An administrator's default-deny, which Cilium enforces."""
    folder.mkdir()
    deny = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "default-deny", "namespace": "guests"},
        "spec": {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]},
    }
    there.kubectl("apply", "-f", "-", given=json.dumps(deny))
    refused = cnibench(
        "run", *guest, "--cluster", "namespace", "-n", "guests", "--client-node", nodes[0],
        "--server-node", nodes[1], "--allow-load", "--cni", "current", *ONE_CELL, *RUN,
        cwd=folder, status=1,
    )  # fmt: skip
    said = " ".join((refused.stdout + refused.stderr).split())
    assert "the NetworkPolicy default-deny in the namespace guests selects these Pods" in said
    assert there.kubectl("get", "pods,leases", "-n", "guests", "-o", "name") == ""
    there.kubectl("delete", "networkpolicy", "default-deny", "-n", "guests")
