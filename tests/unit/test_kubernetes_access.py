"""The kubeconfig, and the official client with it: which context and which user ask, what is never
printed, what the answers of a real API server mean.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from cnibench.clusters.kubernetes.api.access import (
    Access,
    DeniedError,
    InvalidError,
    UnreachableError,
)
from cnibench.clusters.kubernetes.api.client import Answer
from cnibench.clusters.kubernetes.api.rest import Rest
from cnibench.clusters.kubernetes.api.tools import version
from cnibench.errors import ClusterError, InputError, UsageError
from tests.unit._objects import Objects, answer, kubeconfig, serving

NOWHERE = "http://127.0.0.1:1"


class Heard(Objects):
    """Keeps the headers of the last request."""

    headers: Mapping[str, str]

    def call(self, method: str, path: str, body: Any = None, *given: Any, **more: Any) -> Answer:
        self.headers = more.pop("headers")
        return super().call(method, path, body, *given)


def test_contexts_are_checked_and_the_current_one_is_pinned(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, NOWHERE)
    assert Access(path).context == "lab"
    with pytest.raises(UsageError, match="no context 'nowhere'"):
        Access(path, "nowhere")
    with pytest.raises(InputError, match="No such file"):
        Access(path.with_name("none"))
    path.write_text("token: [very-secret-token")
    with pytest.raises(InputError) as error:
        Access(path)
    assert "very-secret" not in error.value.message + error.value.remedy


def test_a_kubeconfig_that_is_not_there_is_never_replaced_by_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The default one may be of another cluster, and a run changes its cluster."""
    monkeypatch.setenv("HOME", str(tmp_path))
    default = tmp_path / ".kube" / "config"
    default.parent.mkdir()
    kubeconfig(tmp_path, NOWHERE).rename(default)
    assert Access(None).context == "lab"
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/a:{tmp_path}/b")
    with pytest.raises(InputError, match=f"{tmp_path}/b: No such file") as error:
        Access(None)
    assert "KUBECONFIG" in error.value.remedy
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/a:{default}")
    assert Access(None).context == "lab"


def test_requests_are_those_of_the_user_of_the_context(tmp_path: Path) -> None:
    api = Heard()
    with serving(api) as address:
        access = Access(kubeconfig(tmp_path, address))
        assert access.server_version == "v1.34.4"
        assert api.headers["Authorization"] == "Bearer very-secret-token"
        assert api.headers["User-Agent"].startswith("cnibench/")
        access.close()
        assert access.call("GET", "/version").ok, "a connection that was closed is made again"
        acting = Access(kubeconfig(tmp_path, address), acting=("jane", ("a", "b")))
        assert acting.call("GET", "/version").ok
        assert api.headers["Impersonate-User"] == "jane"
        assert api.headers.get_all("Impersonate-Group") == ["a", "b"]  # type: ignore[attr-defined]
        named = kubeconfig(tmp_path, address, {"token": "x", "as": "joe", "as-groups": ["c"]})
        assert Access(named).call("GET", "/version").ok
        assert (api.headers["Impersonate-User"], api.headers["Impersonate-Group"]) == ("joe", "c")


def test_requests_take_the_proxy_of_the_kubeconfig(tmp_path: Path) -> None:
    class Proxy:
        def call(self, method: str, path: str, body: Any, *, headers: Mapping[str, str]) -> Answer:
            self.seen = path, headers["Proxy-Authorization"]
            return Answer(200, {"gitVersion": "v1.34.4"})

    proxy = Proxy()
    with serving(proxy) as address:
        path = kubeconfig(tmp_path, "http://api.invalid")
        config = json.loads(path.read_text())
        where = address.replace("//", "//me:p%40ss@")
        config["clusters"][0]["cluster"]["proxy-url"] = where
        path.write_text(json.dumps(config))
        assert Access(path).server_version == "v1.34.4"
    assert proxy.seen == ("http://api.invalid/version", "Basic bWU6cEBzcw==")


def test_a_credential_plugin_runs_once_and_again_when_its_token_is_not_accepted(
    tmp_path: Path,
) -> None:
    credential = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": "TOKEN"},
    }
    script = tmp_path / "plugin"
    script.write_text(
        f"#!/bin/sh\necho run >> {tmp_path}/runs\nn=$(wc -l < {tmp_path}/runs)\n"
        f"echo '{json.dumps(credential)}' | sed s/TOKEN/token-$n/\n"
    )
    script.chmod(0o755)
    plugin = {"command": str(script), "apiVersion": credential["apiVersion"]}
    api = Heard()
    with serving(api) as address:
        access = Access(kubeconfig(tmp_path, address, {"exec": plugin}))
        for _ in range(5):
            assert access.call("GET", "/version").ok
        assert api.headers["Authorization"] == "Bearer token-1"
        api.refused = {"GET /version": "unauthorized"}
        with pytest.raises(DeniedError, match="Unauthorized") as error:
            _ = access.server_version
        assert "does not accept the user" in error.value.remedy
        assert api.headers["Authorization"] == "Bearer token-2"
    script.write_text("#!/bin/sh\necho no account here >&2\nexit 1\n")
    broken = Access(kubeconfig(tmp_path, NOWHERE, {"exec": plugin}))
    assert "no account here" in broken.call("GET", "/version").message


def test_no_secret_of_the_kubeconfig_is_reported(tmp_path: Path) -> None:
    user = {"token": "very-secret-token", "client-key-data": "a2V5LWRhdGE="}
    access = Access(kubeconfig(tmp_path, NOWHERE, user))
    said = Answer(500, message="Bearer very-secret-token a2V5LWRhdGE= rejected")
    assert "Bearer (secret) (secret) rejected" in access.refusal(said, "nothing").message


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("forbidden", DeniedError),
        ("unauthorized", DeniedError),
        ("conflict", ClusterError),
        ("node-port-taken", InvalidError),
    ],
)
def test_what_a_real_api_server_answers_has_a_type(
    name: str, kind: type[ClusterError], tmp_path: Path
) -> None:
    api = Objects()
    api.refused = {"GET /api/v1/namespaces/x": name}
    with serving(api) as address:
        access = Access(kubeconfig(tmp_path, address))
        with pytest.raises(ClusterError) as error:
            access.find("namespaces", "x")
    assert type(error.value) is kind
    if isinstance(error.value, InvalidError):
        assert error.value.fields == ("spec.ports[0].nodePort",)


def test_an_api_server_that_is_not_there_is_unreachable(tmp_path: Path) -> None:
    access = Access(kubeconfig(tmp_path, NOWHERE))
    with pytest.raises(UnreachableError, match="does not answer: Connection refused"):
        access.listed("nodes")
    assert access.unanswered() == "Connection refused"


def test_objects_are_made_applied_listed_and_deleted_by_their_uids(tmp_path: Path) -> None:
    api = Objects()
    item = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "n"}}
    with serving(api) as address:
        access = Access(kubeconfig(tmp_path, address))
        (made,) = access.create({**item, "data": {"a": "1"}})
        with pytest.raises(ClusterError, match="already exists"):
            access.create(item)
        (changed,) = access.apply({**item, "data": {"a": "2"}})
        assert changed["metadata"]["uid"] == made["metadata"]["uid"]
        assert api.asked[-1].endswith("?fieldManager=cnibench&force=true&fieldValidation=Strict")
        assert [one["data"] for one in access.listed("configmaps", "n")] == [{"a": "2"}]
        path = "/api/v1/namespaces/n/configmaps/x"
        assert not Rest(access).delete(path, "another"), "the object that has its name now stays"
        assert Rest(access).delete(path, made["metadata"]["uid"])
        assert access.find("configmap", "x", "n") is None
        with pytest.raises(ClusterError, match="there is no configmap x in n"):
            access.get("configmap", "x", "n")


def test_those_with_a_label_are_deleted_and_waited_for(tmp_path: Path) -> None:
    def pod(name: str, label: str) -> dict[str, Any]:
        meta = {"name": name, "namespace": "n", "labels": {"own": label}}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": meta}

    api = Objects(pod("a", "mine"), pod("b", "yours"))
    with serving(api) as address:
        Access(kubeconfig(tmp_path, address)).delete("pods", "n", "own=mine", grace=0, wait=5.0)
    assert api.at("pods", "a", "n") is None
    assert api.at("pods", "b", "n") is not None


def test_kinds_of_others_are_discovered_once(tmp_path: Path) -> None:
    api = Objects()
    with serving(api) as address:
        access = Access(kubeconfig(tmp_path, address))
        found = access.served("priorityclasses.scheduling.k8s.io")
        assert found is not None
        assert found.path(name="x") == "/apis/scheduling.k8s.io/v1/priorityclasses/x"
        assert access.served("PriorityClass") == found
        assert api.asked == ["GET /apis"]
        assert access.look_up("tigerastatus/calico") is None, "there is no such kind"


def test_recorded_answers_are_those_of_a_real_api_server() -> None:
    assert answer("pod-security").reason == answer("quota").reason == "Forbidden"
    assert answer("other-uid").status == 409


def test_versions_are_read() -> None:
    assert version("kind v0.33.0 go1.26.8 linux/amd64") == (0, 33)
    assert version("v3.22.0+g144f4ff") == (3, 22)
    assert version("what?") is None


def test_the_client_is_imported_where_a_cluster_is_asked_and_nowhere_else() -> None:
    program = """
import sys
import cnibench.cli.main, cnibench.clusters.existing, cnibench.clusters.kind
assert "kubernetes" not in sys.modules and "websocket" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
