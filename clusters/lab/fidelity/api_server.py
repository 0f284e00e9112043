"""A real API server with its store, for the agents of a deployment: both are processes on node a,
where their sockets are all that the kernel has of them.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import secrets
import ssl
import time
from collections.abc import Mapping
from typing import Any

from cnibench.clusters.lab.daemons.processes import Daemons
from cnibench.clusters.lab.fidelity.adapter import Object
from cnibench.clusters.lab.namespaces.places import LabNode
from cnibench.errors import ClusterError

PROGRAMS = ("kube-apiserver", "etcd")
_PORT, _STORE, _PEERS = 6443, 2379, 2380
_START = 60.0  # s: a loaded machine with a cold page cache takes 20
_ANSWER = 20.0  # s for one request
_DEFINED, _AGAIN = 10.0, 0.1  # s until a kind that was just defined can be used
_MOST = 1 << 30  # bytes of a file of the store, which is made larger than it is
_SERVICES = "10.96.0.0/12"
# A private key of the curve P-256 (RFC 5915, SEC 1) around its 32 bytes: readers of it compute the
# public key themselves.
_KEY_HEAD, _KEY_TAIL = bytes.fromhex("303102010104 20"), bytes.fromhex("a00a06082a8648ce3d030107")


class ApiServer:
    """Started by ``start``, ended with the deployment's daemons."""

    def __init__(self, node: LabNode, daemons: Daemons, programs: Mapping[str, str]) -> None:
        self._node, self._daemons, self._programs = node, daemons, programs
        self._token = secrets.token_hex(16)
        self.url = f"https://{node.addresses[4]}:{_PORT}"

    def start(self) -> None:
        """Raises ClusterError with the last lines of the program that did not start."""
        file = self._daemons.file
        key = _KEY_HEAD + secrets.token_bytes(31).rjust(32, b"\1") + _KEY_TAIL
        lines = base64.encodebytes(key).decode()
        file("account.key").write_text(
            f"-----BEGIN EC PRIVATE KEY-----\n{lines}-----END EC PRIVATE KEY-----\n"
        )
        file("tokens.csv").write_text(f"{self._token},cnibench,cnibench,system:masters\n")
        self._daemons.start("etcd", self._node.ns, self._store(), most=_MOST)
        self._daemons.start("kube-apiserver", self._node.ns, self._server(), most=_MOST)
        self._daemons.wait("the API server answers", self._answers, _START)

    def _store(self) -> list[str]:
        client, peer = (f"http://127.0.0.1:{port}" for port in (_STORE, _PEERS))
        return [
            self._programs["etcd"],
            f"--data-dir={self._daemons.file('etcd')}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
        ]

    def _server(self) -> list[str]:
        file = self._daemons.file
        return [
            self._programs["kube-apiserver"],
            f"--etcd-servers=http://127.0.0.1:{_STORE}",
            f"--cert-dir={file('certificates')}",
            f"--secure-port={_PORT}",
            f"--advertise-address={self._node.addresses[4]}",
            f"--service-cluster-ip-range={_SERVICES}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={file('account.key')}",
            f"--service-account-signing-key-file={file('account.key')}",
            f"--token-auth-file={file('tokens.csv')}",
            "--authorization-mode=AlwaysAllow",
            "--disable-admission-plugins=ServiceAccount",
            "--allow-privileged=true",
        ]

    def _answers(self) -> bool:
        with contextlib.suppress(OSError, http.client.HTTPException):
            return self._ask("GET", "/readyz")[0] == 200
        return False

    def kubeconfig(self) -> str:
        """For the agents, which do not check whose certificate the server has."""
        return json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "lab",
                "clusters": [
                    {
                        "name": "lab",
                        "cluster": {"server": self.url, "insecure-skip-tls-verify": True},
                    }
                ],
                "users": [{"name": "lab", "user": {"token": self._token}}],
                "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "lab"}}],
            }
        )

    def create(self, obj: Object) -> None:
        """An object, and its status where it has one. One that is there stays. Raises
        ClusterError.
        """
        path = self._path(obj)
        name = obj["metadata"]["name"]
        limit = time.monotonic() + _DEFINED
        status, said = self._ask("POST", path, obj)
        while status == 404 and time.monotonic() < limit:  # its definition is being established
            time.sleep(_AGAIN)
            status, said = self._ask("POST", path, obj)
        if status not in (200, 201, 409):
            remedy = "is its CustomResourceDefinition in no --manifest?" if status == 404 else ""
            raise ClusterError(
                f"the API server refuses {obj['kind']} {name}: {_message(said)}", remedy
            )
        if "status" in obj and status != 409:
            kind = "application/merge-patch+json"
            change = {"status": obj["status"]}
            status, said = self._ask("PATCH", f"{path}/{name}/status", change, kind)
            if status != 200:
                raise ClusterError(f"the API server refuses {obj['kind']} {name}: {_message(said)}")

    def _path(self, obj: Object) -> str:
        group = obj["apiVersion"]
        start = f"/api/{group}" if "/" not in group else f"/apis/{group}"
        namespace = obj["metadata"].get("namespace")
        where = f"/namespaces/{namespace}" if namespace else ""
        return f"{start}{where}/{_plural(obj['kind'])}"

    def _ask(
        self, method: str, path: str, body: Any = None, kind: str = "application/json"
    ) -> tuple[int, bytes]:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection = http.client.HTTPSConnection(
            self._node.addresses[4], _PORT, timeout=_ANSWER, context=context
        )
        with contextlib.closing(connection):
            with self._node.ns.inside():
                connection.connect()
            connection.request(
                method,
                path,
                None if body is None else json.dumps(body),
                {"Authorization": f"Bearer {self._token}", "Content-Type": kind},
            )
            answer = connection.getresponse()
            return answer.status, answer.read()


def _plural(kind: str) -> str:
    word = kind.lower()
    if word.endswith("endpoints"):
        return word
    if word.endswith("y"):
        return f"{word[:-1]}ies"
    return f"{word}es" if word.endswith("s") else f"{word}s"


def _message(said: bytes) -> str:
    with contextlib.suppress(ValueError, KeyError, TypeError):
        return str(json.loads(said)["message"])
    return said[:200].decode(errors="replace")
