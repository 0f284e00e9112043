"""Our images in a registry that asks for a password: pushed by a user who is logged in, and pulled
by digest by nodes that have the pull secret.
"""

from __future__ import annotations

import json
import re
import secrets
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from _kind_runs import (
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
from kind.parts import NETWORK

from cnibench.clusters.kubernetes import images

pytestmark = pytest.mark.timeout(600)
USER = "puller"
SECRET = "pull"
# A line of the access log
_GIVEN_OUT = re.compile(r'"GET /v2/team/\w+/manifests/(sha256:[0-9a-f]{64}) HTTP/1\.1" 200 ')
RUN = (*ONE_CELL, *SHORT, "--method", "windows")


@dataclass
class Registry:
    host: str
    """as nodes and this machine name it"""
    password: str
    log: Path

    @property
    def path(self) -> str:
        return f"{self.host}/team"

    def pulls(self) -> set[str]:
        """The digests by which manifests were given out, which takes the password."""
        return set(_GIVEN_OUT.findall(self.log.read_text()))


@pytest.fixture(scope="module")
def registry(
    kept: Mapping[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Registry]:
    """Debian's, on the network of the nodes, which trust its certificate, as podman does."""
    folder = tmp_path_factory.mktemp("registry")
    (network,) = json.loads(engine("podman", "network", "inspect", NETWORK))
    gateway = next(one["gateway"] for one in network["subnets"] if "." in one["gateway"])
    with socket.create_server((gateway, 0)) as free:
        host = f"{gateway}:{free.getsockname()[1]}"
    certificate, key = folder / "ca.crt", folder / "key"
    output(
        *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
        *("-subj", "/CN=registry", "-addext", f"subjectAltName=IP:{gateway}"),
        *("-keyout", key, "-out", certificate),
    )
    made = Registry(host, secrets.token_hex(8), folder / "log")
    (folder / "users").write_text(output("htpasswd", "-nbB", USER, made.password))
    (folder / "config.yml").write_text(
        json.dumps(  # which is YAML
            {
                "version": "0.1",
                "storage": {"filesystem": {"rootdirectory": str(folder / "images")}},
                "http": {"addr": host, "tls": {"certificate": str(certificate), "key": str(key)}},
                "auth": {"htpasswd": {"realm": "team", "path": str(folder / "users")}},
            }
        )
    )
    nodes = engine(
        "podman", "ps", "--format", "{{.Names}}",
        "--filter", f"label=io.x-k8s.kind.cluster={kept['name']}",
    ).split()  # fmt: skip
    (folder / "auth.json").write_text('{"auths": {}}')  # nobody is logged in
    trusted = Path("/etc/containers/certs.d") / host
    trusted.mkdir(parents=True)
    (trusted / "ca.crt").write_bytes(certificate.read_bytes())
    hosts = f'server = "https://{host}"\n[host."https://{host}"]\n  ca = "ca.crt"\n'
    for node in nodes:
        place = f"/etc/containerd/certs.d/{host}"
        engine("podman", "exec", node, "mkdir", "-p", place)
        output(
            "podman", "exec", "-i", node, "tee", f"{place}/ca.crt", given=certificate.read_text()
        )
        output("podman", "exec", "-i", node, "tee", f"{place}/hosts.toml", given=hosts)
    with (
        pytest.MonkeyPatch.context() as patch,
        made.log.open("wb") as log,
        subprocess.Popen(
            ["docker-registry", "serve", str(folder / "config.yml")], stdout=log, stderr=log
        ) as running,
    ):
        patch.setenv("REGISTRY_AUTH_FILE", str(folder / "auth.json"))
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))  # where digests are kept
        try:
            _answers(host, running, made.log)
            yield made
        finally:
            running.terminate()
            for kind in images.KINDS:
                subprocess.run(
                    ["podman", "rmi", images.name(kind, made.path)],
                    capture_output=True,
                    check=False,
                )
            (trusted / "ca.crt").unlink()
            trusted.rmdir()


def _answers(host: str, running: subprocess.Popen[bytes], log: Path) -> None:
    address, _, port = host.partition(":")
    end = time.monotonic() + 60
    while True:
        assert running.poll() is None, log.read_text()
        try:
            socket.create_connection((address, int(port)), timeout=5).close()
            return
        except OSError:
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.1)


@pytest.fixture(scope="module")
def pushed(registry: Registry, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Digest of each image, as ``images build --push`` printed it, after it was refused once."""
    folder = tmp_path_factory.mktemp("pushed")
    for kind in images.KINDS:
        engine("podman", "tag", images.name(kind), images.name(kind, registry.path))
    push = ("images", "build", "--registry", registry.path, "--push")
    refused = cnibench(*push, cwd=folder, status=1)
    assert refused.stderr == (
        f"error: the registry {registry.host} does not let this user push"
        f" {images.name('workload', registry.path)}\n  remedy: podman login {registry.host}\n"
    )
    output(
        "podman", "login", "-u", USER, "--password-stdin", registry.host, given=registry.password
    )
    said = cnibench(*push, cwd=folder).stdout.split()
    return dict(zip(images.KINDS, (one.partition("@")[2] for one in said), strict=True))


def test_what_needs_a_password_is_not_pulled_without_the_secret(
    registry: Registry, pushed: dict[str, str], existing: list[str], tmp_path: Path
) -> None:
    run = ("run", *existing, "--cni", "current", *RUN, "--registry", registry.path)
    cnibench(*run, cwd=tmp_path, status=1)
    (sample,) = lines(tmp_path, "samples")
    assert sample["status"] == "failed"
    assert "ErrImagePull" in sample["reason"] or "ImagePullBackOff" in sample["reason"]
    assert pushed["agent"] in sample["reason"]
    assert "401 Unauthorized" in sample["reason"]
    assert registry.pulls() == set()


def test_both_images_are_pulled_by_digest_with_the_secret(
    registry: Registry,
    pushed: dict[str, str],
    kept: Mapping[str, Any],
    existing: list[str],
    tmp_path: Path,
) -> None:
    kubectl(
        kept, "create", "secret", "docker-registry", SECRET, "-n", "default",
        f"--docker-server={registry.host}", f"--docker-username={USER}",
        f"--docker-password={registry.password}",
    )  # fmt: skip
    try:
        run = ("run", *existing, "--cni", "current", *RUN, "--registry", registry.path)
        cnibench(*run, "--pull-secret", f"default/{SECRET}", cwd=tmp_path)
    finally:
        kubectl(kept, "delete", "secret", SECRET, "-n", "default")
    assert {one["status"] for one in lines(tmp_path, "samples")} == {"ok"}
    assert registry.pulls() >= set(pushed.values())
    assert not namespaces_of_runs(kept), "and with it the copy of the secret"
    assert registry.password not in "".join(
        one.read_text(errors="replace") for one in run_of(tmp_path).rglob("*") if one.is_file()
    )
