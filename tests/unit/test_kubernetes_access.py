"""The kubeconfig and kubectl: which context is used, what is never printed, the types of errors,
versions.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from cnibench.clusters.kubernetes.api.access import Access, DeniedError, UnreachableError
from cnibench.clusters.kubernetes.api.tools import version
from cnibench.errors import InputError, UsageError
from cnibench.system.process import Done

CONFIG = """
apiVersion: v1
kind: Config
current-context: here
contexts: [{name: here, context: {cluster: c, user: u}}, {name: there, context: {cluster: c, user: v}}]
clusters: [{name: c, cluster: {server: "https://192.0.2.1:6443"}}]
users:
- {name: u, user: {token: very-secret-token}}
- {name: v, user: {client-key-data: a2V5LWRhdGE=, exec: {command: x, env: [{name: PASSWORD, value: hunter2hunter2}]}}}
"""  # noqa: E501


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    path = tmp_path / "config"
    path.write_text(CONFIG)
    return path


def test_contexts_are_checked_and_the_current_one_is_pinned(kubeconfig: Path) -> None:
    assert Access(kubeconfig).command("get", "pods")[:5] == [
        "kubectl",
        "--context",
        "here",
        "--kubeconfig",
        str(kubeconfig),
    ]
    with pytest.raises(UsageError, match="no context 'nowhere'"):
        Access(kubeconfig, "nowhere")
    with pytest.raises(InputError, match="No such file"):
        Access(kubeconfig.with_name("none"))
    kubeconfig.write_text("token: [very-secret-token")
    with pytest.raises(InputError) as error:
        Access(kubeconfig)
    assert "very-secret" not in error.value.message + error.value.remedy


def test_no_secret_of_the_kubeconfig_is_reported(kubeconfig: Path) -> None:
    access = Access(kubeconfig)
    said = "Authorization: Bearer very-secret-token a2V5LWRhdGE= hunter2hunter2 rejected"
    error = access.error(Done(("kubectl", "get", "pods"), 1, "", said, 0.1))
    assert (
        error.message
        == "kubectl get pods ended with 1: Authorization: Bearer (secret) (secret) (secret)"
        " rejected"
    )


def test_what_kubectl_says_has_a_type(kubeconfig: Path) -> None:
    access = Access(kubeconfig)
    for said, kind in (
        (
            (
                "The connection to the server 192.0.2.1:6443 was refused - did you specify the"
                " right host or port?"
            ),
            UnreachableError,
        ),
        ("Unable to connect to the server: net/http: TLS handshake timeout", UnreachableError),
        (
            (
                'Error from server (Forbidden): nodes is forbidden: User "u" cannot list resource'
                ' "nodes"'
            ),
            DeniedError,
        ),
        ("error: You must be logged in to the server (Unauthorized)", DeniedError),
    ):
        assert type(access.error(Done(("kubectl", "get", "nodes"), 1, "", said, 0.1))) is kind, said


def test_versions_are_read() -> None:
    assert version("Client Version: v1.34.4\nKustomize Version: v5.7.1\n") == (1, 34)
    assert version("kind v0.33.0 go1.26.8 linux/amd64") == (0, 33)
    assert version("v3.22.0+g144f4ff") == (3, 22)
    assert version("what?") is None
