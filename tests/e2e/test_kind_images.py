"""Our images: the same bytes each time, with a bill of materials, and pulled by digest from a
registry that asks for a password.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from _kind_cluster import Kept
from _kind_runs import engine, output, until
from _kubectl import applied, got, kubectl
from kind import images as parts
from kind.parts import Parts

from cnibench.clusters.kubernetes import images
from cnibench.clusters.kubernetes.nodes import agents
from cnibench.testbed.cluster_options import ClusterOptions

pytestmark = pytest.mark.timeout(600)
ADDRESS = "127.0.0.1:5055"  # a container runtime speaks plain HTTP to a registry on its own machine
REGISTRY = f"{ADDRESS}/bench"
CONFIG = """
version: 0.1
storage: {{filesystem: {{rootdirectory: {folder}/data}}}}
http: {{addr: "{address}"}}
auth: {{htpasswd: {{realm: bench, path: {folder}/users}}}}
"""
TRUSTED = f'[[registry]]\nlocation = "{ADDRESS}"\ninsecure = true\n'


@pytest.mark.usefixtures("kind_parts")
def test_two_builds_give_the_same_bytes() -> None:
    """Of the stage that both images begin with, each without any layer of the other."""
    made = images.Recipe(base=parts.BASE, snapshot="", fresh=True)
    podman = images.Engine("podman")
    names = [f"localhost/cnibench-e2e/twice:{which}-{os.getpid()}" for which in "ab"]
    try:
        for name in names:
            podman.build("common", name, made)
        one, other = map(podman.id, names)
    finally:
        for name in names:
            subprocess.run(["podman", "rmi", name], capture_output=True, check=False)
    assert one == other


@pytest.mark.usefixtures("kind_parts")
def test_an_image_lists_its_packages() -> None:
    script = "cat /usr/share/cnibench/sbom.spdx.json; echo; dpkg-query --show"
    argv = ("podman", "run", "--rm", "--network=none", images.name("workload"), "sh", "-c", script)
    text = engine(*argv)
    bill, end = json.JSONDecoder().raw_decode(text)
    listed = {tuple(line.split("\t")) for line in text[end:].split("\n") if line}
    names = {name.partition(":")[0] for name, _ in listed}
    assert {"netperf", "iperf3", "apache2-utils", "python3"} < names
    assert {(one["name"], one["versionInfo"]) for one in bill["packages"]} == {
        (name.partition(":")[0], version) for name, version in listed
    }


@dataclasses.dataclass(frozen=True)
class Registry:
    """One that runs on a node; ``run`` runs a program of this machine in the node's network."""

    process: str
    folder: Path

    def run(self, *argv: str) -> str:
        return output("nsenter", "--net", "--target", self.process, *argv)

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()


@pytest.fixture
def registry(
    bare_cluster: Kept, kind_parts: Parts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Registry]:
    """podman may push there, and has our images under its name: the same one for both."""
    node = bare_cluster.nodes[0].facts.name
    process = engine("podman", "inspect", "--format", "{{.State.Pid}}", node).strip()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("REGISTRY_AUTH_FILE", str(tmp_path / "auth.json"))
    monkeypatch.setenv("CONTAINERS_REGISTRIES_CONF", str(tmp_path / "registries.conf"))
    (tmp_path / "registries.conf").write_text(TRUSTED)
    users = engine("htpasswd", "-Bbn", "someone", "secret")
    (tmp_path / "users").write_text(users)
    (tmp_path / "config.yml").write_text(CONFIG.format(folder=tmp_path, address=ADDRESS))
    argv = ["nsenter", "--net", "--target", process, "docker-registry", "serve"]
    names = [images.name(kind, REGISTRY) for kind in images.KINDS]
    made = Registry(process, tmp_path)
    # The registry takes variables of this name for its own settings.
    env = {name: value for name, value in os.environ.items() if not name.startswith("REGISTRY_")}
    with (tmp_path / "log").open("w") as log:
        server = subprocess.Popen([*argv, tmp_path / "config.yml"], stdout=log, stderr=log, env=env)
    try:
        until(lambda: "listening on" in made.log or server.poll() is not None)
        assert server.poll() is None, made.log
        for name in names:
            engine("podman", "tag", images.name("workload"), name)
        yield made
    finally:
        server.terminate()
        server.wait()
        subprocess.run(["podman", "rmi", *names], capture_output=True, check=False)


def test_nodes_pull_by_digest_with_a_pull_secret(registry: Registry, bare_cluster: Kept) -> None:
    push = (str(Path(sys.executable).with_name("cnibench")), "images", "build", "--push")
    push += ("--registry", REGISTRY)
    with pytest.raises(AssertionError, match=f"podman login {ADDRESS}"):
        registry.run(*push)
    registry.run("podman", "login", "--username", "someone", "--password", "secret", ADDRESS)
    pushed = registry.run(*push).split()
    digest = pushed[1].rpartition("@")[2]
    assert [one.partition("@")[0] for one in pushed] == [
        images.name(kind, REGISTRY) for kind in images.KINDS
    ]
    secret = base64.b64encode((registry.folder / "auth.json").read_bytes()).decode()
    metadata = {"name": "of-a-registry", "namespace": "default"}
    kind = "kubernetes.io/dockerconfigjson"
    data = {".dockerconfigjson": secret}
    access = bare_cluster.access
    applied(
        access,
        {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": kind, "data": data},
    )
    options = ClusterOptions(registry=REGISTRY, pull_secret="default/of-a-registry")
    making = agents.plan(
        "cnibench-of-a-registry", options, tolerations=bare_cluster.making.tolerations
    )
    assert making.agent_image == pushed[1]
    try:
        _, (node,) = agents.start(access, making, [bare_cluster.nodes[0].facts])
        assert node.run(["python3", "-c", "print(6 * 7)"], timeout=20).stdout == "42\n"
        node.gateway.close()
        (pod,) = got(access, "pods", "-n", making.namespace)["items"]
        assert pod["status"]["containerStatuses"][0]["imageID"].endswith(digest)
    finally:
        kubectl(access, "delete", "namespace", making.namespace, timeout=120)
        kubectl(access, "delete", "secret", "of-a-registry")
    assert f"manifests/{digest}" in registry.log
    assert "auth.user.name=someone" in registry.log
